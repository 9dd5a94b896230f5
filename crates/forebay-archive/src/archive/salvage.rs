//! Segments whose directory cannot be read.

use super::Archive;
use crate::segment::{Directory, Salvage};
use anyhow::Result;

/// Bytes that are read at once.
const READ_BYTES: u64 = 8 << 20;

impl Archive {
    /// The intact blocks at the beginning of a segment whose directory cannot be read, up to byte `end`, where a block ends as the index
    /// knows it, or all. Reads the segment up to there, and keeps up to one block of it in memory.
    ///
    /// # Errors
    /// The store failed.
    pub async fn salvage(&self, key: &str, end: Option<u64>) -> Result<Directory> {
        let len = self.len(key).await?.unwrap_or(0);
        let len = end.map_or(len, |end| len.min(end));
        let mut salvage = Salvage::new(key.ends_with(".zst"), end);
        let mut at = 0;
        while at < len {
            let next = len.min(at + READ_BYTES);
            if !salvage.push(&self.range(key, at..next).await?) {
                break;
            }
            at = next;
            tokio::task::yield_now().await;
        }
        Ok(salvage.finish())
    }
}
