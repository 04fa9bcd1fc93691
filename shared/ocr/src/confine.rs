//! Takes from this process what it does not need before it sees the first image.
//!
//! Where the kernel lacks a means, the others still hold: nothing here fails the start.

use std::{collections::BTreeMap, io};

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// Before the languages are loaded: priority (19 is the lowest) and memory.
pub fn limit(nice: i32, max_memory_bytes: u64) -> io::Result<()> {
    // Refused where the process is less favoured already.
    let _ = rustix::process::nice(nice);
    set_limit(Resource::Core, 0)?;
    set_limit(Resource::As, max_memory_bytes)
}

/// After the languages are loaded: no file, no network, no new process or privilege.
pub fn seal() {
    let _ = set_limit(Resource::Nofile, 0);
    let _ = landlock();
    if let Some(filter) = filter() {
        let _ = apply_filter(&filter);
    }
}

/// Sets a hard limit: a process that was taken over can't raise it again.
fn set_limit(resource: Resource, limit: u64) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let limit = Some(maximum.map_or(limit, |maximum| limit.min(maximum)));
    Ok(setrlimit(resource, Rlimit { current: limit, maximum: limit })?)
}

/// No path at all, and no TCP.
fn landlock() -> Result<(), landlock::RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V5))?
        .create()?
        .restrict_self()?;
    Ok(())
}

/// What reading pipes, memory and the end of the process need. Everything else is refused with EPERM.
const ALLOWED: [i64; 26] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_readv,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

fn filter() -> Option<BpfProgram> {
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, vec![])).collect();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refuse, SeccompAction::Allow, architecture).ok()?.try_into().ok()
}
