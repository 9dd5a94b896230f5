//! Which system calls exist: seccomp.
//!
//! The filter is a list of what is allowed. All other calls are answered with `ENOSYS`, as by a kernel that does not have them:
//! libraries then do without, as they do on old kernels. So a call that is missing in this list, in a path that is taken once in
//! a year, costs at most a feature, and never ends a capture. An attacker's calls get the same answer.
//! Nothing here needs to know a path or another process: those are for Landlock, and their calls are refused where it is missing.
//!
//! Calls that are frequent are allowed by their number alone. The kernel keeps these numbers in a bitmap (Linux 5.11) and runs no
//! filter for them.

use super::needs::Needs;
use libc::{c_int, c_long};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};
use std::collections::BTreeMap;

type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Restricts all threads of this process. Returns whether the kernel accepted it.
pub fn restrict(needs: &Needs) -> bool {
    program(needs).is_some_and(|program| apply_filter_all_threads(&program).is_ok())
}

fn program(needs: &Needs) -> Option<seccompiler::BpfProgram> {
    let architecture = std::env::consts::ARCH.try_into().ok()?;
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(calls(needs)?, refused, SeccompAction::Allow, architecture);
    filter.ok()?.try_into().ok()
}

fn calls(needs: &Needs) -> Option<Calls> {
    let always = [
        DATA,
        FILES,
        MEMORY,
        PROCESS,
        SIGNALS,
        TIME,
        OPEN_SOCKETS,
        OLD,
    ];
    let mut calls: Calls = always
        .concat()
        .into_iter()
        .map(|call| (call, vec![]))
        .collect();
    let mut limited = |call: c_long, conditions: Vec<Condition>| {
        let conditions: Option<Vec<_>> = conditions.into_iter().collect();
        let rule = SeccompRule::new(conditions?).ok()?;
        calls.entry(call).or_default().push(rule);
        Some(())
    };
    // Threads, not processes. clone3 has its flags in memory, where no filter can read them; libraries then use clone.
    limited(libc::SYS_clone, vec![has(0, libc::CLONE_THREAD)])?;
    // This process, not another.
    limited(libc::SYS_tgkill, vec![is(0, own_pid())])?;
    limited(libc::SYS_prlimit64, vec![is(0, 0)])?;
    let own = [is(0, libc::PRIO_PROCESS as c_int), is(1, 0)];
    limited(libc::SYS_setpriority, own.into())?;
    // No new file takes its owner's or group's rights along when it is executed.
    let open = match needs.processes {
        true => open_to_read,
        false => open_plain_files,
    };
    open(&mut limited, libc::SYS_openat, 2)?;
    #[cfg(target_arch = "x86_64")]
    open(&mut limited, libc::SYS_open, 1)?;
    if needs.narrows() {
        limited(libc::SYS_fchmod, vec![is(1, 0o600)])?;
    }
    for operation in PRCTL {
        limited(libc::SYS_prctl, vec![is(0, operation)])?;
    }
    // The times of an open file, not of one with a name.
    limited(libc::SYS_utimensat, vec![is_null(1)])?;
    // No signals to the process that a descriptor names as its owner.
    let owners = [libc::F_SETOWN, F_SETOWN_EX];
    limited(libc::SYS_fcntl, owners.map(|it| is_not(1, it)).into())?;
    limited(
        libc::SYS_ioctl,
        IOCTL_REFUSED.map(|it| is_not(1, it)).into(),
    )?;
    // Both ends in this process; and no datagrams, which could be sent elsewhere.
    let stream = is_masked(1, 0xf, libc::SOCK_STREAM);
    limited(libc::SYS_socketpair, vec![is(0, libc::AF_UNIX), stream])?;
    // A packet socket is detached at the end.
    let of_link = size_of::<libc::sockaddr_ll>() as c_int;
    limited(libc::SYS_bind, vec![is(2, of_link)])?;
    if needs.pins {
        // The calling thread, not another.
        limited(libc::SYS_sched_setaffinity, vec![is(0, 0)])?;
    }
    if needs.shares {
        // Few other sockets than those of shares have this type.
        let packets = is_masked(1, 0xf, libc::SOCK_SEQPACKET);
        limited(libc::SYS_socket, vec![is(0, libc::AF_UNIX), packets])?;
    }
    if needs.network {
        for family in [libc::AF_INET, libc::AF_INET6] {
            limited(libc::SYS_socket, vec![is(0, family)])?;
        }
        // The C library asks which addresses this machine has.
        let route = is(2, libc::NETLINK_ROUTE);
        limited(libc::SYS_socket, vec![is(0, libc::AF_NETLINK), route])?;
        calls.extend(NETWORK.map(|call| (call, vec![])));
    } else {
        if !needs.sends {
            limited(libc::SYS_sendto, vec![is_null(4)])?;
        }
        // No code is loaded or made.
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            limited(call, vec![is_masked(2, libc::PROT_EXEC, 0)])?;
        }
    }
    if needs.shares {
        calls.insert(libc::SYS_connect, vec![]);
    }
    // Its address is in memory, where no filter can read it: through a socket for datagrams it reaches every such socket.
    if needs.readers {
        calls.insert(libc::SYS_sendmsg, vec![]);
    }
    // Frames, through packet sockets that are open. The address is in memory, as above, so a condition on that of `sendto` would
    // prevent nothing, and would make the kernel run the filter for each frame.
    if needs.sends {
        calls.extend([libc::SYS_sendmmsg, libc::SYS_sendto].map(|call| (call, vec![])));
    }
    if let Some(group) = needs.helper {
        let group = -group.as_raw_nonzero().get();
        calls.insert(
            libc::SYS_kill,
            vec![SeccompRule::new(vec![is(0, group)?]).ok()?],
        );
    }
    if needs.identity {
        calls.extend(IDENTITY.map(|call| (call, vec![])));
    }
    if needs.processes {
        for call in CHANGES_OF_FOLDERS {
            calls.remove(call);
        }
    }
    Some(calls)
}

