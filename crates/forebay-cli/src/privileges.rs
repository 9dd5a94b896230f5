//! Drops capabilities: those that a subcommand never needs before it reads anything, and those for opening interfaces before
//! the first packet is parsed and the first file made.
//!
//! ```text
//!  keep_for ─▶ interfaces are opened ─▶ shed, sandbox ─▶ files to read are opened ─▶ become USER (-Z) ─▶ first output file ─▶ threads
//! ```
//! Capabilities belong to threads. They are dropped while there is one thread; later threads inherit none. From then on no
//! thread can open a packet socket, and every output file is opened with the same rights. Root's rights to files go once no file is
//! opened any more; threads that parse what others send never have them.

use crate::{
    args::{self, QueueCommand},
    usage::refuse,
};
use anyhow::{Context, Result, bail};
use forebay_net::open::Name;
use nix::unistd::{
    Gid, Uid, User, getegid, geteuid, getgid, getgrouplist, getuid, setgroups, setresgid, setresuid,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use std::{ffi::CString, os::unix::process::CommandExt, process::Command, slice};

/// Lets root write where it expects to. Without it, root is subject to file permissions like any user.
const FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);
/// Needed to become another user, and lost afterwards.
const IDENTITY: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// Drops every capability that this subcommand never needs, before it reads foreign bytes.
///
/// # Errors
/// The system rejects the request.
pub fn keep_for(command: &args::Command) -> Result<()> {
    use CapabilitySet as Set;
    use args::Command;
    let needed = match command {
        Command::Capture(flags) => {
            let mut opening = for_opening(&flags.interfaces);
            let ports = [flags.sharing.serve, flags.metrics];
            if ports.into_iter().flatten().any(|it| it.port() < 1024) {
                opening |= Set::NET_BIND_SERVICE;
            }
            match flags.user {
                None => opening,
                Some(_) => opening | IDENTITY,
            }
        }
        Command::Top(flags) => for_opening(&flags.sources().0),
        Command::Generate(flags) => for_opening(slice::from_ref(&flags.interface)),
        Command::Verify(flags) => for_opening(&flags.interfaces),
        Command::Bridge(flags) => for_opening(&[flags.first.clone(), flags.second.clone()]),
        Command::Replay(flags) => for_opening(slice::from_ref(&flags.interface)),
        // To detect and exclude other programs that write a file.
        Command::Repair(_) => Set::LEASE,
        // The files of root's processes.
        Command::Pipe(flags) if flags.watched.is_some() => Set::SYS_PTRACE,
        // More memory in pipes than a user may have, and ports below 1024; until both are open.
        Command::Pipe(_) => Set::SYS_RESOURCE | Set::NET_BIND_SERVICE,
        // Another user's queue.
        Command::Queue(flags) => match flags.command {
            QueueCommand::Remove(_) => Set::FOWNER,
            _ => Set::empty(),
        },
        // To find out whether packet sockets may be opened.
        Command::Doctor(_) => Set::NET_RAW,
        // The same, and for AF_XDP.
        Command::Interfaces(_) => Set::NET_RAW | Set::NET_ADMIN | Set::BPF,
        // The program that it becomes is to have all of them.
        Command::With(_) => return Ok(()),
        Command::Get(_)
        | Command::Shares(_)
        | Command::Extcap(_)
        | Command::Control(_)
        | Command::Trigger(_)
        | Command::Info(_)
        | Command::Flows(_)
        | Command::Records(_)
        | Command::Man(_)
        | Command::Completions(_) => Set::empty(),
    };
    give_up_all_but(needed)
}

/// The capabilities for opening these ports.
fn for_opening(names: &[Name]) -> CapabilitySet {
    let bits = names.iter().map(Name::capabilities);
    CapabilitySet::from_bits_retain(bits.fold(0, |all, one| all | one))
}

/// Whether this process may attach a program that redirects frames to an AF_XDP socket. The error names what is missing.
///
/// # Errors
/// A capability is missing, or this is a user namespace, in which the kernel loads no such program.
pub fn may_redirect() -> std::result::Result<(), &'static str> {
    let has = |one: CapabilitySet| capabilities(None).is_ok_and(|now| now.effective.contains(one));
    let map = std::fs::read_to_string("/proc/self/uid_map");
    let is_whole = map.map_or(true, |map| {
        map.split_whitespace().eq(["0", "0", "4294967295"])
    });
    match (has(CapabilitySet::NET_ADMIN), has(CapabilitySet::BPF)) {
        (false, _) => Err("CAP_NET_ADMIN"),
        (_, false) => Err("CAP_BPF"),
        _ if !is_whole => Err("CAP_BPF outside of the user namespace"),
        _ => Ok(()),
    }
}

