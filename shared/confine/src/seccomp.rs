//! seccomp: the system calls of a process that computes, reads and writes its pipes, and ends.

use std::{collections::BTreeMap, env::consts::ARCH, process};

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, apply_filter_all_threads,
};

/// Everything else is refused with `EPERM`: a library that asks for more gets an error and not a signal.
const ALLOWED: [libc::c_long; 28] = [
    // The open descriptors.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_close,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    // Threads that run already.
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    // The end.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Applies the filter to this thread. Whether the kernel enforces it.
pub fn apply() -> bool {
    filter().and_then(|filter| apply_filter(&filter)).is_ok()
}

pub fn apply_to_all_threads() -> bool {
    filter().and_then(|filter| apply_filter_all_threads(&filter)).is_ok()
}

fn filter() -> Result<BpfProgram, Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, vec![])).collect();
    // abort() signals the own process; no other one may be signalled.
    let own = u64::from(process::id());
    let own = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, own)?;
    rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![own])?]);
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, TargetArch::try_from(ARCH)?)?;
    Ok(filter.try_into()?)
}
