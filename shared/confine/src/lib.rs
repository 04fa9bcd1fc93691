//! Confines a process that reads hostile files: no file, no network, no other process, no new privileges.
//!
//! ```text
//! close_descriptors()   first of all
//! drop_rights()         before any thread starts: capabilities, core dumps, Landlock
//! seal()                before the first hostile byte is read: hard limits, seccomp for all threads
//! ```
//!
//! Read what the process needs before `seal`, or have it as an open descriptor; there is no list of readable files, because a process that has
//! read its data needs none. Where the kernel lacks Landlock or seccomp, the other parts still hold: nothing here
//! fails the start. [`kernel_support`] says what there is.

mod landlock;
mod limits;
mod seccomp;

use std::{fmt, thread};

pub use limits::close_descriptors;

use rustix::{
    process::{DumpableBehavior, set_dumpable_behavior},
    thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs},
};

/// How well this kernel can confine a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// No file can be opened and no TCP connection made.
    pub landlock: bool,
    /// No system call beyond those that a parser needs.
    pub seccomp: bool,
}

impl Support {
    pub fn is_complete(self) -> bool {
        self.landlock && self.seccomp
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.landlock, self.seccomp) {
            (true, true) => "Landlock and seccomp: no file, no network, no other process",
            (true, false) => "Landlock only: this kernel has no seccomp filters",
            (false, true) => "seccomp only: this kernel has no Landlock",
            (false, false) => "resource limits only: this kernel has neither Landlock nor seccomp filters",
        })
    }
}

/// Makes the memory and the environment of this process unreadable for other processes of the same user, its own
/// parsers included, and switches core dumps off.
pub fn protect_memory() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Gives up what a parser never needs; later opens fail. Call it before any thread starts.
pub fn drop_rights() {
    limits::no_core_dumps();
    protect_memory();
    let _ = set_no_new_privs(true);
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // A process without capabilities has none to give up.
    let _ = set_capabilities(None, none);
    landlock::restrict();
}

/// Refuses all system calls but those that computing and the open descriptors need, in every thread, and limits
/// the address space. The limits are hard: the process can't raise them again.
pub fn seal(max_memory_bytes: u64) {
    limits::set_hard(max_memory_bytes);
    seccomp::apply_to_all_threads();
}

/// Tries both in a thread that then ends: they apply to a thread at first.
pub fn kernel_support() -> Support {
    let tried = thread::spawn(|| Support { landlock: landlock::restrict(), seccomp: seccomp::apply() });
    tried.join().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io, net::TcpStream, process::Command};

    use super::*;

    /// The error numbers of what a thread can't do any more after `confine`.
    fn refused(confine: fn() -> bool) -> Option<[Option<i32>; 3]> {
        let number = |error: io::Error| error.raw_os_error().unwrap_or_default();
        let tried = thread::spawn(move || {
            confine().then(|| {
                [
                    File::open("/etc/passwd").map_err(number).err(),
                    // Nothing listens there: without confinement it is refused by the system alone.
                    TcpStream::connect("127.0.0.1:9").map_err(number).err(),
                    Command::new("/bin/true").spawn().map_err(number).err(),
                ]
            })
        });
        tried.join().unwrap()
    }

    #[test]
    fn each_means_holds_by_itself() {
        assert_eq!(refused(|| true).unwrap(), [None, Some(libc::ECONNREFUSED), None], "not confined");
        if let Some(refused) = refused(landlock::restrict) {
            assert_eq!((refused[0], refused[2]), (Some(libc::EACCES), Some(libc::EACCES)));
        }
        if let Some(refused) = refused(seccomp::apply) {
            assert_eq!(refused, [Some(libc::EPERM); 3]);
        }
    }
}
