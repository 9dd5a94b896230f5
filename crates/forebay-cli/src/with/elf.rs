//! The headers of ELF files, which may be damaged or made to deceive: see elf(5).

use std::{
    ffi::OsString, fs::File, os::unix::ffi::OsStringExt, os::unix::fs::FileExt, path::Path,
    path::PathBuf,
};

/// Bytes of the header of a file, and of one entry of its table of segments, with 64 bits.
const HEADER: usize = 64;
const ENTRY: u64 = 56;
/// `EI_CLASS` of files with 64 bits.
const CLASS_64: u8 = 2;
/// The type of the segment with the path of the loader.
const PT_INTERP: u32 = 3;
/// Longer paths do not exist.
const PATH_MAX: u64 = 4096;

pub struct Elf {
    file: File,
    header: [u8; HEADER],
}

impl Elf {
    /// `None`: it cannot be read, or is no ELF file, such as a script.
    pub fn open(path: &Path) -> Option<Elf> {
        let file = File::open(path).ok()?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).ok()?;
        header
            .starts_with(b"\x7fELF")
            .then_some(Elf { file, header })
    }

    /// Whether one process can load both: same size of addresses, same order of bytes, same kind of processor.
    pub fn fits(&self, other: &Elf) -> bool {
        let kind = |elf: &Elf| (elf.header[4], elf.header[5], number::<2>(&elf.header, 18));
        kind(self) == kind(other)
    }

    /// The path of the loader, for a file of this machine; `None`: it is static, or damaged.
    pub fn loader(&self) -> Option<PathBuf> {
        if self.header[4] != CLASS_64 {
            return None;
        }
        let (table, entries) = (number::<8>(&self.header, 32), number::<2>(&self.header, 56));
        let mut entry = [0; ENTRY as usize];
        for at in 0..entries {
            let offset = table.checked_add(at * ENTRY)?;
            self.file.read_exact_at(&mut entry, offset).ok()?;
            if number::<4>(&entry, 0) == u64::from(PT_INTERP) {
                return self.text(number::<8>(&entry, 8), number::<8>(&entry, 32));
            }
        }
        None
    }

    fn text(&self, offset: u64, len: u64) -> Option<PathBuf> {
        let len = usize::try_from(len.min(PATH_MAX)).ok()?;
        let mut text = vec![0; len];
        self.file.read_exact_at(&mut text, offset).ok()?;
        text.truncate(text.iter().position(|&byte| byte == 0)?);
        (!text.is_empty()).then(|| OsString::from_vec(text).into())
    }
}

/// The number of `N` bytes at `offset`, in this machine's order.
fn number<const N: usize>(bytes: &[u8], offset: usize) -> u64 {
    let mut whole = [0; 8];
    let at = if cfg!(target_endian = "big") {
        8 - N
    } else {
        0
    };
    whole[at..at + N].copy_from_slice(&bytes[offset..offset + N]);
    u64::from_ne_bytes(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::{dice::Dice, folder::Folder};

    #[test]
    fn the_loader_of_this_test_is_found_and_damaged_headers_have_none_or_another() {
        let own = std::env::current_exe().unwrap();
        let elf = Elf::open(&own).unwrap();
        assert!(elf.loader().unwrap().is_file() && elf.fits(&elf));
        let mut start = vec![0; 4096];
        elf.file.read_exact_at(&mut start, 0).unwrap();
        let folder = Folder::new();
        let mut dice = Dice(7);
        for _ in 0..2000 {
            let mut bytes = start.clone();
            for _ in 0..=dice.below(4) {
                let at = dice.below(700_usize);
                let byte = dice.byte();
                bytes[at] = dice.one_of(&[0, 0xff, byte]);
            }
            let len = dice.below(4096);
            bytes.truncate(dice.one_of(&[4096, len]));
            let damaged = folder.file("damaged", bytes);
            let _ = Elf::open(damaged.as_ref()).map(|it| it.loader());
        }
    }
}
