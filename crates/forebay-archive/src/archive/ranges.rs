//! Reading parts of objects.

use super::{Archive, timed};
use anyhow::bail;
use bytes::Bytes;
use object_store::{
    Error, OBJECT_STORE_COALESCE_DEFAULT, ObjectStore, ObjectStoreExt, coalesce_ranges, path::Path,
};
use std::ops::Range;

impl Archive {
    /// Reads a range of bytes of an object.
    ///
    /// # Errors
    /// As [`ranges`](Archive::ranges).
    pub async fn range(&self, key: &str, range: Range<u64>) -> anyhow::Result<Bytes> {
        // Of a folder, this opens and reads the file in one step.
        let found = self.ranges(key, &[range]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Reads ranges of bytes of an object. Empty ones are not asked for.
    ///
    /// # Errors
    /// The store failed, or the object is missing or shorter: then it is damaged.
    pub async fn ranges(&self, key: &str, ranges: &[Range<u64>]) -> anyhow::Result<Vec<Bytes>> {
        let len = |it: &Range<u64>| it.end.saturating_sub(it.start);
        let wanted: Vec<_> = ranges.iter().filter(|it| len(it) > 0).cloned().collect();
        let Some(end) = wanted.iter().map(|it| it.end).max() else {
            return Ok(vec![Bytes::new(); ranges.len()]);
        };
        let bytes = wanted.iter().map(len).sum();
        let read = whole_ranges(&*self.bulk, self.folder.is_some(), key, &wanted);
        let found = timed(bytes, read).await;
        // Stores answer such a request with bytes that are missing, or with an error that looks like one of theirs.
        if found.is_err()
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

/// These ranges of an object, all of their bytes. Those that are near each other are one request; in a folder, the file is opened once.
async fn whole_ranges(
    store: &dyn ObjectStore,
    is_folder: bool,
    key: &str,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>, Error> {
    let path = &Path::from(key);
    let whole = |bytes: Bytes, range: &Range<u64>| {
        let is_whole = bytes.len() as u64 == range.end - range.start;
        is_whole.then_some(bytes).ok_or_else(|| Error::Generic {
            store: "archive",
            source: "the store returned fewer bytes than were asked for".into(),
        })
    };
    if is_folder {
        let found = store.get_ranges(path, ranges).await?;
        let found = found.into_iter().zip(ranges);
        return found.map(|(bytes, range)| whole(bytes, range)).collect();
    }
    // It takes for granted that each answer is whole.
    let read = |range: Range<u64>| async move {
        whole(store.get_range(path, range.clone()).await?, &range)
    };
    coalesce_ranges(ranges, read, OBJECT_STORE_COALESCE_DEFAULT).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{
        StoreFault,
        counted::Reads,
        faulty::{Faulty, Put},
    };
    use forebay_testing::folder::Folder;
    use object_store::memory::InMemory;
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    };

    #[test]
    fn neighbours_of_an_object_that_became_shorter_are_an_error() {
        let store = InMemory::new();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let put = store.put(&Path::from("a"), "forebay".into()).await;
            put.unwrap();
            let found = whole_ranges(&store, false, "a", &[4..7, 0..2]).await;
            assert_eq!(found.unwrap(), ["bay", "fo"]);
            for ranges in [[0..3, 100..200], [0..3, 5..9], [0..8, 6..7]] {
                for is_folder in [true, false] {
                    let found = whole_ranges(&store, is_folder, "a", &ranges).await;
                    assert!(found.is_err(), "{ranges:?}");
                }
            }
        });
    }

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
            // The store does not say how long the object is.
            let put = Arc::new(|_: &str| Put::Done);
            let requests = Arc::<AtomicU32>::default();
            let is_away = Arc::new(move || requests.fetch_add(1, Relaxed) > 0);
            let cut = archive
                .wrapped(|store| Arc::new(Faulty::over(store, put.clone()).away(is_away.clone())));
            let error = cut.range("index/a", 4..9).await.unwrap_err();
            assert!(StoreFault::is_cause(&error), "{error:#}");
            let missing = archive.range("index/b", 0..1).await.unwrap_err();
            assert!(StoreFault::of(&missing).unwrap().is_missing);
        });
    }
}