/// Rejects a set-user-ID or set-group-ID start: the program would read and write any file for any user.
///
/// # Errors
/// The program was started that way.
pub fn reject_setuid() -> Result<()> {
    if geteuid() == getuid() && getegid() == getgid() {
        return Ok(());
    }
    bail!(
        "this program is set-user-ID or set-group-ID, and would open any file for anybody. Take that back, and give it what capturing needs: chmod ug-s FILE; setcap cap_net_raw,cap_net_admin+ep FILE"
    );
}

/// The user named by `-Z`.
#[derive(Clone, Debug)]
pub struct Identity {
    name: String,
    uid: Uid,
    gid: Gid,
    /// The groups to have; `None`: those of root.
    groups: Option<Vec<Gid>>,
}

impl Identity {
    /// Looks a user up by name.
    ///
    /// # Errors
    /// There is no such user, or this process may not become another user.
    pub fn named(name: &str) -> Result<Identity> {
        let user = User::from_name(name).context("users cannot be looked up")?;
        let Some(user) = user else {
            return refuse(format!("-Z {name}: there is no such user"));
        };
        if !geteuid().is_root() {
            return refuse(format!(
                "-Z {name}: only root can become another user. Leave it out: nothing that capturing needs is kept anyway"
            ));
        }
        let groups = || {
            let name = CString::new(name).map_err(|_| nix::Error::EINVAL)?;
            getgrouplist(&name, user.gid)
        };
        let groups = (!user.uid.is_root()).then(groups).transpose();
        Ok(Identity {
            groups: groups.context("groups cannot be looked up")?,
            name: user.name,
            uid: user.uid,
            gid: user.gid,
        })
    }

    /// Lets `command` run as this user, with the user's own group only.
    pub fn start_as(&self, command: &mut Command) {
        command.uid(self.uid.as_raw()).gid(self.gid.as_raw());
    }

    /// Becomes this user, with the user's groups, in all threads and for good.
    ///
    /// # Errors
    /// The system rejects the request.
    pub fn assume(&self) -> Result<()> {
        let Identity {
            name,
            uid,
            gid,
            groups,
        } = self;
        let groups = groups.as_deref();
        groups
            .map_or(Ok(()), setgroups)
            .and_then(|()| setresgid(*gid, *gid, *gid))
            .and_then(|()| setresuid(*uid, *uid, *uid))
            .with_context(|| format!("-Z {name}: this process cannot become that user"))?;
        if !uid.is_root() && setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok()
        {
            bail!("-Z {name}: the way back to root is still open");
        }
        let keep = if uid.is_root() {
            FILES
        } else {
            CapabilitySet::empty()
        };
        keep_only(keep).context("capabilities cannot be given up")
    }
}

/// Drops every capability but root's rights to files, and those that `-Z` still needs. An executed program cannot gain any.
///
/// # Errors
/// The system rejects the request.
pub fn shed(next: Option<&Identity>) -> Result<()> {
    give_up_all_but(match next {
        Some(_) => IDENTITY,
        None => CapabilitySet::empty(),
    })
}

/// Drops every capability, root's rights to files included.
///
/// # Errors
/// The system rejects the request.
pub fn drop_all() -> Result<()> {
    set_no_new_privs(true)
        .and_then(|()| keep_only(CapabilitySet::empty()))
        .context("capabilities cannot be given up")
}

/// Drops root's rights to files, which are the last ones, once this thread and those that it starts open no file any more.
///
/// # Errors
/// The system rejects the request.
pub fn drop_files() -> Result<()> {
    set_capabilities(
        None,
        CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        },
    )
    .context("capabilities cannot be given up")
}

/// Calls `start` on a thread without any capability, so that the threads that it starts have none either.
///
/// # Errors
/// Those of `start`, or the system rejects the request.
pub fn start_without<T: Send>(start: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("forebay-start".into());
        let started = thread.spawn_scoped(scope, || drop_files().and_then(|()| start()));
        let started = started.context("cannot start a thread")?.join();
        started.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn give_up_all_but(needed: CapabilitySet) -> Result<()> {
    let files = match geteuid().is_root() {
        true => FILES,
        false => CapabilitySet::empty(),
    };
    set_no_new_privs(true)
        .and_then(|()| keep_only(files | needed))
        .context("capabilities cannot be given up")
}

fn keep_only(keep: CapabilitySet) -> rustix::io::Result<()> {
    let now = capabilities(None)?;
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter() {
            // A capability that this kernel does not know cannot be gained either.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    clear_ambient_capability_set()?;
    let left = now.permitted & keep;
    set_capabilities(
        None,
        CapabilitySets {
            effective: left,
            permitted: left,
            inheritable: CapabilitySet::empty(),
        },
    )
}
