//! On a full ext4 disk everything that fits is written and readable, although a direct write of a whole buffer is refused as a
//! whole. The test creates a file system in a file, which needs root, a loop device and mkfs.ext4. Elsewhere it prints why it is
//! skipped.

use forebay::store::{Appender, FileConfig, FileSink, Framing, StoreConfig, Whole};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

const WORD: usize = 8;

/// Records of 8 bytes. Buffers of whole pages are never padded.
struct Words;

impl Framing for Words {
    fn last_whole(&self, bytes: &[u8]) -> Whole {
        let records = bytes.len() / WORD;
        Whole {
            bytes: records * WORD,
            records: records as u64,
        }
    }
    fn least_padding(&self) -> Option<usize> {
        Some(WORD)
    }
}

/// A small ext4 in a file, unmounted when dropped.
struct Small {
    image: PathBuf,
    at: PathBuf,
}

fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let output = command
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{shown}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

impl Small {
    fn mount(bytes: u64) -> Result<Self, String> {
        let base = std::env::temp_dir().join(format!("forebay-full-disk-{}", std::process::id()));
        let small = Small {
            image: base.with_extension("image"),
            at: base,
        };
        let image = fs::File::create(&small.image).map_err(|error| error.to_string())?;
        image.set_len(bytes).map_err(|error| error.to_string())?;
        fs::create_dir_all(&small.at).map_err(|error| error.to_string())?;
        let mkfs = ["-q", "-F", "-b", "4096", "-m", "0", "-O", "^has_journal"];
        run(Command::new("mkfs.ext4").args(mkfs).arg(&small.image))?;
        let mount = Command::new("mount")
            .args(["-o", "loop"])
            .args([&small.image, &small.at])
            .output();
        match mount {
            Ok(output) if output.status.success() => Ok(small),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
        let _ = fs::remove_dir(&self.at);
        let _ = fs::remove_file(&self.image);
    }
}

fn free_bytes(at: &Path) -> u64 {
    let output = Command::new("stat")
        .args(["-f", "-c", "%a %S"])
        .arg(at)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    numbers[0] * numbers[1]
}

#[test]
fn a_full_ext4_disk_keeps_all_that_fits() {
    // mkfs needs a few megabytes; 11 leave about 10, which is not a multiple of the buffer size.
    let small = match Small::mount(11 << 20) {
        Ok(small) => small,
        Err(why) => return eprintln!("skipped: needs a loop-mounted ext4: {why}"),
    };
    let room = free_bytes(&small.at);
    let path = small.at.join("log");
    let sink = FileSink::create(&path, &FileConfig::default()).unwrap();
    assert!(
        sink.is_direct(),
        "ext4 on a loop device supports direct writes"
    );
    let config = StoreConfig {
        buffers: 3,
        buffer_bytes: 4 << 20,
        huge_pages: false,
        ..StoreConfig::default()
    };
    let mut store = Appender::new(sink, Arc::new(Words), &config).unwrap();
    let mut number = 0;
    let error = loop {
        match store.reserve(WORD) {
            Ok(Some(mut slot)) => {
                number += 1;
                slot.copy_from_slice(&u64::to_le_bytes(number));
                slot.commit(1);
            }
            Ok(None) => drop(store.wait_empty(Duration::from_millis(10))),
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
    let end = store.close().finish();
    let found = fs::read(&path).unwrap();
    assert_eq!(found.len() as u64, end.totals.written_bytes);
    assert_eq!(found.len() as u64 / 8, end.totals.written);
    let words = found.chunks_exact(WORD).zip(1_u64..);
    for (word, number) in words {
        assert_eq!(word, number.to_le_bytes());
    }
    let left = free_bytes(&small.at);
    assert!(left < 64 << 10, "{left} of {room} bytes are left");
}
