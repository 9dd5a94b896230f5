//! Reading parts of objects.

use super::{Archive, timed};
use anyhow::{Result, bail};
use bytes::Bytes;
use object_store::{ObjectStore, path::Path};
use std::ops::Range;

impl Archive {
    /// Reads a range of bytes of an object.
    ///
    /// # Errors
    /// As [`ranges`](Archive::ranges).
    pub async fn range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        // Of a folder, this opens and reads the file in one step.
        let found = self.ranges(key, &[range]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Reads ranges of bytes of an object. Empty ones are not asked for.
    ///
    /// # Errors
    /// The store failed, or the object is missing or shorter: then it is damaged.
    pub async fn ranges(&self, key: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let len = |it: &Range<u64>| it.end.saturating_sub(it.start);
        let wanted: Vec<_> = ranges.iter().filter(|it| len(it) > 0).cloned().collect();
        let Some(end) = wanted.iter().map(|it| it.end).max() else {
            return Ok(vec![Bytes::new(); ranges.len()]);
        };
        let (path, bytes) = (Path::from(key), wanted.iter().map(len).sum());
        let found = timed(bytes, self.bulk.get_ranges(&path, &wanted)).await;
        let is_whole = |found: &Vec<Bytes>| {
            let mut each = found.iter().zip(&wanted);
            each.all(|(bytes, it)| bytes.len() as u64 == len(it))
        };
        // Stores answer such a request with bytes that are missing, or with an error that looks like one of theirs.
        if !found.as_ref().is_ok_and(is_whole)
            && let Some(has) = self.len(key).await.ok().flatten()
            && has < end
        {
            let name = &self.name;
            bail!("{name}: {key} is damaged: it has {has} bytes, and at least {end} were stored");
        }
        let found = found.map_err(|error| self.explain(error, &format!("reading {key}")))?;
        let mut found = found.into_iter();
        let each = ranges.iter().map(|it| match len(it) {
            0 => Bytes::new(),
            _ => found.next().unwrap_or_default(),
        });
        Ok(each.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{StoreFault, counted::Reads};
    use forebay_testing::folder::Folder;
    use std::sync::Arc;

    #[test]
    fn what_an_object_does_not_have_is_damage_and_no_bytes_are_no_request() {
        let folder = Folder::new();
        let reads = Arc::<Reads>::default();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let archive = archive.counted(&reads);
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let empty = archive.ranges("index/a", &[7..7, 0..0]).await.unwrap();
            assert_eq!((empty, reads.index.requests()), (vec![Bytes::new(); 2], 0));
            archive.put("index/a", "forebay".into()).await.unwrap();
            let found = archive
                .ranges("index/a", &[4..7, 9..9, 0..4])
                .await
                .unwrap();
            assert_eq!(found, ["bay", "", "fore"]);
            for range in [0..8, 5..9, 7..8, 100..200] {
                let error = archive.range("index/a", range).await.unwrap_err();
                let text = format!("{error:#}");
                assert!(text.contains("is damaged: it has 7 bytes, and"), "{text}");
                assert!(StoreFault::of(&error).is_none());
            }
            let missing = archive.range("index/b", 0..1).await.unwrap_err();
            assert!(StoreFault::of(&missing).unwrap().is_missing);
        });
    }
}
