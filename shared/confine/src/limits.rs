//! Descriptors and resource limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Closes every descriptor but the standard ones: a parent may have inherited some of its own. Call it first in
/// `main`, before anything is opened.
#[expect(unsafe_code, reason = "there is no safe call; no descriptor is in use yet")]
pub fn close_descriptors() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: called before anything in this process has opened a file. Kernels before 5.9 refuse it.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
}

pub fn no_core_dumps() {
    limit(Resource::Core, 0);
}

/// No new descriptor, no file, no process or thread, and at most so much address space.
pub fn set_hard(max_memory_bytes: u64) {
    limit(Resource::As, max_memory_bytes);
    limit(Resource::Nofile, 0);
    limit(Resource::Fsize, 0);
    limit(Resource::Nproc, 0);
}

/// Sets the soft and the hard limit. A hard limit that is lower already stays.
fn limit(resource: Resource, limit: u64) {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let limit = Some(maximum.map_or(limit, |maximum| limit.min(maximum)));
    let _ = setrlimit(resource, Rlimit { current: limit, maximum: limit });
}
