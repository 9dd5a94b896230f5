//! Several outputs, one after another: the basis of rotation.
//!
//! ```text
//!  Appender::next_output ─▶ the buffers before it ─▶ cut ─▶ sync ─▶ Series::complete(n) ─▶ Series::open(n + 1)
//! ```
//! The switch happens on the writing side, between two buffers. No record is lost, duplicated or split, and the appending side is
//! not interrupted.

use super::Sink;
use crate::Result;
use std::io;

/// Opens the outputs of a [`Files`], and completes each.
pub trait Series: Send {
    /// Opens output `number`, 0 first. After an error it is called again for the same number, if the store retries.
    ///
    /// # Errors
    /// The output is not available now.
    fn open(&mut self, number: u64) -> Result<Box<dyn Sink>>;

    /// Output `number` is written, cut to its length and, if the policy says so, synced. This is the time to rename it, to remove
    /// an old output, or to notify other programs. After an error it is called again, as with [`open`](Series::open).
    ///
    /// # Errors
    /// The output cannot be completed now.
    fn complete(&mut self, _number: u64) -> Result<()> {
        Ok(())
    }
}

/// A sink over a [`Series`] of other sinks. [`Appender::next_output`](crate::store::Appender::next_output) switches to the
/// next.
///
/// ```
/// use forebay::store::{Appender, StoreConfig, FileConfig, FileSink, Files, Framing, Series, Sink, Whole};
/// use std::{path::PathBuf, sync::Arc};
///
/// struct Numbered(PathBuf);
/// impl Series for Numbered {
///     fn open(&mut self, number: u64) -> forebay::Result<Box<dyn Sink>> {
///         FileSink::create(&self.0.join(number.to_string()), &FileConfig::default())
///     }
/// }
/// # struct Bytes;
/// # impl Framing for Bytes {
/// #     fn last_whole(&self, bytes: &[u8]) -> Whole { Whole { bytes: bytes.len(), records: 0 } }
/// # }
/// let folder = std::env::temp_dir().join(format!("forebay-doc-files-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// let files = Files::open(Numbered(folder.clone()))?;
/// let mut store = Appender::new(Box::new(files), Arc::new(Bytes), &StoreConfig::default())?;
/// for part in [b"one", b"two"] {
///     let mut slot = store.reserve(3)?.expect("there is room");
///     slot.copy_from_slice(part);
///     slot.commit(1);
///     assert!(store.next_output()?);
/// }
/// assert!(store.close().finish().error.is_none());
/// assert_eq!(std::fs::read(folder.join("1")).unwrap(), b"two");
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Files<S> {
    series: S,
    number: u64,
    current: Box<dyn Sink>,
    /// The current output was completed, and the next could not be opened yet.
    is_complete: bool,
    /// The sink of the current output is complete; the series may have renamed it since.
    is_checked: bool,
}

impl<S: Series> Files<S> {
    /// Opens the first output.
    ///
    /// # Errors
    /// Those of [`Series::open`].
    pub fn open(mut series: S) -> Result<Self> {
        Ok(Files {
            current: series.open(0)?,
            series,
            number: 0,
            is_checked: false,
            is_complete: false,
        })
    }
}

impl<S: Series> Sink for Files<S> {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.current.write(bytes, at)
    }

    fn inner(&self) -> Option<&dyn Sink> {
        Some(&*self.current)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Sink> {
        Some(&mut *self.current)
    }

    fn next_output(&mut self) -> Result<()> {
        self.complete()?;
        self.current = self.series.open(self.number + 1)?;
        self.number += 1;
        (self.is_checked, self.is_complete) = (false, false);
        Ok(())
    }

    fn complete(&mut self) -> Result<()> {
        if !self.is_complete {
            if !self.is_checked {
                self.current.complete()?;
                self.is_checked = true;
            }
            self.series.complete(self.number)?;
            self.is_complete = true;
        }
        Ok(())
    }
}