/// Allows to open files for reading, where Landlock does not refuse the others.
fn open_to_read(
    limited: &mut dyn FnMut(c_long, Vec<Condition>) -> Option<()>,
    call: c_long,
    flags: u8,
) -> Option<()> {
    let creating = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    let changing = libc::O_ACCMODE | creating | libc::O_TRUNC;
    limited(call, vec![is_masked(flags, changing, libc::O_RDONLY)])
}

/// Allows to open files, and to create files that are neither set-user-ID nor set-group-ID. The mode follows the flags.
fn open_plain_files(
    limited: &mut dyn FnMut(c_long, Vec<Condition>) -> Option<()>,
    call: c_long,
    flags: u8,
) -> Option<()> {
    // O_TMPFILE contains O_DIRECTORY, which alone creates nothing.
    let creating = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    let set_id = (libc::S_ISUID | libc::S_ISGID) as c_int;
    limited(call, vec![is_masked(flags, creating, 0)])?;
    limited(call, vec![is_masked(flags + 1, set_id, 0)])
}

type Condition = Option<SeccompCondition>;

/// A condition on a 32-bit argument. The kernel ignores its upper half, and so does the comparison.
fn condition(argument: u8, operation: SeccompCmpOp, value: c_int) -> Condition {
    let value = u64::from(value.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value).ok()
}

fn is(argument: u8, value: c_int) -> Condition {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: c_int) -> Condition {
    condition(argument, SeccompCmpOp::Ne, value)
}

fn is_masked(argument: u8, mask: c_int, value: c_int) -> Condition {
    let mask = u64::from(mask.cast_unsigned());
    condition(argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn has(argument: u8, flag: c_int) -> Condition {
    is_masked(argument, flag, flag)
}

fn is_null(argument: u8) -> Condition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0).ok()
}

fn own_pid() -> c_int {
    rustix::process::getpid().as_raw_nonzero().get()
}

// From the kernel's headers; not in the libc crate for every target.
const F_SETOWN_EX: c_int = 15;
const PR_SET_VMA: c_int = 0x5356_4d41;
const SYS_CACHESTAT: c_long = 451;

/// Names of threads and of memory, and giving up privileges.
const PRCTL: [c_int; 9] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    PR_SET_VMA,
    libc::PR_CAPBSET_READ,
    libc::PR_CAPBSET_DROP,
    libc::PR_CAP_AMBIENT,
    libc::PR_SET_NO_NEW_PRIVS,
    // A sender is woken on time.
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_TIMERSLACK,
];

/// Typing into the terminal, which its shell would run; and owners of descriptors, which get signals.
const IOCTL_REFUSED: [c_int; 4] = [
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
    0x8901, // FIOSETOWN
    0x8902, // SIOCSPGRP
];

/// Moving bytes, and waiting for them.
const DATA: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_close,
    libc::SYS_close_range,
];

/// Files. Landlock decides which ones; calls on paths that it does not control, such as chmod and setxattr, are not here. Nor is
/// fchmod, which changes any file that can be opened to read.
const FILES: &[c_long] = &[
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_lseek,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    SYS_CACHESTAT,
    libc::SYS_readahead,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_flock,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_renameat,
];

/// What changes a folder, or a file by its name.
const CHANGES_OF_FOLDERS: &[c_long] = &[
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
];

const MEMORY: &[c_long] = &[
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_brk,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
];

const PROCESS: &[c_long] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_getpriority,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
];

const SIGNALS: &[c_long] = &[
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_sigaltstack,
];

/// The clock, usually without a call, and waiting.
const TIME: &[c_long] = &[
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
];

/// Sockets that are open, and the connections of those that listen.
const OPEN_SOCKETS: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// Calls that only x86 has; musl and older libraries use them.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_link,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_getpgrp,
    libc::SYS_time,
    libc::SYS_arch_prctl,
    libc::SYS_pause,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// `get`: a name is looked up, and a connection made, for each redirect.
const NETWORK: [c_long; 7] = [
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_mmap,
    libc::SYS_mprotect,
];

/// `-Z`. Without the capabilities that are given up next, these have no effect.
const IDENTITY: [c_long; 3] = [
    libc::SYS_setgroups,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
];
