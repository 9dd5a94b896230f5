//! Memory that only its maker can ever write, and other processes can only read. This file makes it, and checks memory from other
//! processes.
//!
//! ```text
//!  maker:  memfd ─▶ every page written ─▶ mapped writable ─▶ huge pages, if possible ─▶ sealed ─▶ opened again, ─▶ handed over
//!                     this mapping stays, and no other writable one can ever be made          read-only, mode 0
//!  other:  a descriptor of any kind ─▶ sealed? ─▶ of that length? ─▶ every page there? ─▶ mapped read-only
//! ```
//!
//! What the seals do (`fcntl(2)`, and tested on Linux 6.18):
//!
//! - `SHRINK` keeps pages from being removed, after which accesses would cause `SIGBUS`.
//! - `FUTURE_WRITE` (Linux 5.1) refuses `write`, new writable mappings, and holes (`FALLOC_FL_PUNCH_HOLE`, `MADV_REMOVE`)
//!   with `EPERM`. Without it, a peer could make holes. Reading a hole allocates zeroed pages, which are charged to the
//!   reader, and causes `SIGBUS` if none can be allocated.
//! - `SEAL` makes the set of seals final.
//!
//! Seals do not cover extended attributes. Since Linux 6.6, a process that may write the file can set `user.*` attributes, whatever
//! descriptor it has: kernel memory that nobody can reclaim while a descriptor exists. Mode 0 refuses them. A process of the
//! maker's user, or one with `CAP_DAC_OVERRIDE`, can change the mode or is not bound by it.
#![allow(unsafe_code)]

use super::{Advice, Mapping};
use rustix::{
    fs::{MemfdFlags, Mode, OFlags, SealFlags, SeekFrom},
    io::Errno,
};
use std::{
    fmt,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

/// From linux/magic.h. Huge-page memory also has seals, but its pages come from a pool; if that is empty, access is `SIGBUS`.
const TMPFS_MAGIC: i64 = 0x0102_1994;

const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE)
    .union(SealFlags::SEAL);

/// An empty memory file that can be sealed. If the kernel supports it (6.3), the file cannot be executed.
pub(crate) fn create(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        answer => answer,
    };
    Ok(file?)
}

