//! Which files can be opened: Landlock.

use super::needs::Needs;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::{env, io::stdout, mem, os::fd::AsFd, path::Path};

/// The newest version whose rights this module knows. Older kernels enforce what they have.
const KNOWN: ABI = ABI::V7;

/// The kernel's own files, about memory, processors, locks of files and this process, and those of time zones.
const SYSTEM: [&str; 9] = [
    "/proc/locks",
    "/proc/meminfo",
    "/proc/self",
    "/proc/sys/vm/overcommit_memory",
    "/sys/fs/cgroup",
    "/etc/localtime",
    "/etc/zoneinfo",
    "/usr/share/lib/zoneinfo",
    "/usr/share/zoneinfo",
];

/// What the C library needs to find out the address of a host.
const RESOLVER: [&str; 11] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ld.so.cache",
    "/run/systemd/resolve",
    "/lib",
    "/usr/lib",
];

/// Restricts this thread. Returns the version of Landlock that the kernel has, or `None` if nothing is restricted.
pub fn restrict(needs: &Needs) -> Option<i32> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let mut rules = Rules(ruleset(needs).ok()?);
    SYSTEM.iter().for_each(|path| rules.allow(path, reading));
    rules.allow("/dev/null", device);
    if needs.terminal {
        rules.allow("/dev/tty", device);
    }
    if needs.network {
        RESOLVER.iter().for_each(|path| rules.allow(path, reading));
    }
    if let Some(folder) = env::var_os("TZDIR") {
        rules.allow(folder, reading);
    }
    if let Ok(zone) = env::var("TZ") {
        let file = zone.strip_prefix(':').unwrap_or(&zone);
        rules.allow_file(Path::new(file), AccessFs::ReadFile.into());
    }
    for path in &needs.reads {
        rules.allow_file(path, AccessFs::ReadFile.into());
    }
    for path in &needs.outputs {
        rules.allow_file(path, device);
    }
    for folder in &needs.removes {
        rules.allow(folder, AccessFs::RemoveFile.into());
    }
    for folder in &needs.folders {
        rules.allow(folder, in_folders());
    }
    for folder in &needs.new_files {
        rules.allow(
            folder,
            in_folders() & !(AccessFs::ReadFile | AccessFs::RemoveFile),
        );
    }
    // A FIFO is opened again, so that it can be written without waiting for its reader.
    let _ = (&mut rules.0).add_rule(PathBeneath::new(stdout().as_fd(), device));
    let status = rules.0.restrict_self().ok()?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => None,
        (
            _,
            LandlockStatus::Available {
                effective_abi,
                kernel_abi,
            },
        ) => Some(kernel_abi.unwrap_or(effective_abi as i32)),
        _ => None,
    }
}

/// What happens to the files of a series.
fn in_folders() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
}

fn ruleset(needs: &Needs) -> Result<RulesetCreated, landlock::RulesetError> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?;
    let ports = match needs.network {
        true => AccessNet::BindTcp.into(),
        false => AccessNet::from_all(KNOWN),
    };
    let mut scopes = Scope::AbstractUnixSocket | Scope::Signal;
    if needs.helper.is_some() {
        // It was started before, outside of this sandbox.
        scopes.remove(Scope::Signal);
    }
    if needs.shares {
        scopes.remove(Scope::AbstractUnixSocket);
    }
    ruleset.handle_access(ports)?.scope(scopes)?.create()
}

struct Rules(RulesetCreated);

impl Rules {
    /// Allows this for a file. A folder may only be opened: to sync it, or to find out that it is not a file.
    fn allow_file(&mut self, path: &Path, access: BitFlags<AccessFs>) {
        match path.is_dir() {
            true => self.allow(path, AccessFs::ReadDir.into()),
            false => self.allow(path, access),
        }
    }

    /// Allows this for a file, or for everything in a folder. A path that does not exist, or that no rule can name (a pipe),
    /// gets none: opening it fails later, or is not restricted.
    fn allow(&mut self, path: impl AsRef<Path>, access: BitFlags<AccessFs>) {
        let path = path.as_ref();
        let Ok(place) = PathFd::new(path) else {
            return;
        };
        let _ = (&mut self.0).add_rule(PathBeneath::new(&place, access));
        if path.starts_with("/proc") {
            // The kernel makes such a file anew when it was not used for a while, and the rule is for this one: stays open.
            mem::forget(place);
        }
    }
}
