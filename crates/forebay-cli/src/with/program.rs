//! A program that is to run on forebay's libpcap, and what keeps the loader from using that library.

use super::elf::Elf;
use nix::unistd::{getgid, getuid};
use rustix::{
    fs::{Access, StatVfsMountFlags, access, getxattr, statvfs},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The variable with the folders that the loader searches first.
pub const FOLDERS: &str = "LD_LIBRARY_PATH";

/// Programs that start another one with a clean environment.
const CLEANERS: [&str; 2] = ["sudo", "doas"];
/// The program with which Wireshark's programs capture.
const DUMPCAP: &str = "dumpcap";
const STARTERS_OF_DUMPCAP: [&str; 3] = ["tshark", "wireshark", "termshark"];
/// Bytes of what the loader lists: the libraries of the largest programs are a few hundred lines.
const LONGEST_LIST: u64 = 1 << 20;

/// What to run instead, if `name` is a program that removes `LD_LIBRARY_PATH`.
pub fn removes_variables(name: &OsStr, args: &[OsString]) -> Option<String> {
    let base = Path::new(name).file_name()?.to_str()?;
    let cleaner = CLEANERS.into_iter().find(|it| *it == base)?;
    let rest: Vec<_> = args.iter().map(|it| it.to_string_lossy()).collect();
    let rest = match rest.first() {
        Some(first) if !first.starts_with('-') => rest.join(" "),
        _ => "PROGRAM".to_owned(),
    };
    Some(format!(
        "{cleaner} removes {FOLDERS}. Put it first: {cleaner} forebay with {rest}"
    ))
}

pub struct Program {
    path: PathBuf,
    elf: Option<Elf>,
}

impl Program {
    /// The program of this name, in a folder of PATH or, with a slash in it, at this place.
    pub fn find(name: &OsStr) -> Option<Program> {
        let found = |path: PathBuf| {
            let is_program = path.is_file() && access(&path, Access::EXEC_OK).is_ok();
            is_program.then(|| Program {
                elf: Elf::open(&path),
                path,
            })
        };
        if name.as_encoded_bytes().contains(&b'/') {
            return found(name.into());
        }
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders).find_map(|folder| found(folder.join(name)))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why the loader would not use `library`, with what to do about it.
    pub fn obstacle(&self, library: &Path) -> Option<String> {
        if let Some(what) = self.raised_rights() {
            return Some(format!(
                "{what}, for which the loader ignores {FOLDERS}. Run a copy without that, or run it as root: sudo forebay with …"
            ));
        }
        let elf = self.elf.as_ref()?;
        if !Elf::open(library).is_some_and(|it| it.fits(elf)) {
            return Some(format!(
                "is for another kind of processor than {}",
                library.display()
            ));
        }
        let is_static = elf.loader().is_none();
        is_static.then(|| "is static: its libraries are part of it".to_owned())
    }

    /// What gives the program more rights than its user has. Those of root cannot grow.
    fn raised_rights(&self) -> Option<&'static str> {
        let about = self.path.metadata().ok()?;
        let mount = statvfs(&self.path).ok()?;
        if mount.f_flag.contains(StatVfsMountFlags::NOSUID) {
            return None;
        }
        let mut room = [0_u8; 64];
        let capabilities = getxattr(&self.path, c"security.capability", &mut room[..]);
        let has_them = capabilities.is_ok() || capabilities == Err(Errno::RANGE);
        let mode = about.mode();
        if mode & 0o4000 != 0 && about.uid() != getuid().as_raw() {
            Some("is set-user-ID")
        } else if mode & 0o2010 == 0o2010 && about.gid() != getgid().as_raw() {
            Some("is set-group-ID")
        } else if has_them && !getuid().is_root() {
            Some("has file capabilities")
        } else {
            None
        }
    }

    /// What the user may not expect, although the program can run. `folder` has the library, and is the first of `folders`.
    pub fn hint(&self, folder: &Path, folders: &OsStr) -> Option<String> {
        let name = self.path.file_name()?.to_string_lossy();
        if STARTERS_OF_DUMPCAP.contains(&&*name)
            && let Some(dumpcap) = Program::find(DUMPCAP.as_ref())
            && let Some(what) = dumpcap.raised_rights()
        {
            return Some(format!(
                "warning: {name} captures with {}, which {what}: the loader ignores {FOLDERS} for it",
                dumpcap.path.display()
            ));
        }
        let listed = self.libraries(folders)?;
        let pcap = listed
            .lines()
            .find(|line| line.trim_start().starts_with("libpcap.so."));
        match pcap.map(|line| line.split_once("=> ")) {
            None => Some(format!(
                "{name} itself does not load libpcap. Only libraries that it loads later, and programs that it starts, may do so"
            )),
            Some(Some((_, path))) if !Path::new(path).starts_with(folder) => {
                let path = path.split(" (").next().unwrap_or(path);
                Some(format!(
                    "warning: {name} loads {path}: its own list of folders comes before {FOLDERS}"
                ))
            }
            Some(_) => None,
        }
    }

    /// What the loader would load, in its own words: it alone knows all rules. It does not run the program.
    fn libraries(&self, folders: &OsStr) -> Option<String> {
        let mut loader = Command::new(self.elf.as_ref()?.loader()?);
        loader.arg("--list").arg(&self.path).env(FOLDERS, folders);
        loader.stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = loader.stdout(Stdio::piped()).spawn().ok()?;
        let mut listed = Vec::new();
        let output = child.stdout.take()?;
        let read = output.take(LONGEST_LIST).read_to_end(&mut listed);
        let status = child.wait().ok()?;
        (read.is_ok() && status.success()).then(|| String::from_utf8_lossy(&listed).into_owned())
    }
}