/// Makes a memory file of `len` bytes without a name, whose length is sealed. Its pages therefore cannot be removed under a
/// process that has mapped it, which would be `SIGBUS`.
pub(crate) fn nameless_file(len: usize) -> io::Result<File> {
    let file = create("forebay")?;
    rustix::fs::ftruncate(&file, len as u64)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// Makes `len` bytes (whole pages) of zeroed memory that only the returned mapping can ever write. `/proc` shows it as `name`.
///
/// The descriptor can be mapped, and nothing else: it is read-only, and other users can neither open it again nor set attributes.
/// Without `/proc`, the descriptor allows writing, which the seals refuse.
///
/// If it has huge pages' worth of bytes, it gets huge pages where the kernel can make them. Readers accept it in any case: to them,
/// the file consists of ordinary pages.
pub(crate) fn make(name: &str, len: usize) -> io::Result<(OwnedFd, Mapping)> {
    make_with(name, len, true)
}

/// The same without its pages: each one is allocated when it is first accessed. [`check`] and [`check_any`] refuse it, so that no other
/// process pays for pages by reading.
pub(crate) fn make_growing(name: &str, len: usize) -> io::Result<(OwnedFd, Mapping)> {
    make_with(name, len, false)
}

fn make_with(name: &str, len: usize, is_filled: bool) -> io::Result<(OwnedFd, Mapping)> {
    let file = create(name)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    if is_filled {
        fill(&file, len)?;
    }
    let mapping = Mapping::of_file(&file, len, super::READ_WRITE)?;
    if is_filled {
        // Collapsing works even if shmem_enabled is "never". If it does not work, small pages are fine.
        let huge = len - len % super::HUGE_PAGE;
        let _ = mapping.advise(0..huge, Advice::Collapse);
    }
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    // Opened again before the mode refuses it: what a reader does to the flags and the offset concerns this description only.
    let again = super::shared::reopen(&file, OFlags::RDONLY);
    rustix::fs::fchmod(&file, Mode::empty())?;
    Ok((again.map_or(file, OwnedFd::from), mapping))
}

/// Writes zeros to every page, which allocates it: a page that is only allocated still counts as a hole.
fn fill(file: &OwnedFd, len: usize) -> io::Result<()> {
    let zeros = vec![0; len.min(1 << 16)];
    let mut at = 0;
    while at < len {
        let some = &zeros[..zeros.len().min(len - at)];
        match rustix::io::pwrite(file, some, at as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => at += written,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Why a descriptor is not memory as [`make`] makes it.
#[derive(Debug)]
pub(crate) enum DoesNotFit {
    /// It is of another kind. Nothing is known about it, not even whether closing it returns.
    Kind(io::Error),
    /// It could still shrink, get holes, or be written by other processes.
    Seals,
    /// It consists of huge pages, or is on a file system.
    Pages,
    /// It does not have the announced length.
    Len(u64),
    /// Some of its pages are missing.
    Holes,
    /// The kernel does not report its size.
    Unknown(io::Error),
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DoesNotFit::Kind(error) => write!(f, "it is not memory that can be sealed ({error})"),
            DoesNotFit::Seals => {
                f.write_str("it is not sealed against shrinking, growing and writing")
            }
            DoesNotFit::Pages => f.write_str("it does not consist of ordinary pages"),
            DoesNotFit::Len(len) => write!(f, "it has {len} bytes"),
            DoesNotFit::Holes => f.write_str("some of its pages are missing"),
            DoesNotFit::Unknown(error) => {
                write!(f, "the kernel does not report its size ({error})")
            }
        }
    }
}

/// Whether `file` is memory of `len` bytes as [`make`] makes it. If so, it stays that way.
#[cfg(any(feature = "lanes", all(test, not(miri))))]
pub(crate) fn check(file: &impl AsFd, len: usize) -> Result<(), DoesNotFit> {
    match check_any(file)? {
        found if found == len as u64 => Ok(()),
        found => Err(DoesNotFit::Len(found)),
    }
}

/// The length in bytes of `file`, if it is memory as [`make`] makes it. If so, it stays that way.
///
/// Seals are checked first. Only memory files have them, and the kernel answers without asking the file's file system, which
/// may be a process that never answers (FUSE).
pub(crate) fn check_any(file: &impl AsFd) -> Result<u64, DoesNotFit> {
    let len = check_growing(file)?;
    // The number of blocks is not sufficient, because blocks beyond the end count as well. Holes cannot be made later, so no
    // access will ever have to allocate.
    match rustix::fs::seek(file, SeekFrom::Hole(0)) {
        Ok(hole) if hole == len => Ok(len),
        Ok(_) | Err(Errno::NXIO) => Err(DoesNotFit::Holes),
        Err(error) => Err(DoesNotFit::Unknown(error.into())),
    }
}

/// The length in bytes of `file`, if it is memory as [`make`] or [`make_growing`] makes it.
pub(crate) fn check_growing(file: &impl AsFd) -> Result<u64, DoesNotFit> {
    let seals =
        rustix::fs::fcntl_get_seals(file).map_err(|error| DoesNotFit::Kind(error.into()))?;
    if !seals.contains(SEALS) {
        return Err(DoesNotFit::Seals);
    }
    let unknown = |error: Errno| DoesNotFit::Unknown(error.into());
    if rustix::fs::fstatfs(file).map_err(unknown)?.f_type as i64 != TMPFS_MAGIC {
        return Err(DoesNotFit::Pages);
    }
    Ok(rustix::fs::fstat(file).map_err(unknown)?.st_size as u64)
}

/// Maps `len` bytes of memory that was [checked](check), read-only.
pub(crate) fn map(file: &impl AsRawFd, len: usize) -> io::Result<Mapping> {
    Mapping::of_file(file, len, libc::PROT_READ)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fcntl_add_seals, ftruncate, memfd_create};
    use std::os::unix::fs::FileExt;

    const LEN: usize = 1 << 16;

    #[test]
    fn what_is_made_can_be_written_by_its_maker_only_and_read_by_all() {
        let (file, mine) = make("test", LEN).unwrap();
        check(&file, LEN).unwrap();
        let theirs = map(&file, LEN).unwrap();
        // SAFETY: the first byte of a mapping of ours; no other thread or process writes it.
        unsafe { mine.start().as_ptr().write_volatile(7) };
        // SAFETY: the same byte, mapped read-only.
        assert_eq!(unsafe { theirs.start().as_ptr().read_volatile() }, 7);
        assert!(Mapping::of_file(&file, LEN, crate::sys::READ_WRITE).is_err());
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let writable = create("test").unwrap();
        ftruncate(&writable, LEN as u64).unwrap();
        fcntl_add_seals(&writable, SEALS).unwrap();
        // The descriptor refuses these (`BADF`, `INVAL`); the seals refuse them with any descriptor.
        for (file, hole, len) in [
            (&file, Errno::BADF, Errno::INVAL),
            (&writable, Errno::PERM, Errno::PERM),
        ] {
            let punched = rustix::fs::fallocate(file, punch, 0, LEN as u64);
            assert_eq!((punched, ftruncate(file, 0)), (Err(hole), Err(len)));
        }
        assert!(File::from(file).write_at(b"x", 0).is_err());
    }

    #[test]
    fn another_user_can_map_what_is_made_and_neither_open_it_again_nor_set_attributes() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: needs root, to become another user");
        }
        let (file, _mine) = make("test", LEN).unwrap();
        std::thread::spawn(move || {
            // Of this thread, which then ends.
            rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(65_534)).unwrap();
            check(&file, LEN).unwrap();
            map(&file, LEN).unwrap();
            let set = rustix::fs::fsetxattr(&file, "user.1", b"x", rustix::fs::XattrFlags::empty());
            assert!(
                matches!(set, Err(Errno::ACCESS | Errno::OPNOTSUPP)),
                "{set:?}"
            );
            for how in [OFlags::RDONLY, OFlags::RDWR] {
                let again = crate::sys::shared::reopen(&file, how);
                assert_eq!(again.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            }
            let mode = rustix::fs::fcntl_getfl(&file).unwrap();
            assert_eq!(mode & OFlags::RWMODE, OFlags::RDONLY);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn whatever_could_change_under_a_reader_is_refused() {
        let memory = |flags| {
            let file = memfd_create("test", MemfdFlags::CLOEXEC | flags).unwrap();
            ftruncate(&file, LEN as u64).unwrap();
            file
        };
        let pipe = rustix::pipe::pipe().unwrap().0;
        assert!(matches!(check(&pipe, LEN), Err(DoesNotFit::Kind(_))));
        let program = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(matches!(check(&program, LEN), Err(DoesNotFit::Kind(_))));
        let unsealed = memory(MemfdFlags::empty());
        assert!(matches!(check(&unsealed, LEN), Err(DoesNotFit::Seals)));
        let writable = memory(MemfdFlags::ALLOW_SEALING);
        fcntl_add_seals(&writable, SEALS.difference(SealFlags::FUTURE_WRITE)).unwrap();
        assert!(matches!(check(&writable, LEN), Err(DoesNotFit::Seals)));
        let hollow = memory(MemfdFlags::ALLOW_SEALING);
        fcntl_add_seals(&hollow, SEALS).unwrap();
        assert!(matches!(check(&hollow, LEN), Err(DoesNotFit::Holes)));
        let beyond = memory(MemfdFlags::ALLOW_SEALING);
        let keep = FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&beyond, keep, LEN as u64, 2 * LEN as u64).unwrap();
        rustix::io::pwrite(&beyond, &[7; 4096], 4096).unwrap();
        fcntl_add_seals(&beyond, SEALS).unwrap();
        assert!(matches!(check(&beyond, LEN), Err(DoesNotFit::Holes)));
        let huge = MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        match memfd_create("test", huge) {
            Ok(huge) => {
                fcntl_add_seals(&huge, SEALS).unwrap();
                assert!(matches!(check(&huge, 0), Err(DoesNotFit::Pages)));
            }
            Err(_) => eprintln!("skipped: needs a kernel with hugetlbfs"),
        }
        let (growing, _mapping) = make_growing("test", LEN).unwrap();
        assert!(matches!(check(&growing, LEN), Err(DoesNotFit::Holes)));
        assert_eq!(check_growing(&growing).unwrap(), LEN as u64);
        let (file, _mapping) = make("test", LEN).unwrap();
        assert!(
            matches!(check(&file, 2 * LEN), Err(DoesNotFit::Len(found)) if found == LEN as u64)
        );
    }
}
