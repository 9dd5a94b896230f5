//! Files of the table as the state keeps them: compressed, because each has one or two kilobytes of statistics.

use super::action::{Add, Remove};
use crate::schema;
use anyhow::{Result, anyhow};
use serde::{Serialize, de::DeserializeOwned};
use std::{cell::RefCell, marker::PhantomData, sync::LazyLock};
use zstd_safe::{CCtx, CDict, DCtx, DDict};

/// Fast: all files of a table are compressed when it is read.
const LEVEL: i32 = 1;

/// What most files have in common.
static DICTIONARY: LazyLock<(CDict<'static>, DDict<'static>)> = LazyLock::new(|| {
    let mut text = Vec::new();
    for columns in ["nullCount", "maxValues", "minValues"] {
        text.extend(format!("}},\"{columns}\":{{").bytes());
        for column in schema::COLUMNS {
            text.extend(format!("\"{}\":0,", column.name).bytes());
        }
    }
    let example = Add::new("date=2026-11-21/part-.parquet".into(), "2026-11-21", 0, 0);
    text.extend(serde_json::to_vec(&example).unwrap_or_default());
    text.extend(br#"{"numRecords":1,"minValues":{"sensor":"","segment":"segments/sensor=/date=2026-11-21/hour=00/.pcapng.zst","#);
    (CDict::create(&text, LEVEL), DDict::create(&text))
});

thread_local! {
    static CONTEXTS: RefCell<(CCtx<'static>, DCtx<'static>)> = RefCell::new((CCtx::create(), DCtx::create()));
}

/// What can be packed: a part that is JSON, and a text that already is.
pub(in crate::table) trait Pack: Clone + Serialize + DeserializeOwned {
    fn take_text(&mut self) -> Option<String>;
    fn put_text(&mut self, text: String);
}

impl Pack for Add {
    fn take_text(&mut self) -> Option<String> {
        self.stats.take()
    }

    fn put_text(&mut self, text: String) {
        self.stats = Some(text);
    }
}

impl Pack for Remove {
    fn take_text(&mut self) -> Option<String> {
        None
    }

    fn put_text(&mut self, _: String) {}
}

/// An action, compressed. Equal ones have equal bytes.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::table) struct Packed<T>(Box<[u8]>, PhantomData<T>);

impl<T: Pack> Packed<T> {
    pub(super) fn of(mut action: T) -> Result<Packed<T>> {
        let text = action.take_text();
        let mut plain = serde_json::to_vec(&action)?;
        if let Some(text) = text {
            plain.push(b'\n'); // it is nowhere else in JSON without spaces
            plain.extend(text.into_bytes());
        }
        let mut packed = vec![0; zstd_safe::compress_bound(plain.len())];
        let len = CONTEXTS.with_borrow_mut(|(context, _)| {
            context.compress_using_cdict(&mut packed[..], &plain, &DICTIONARY.0)
        });
        Ok(Packed(packed[..len.map_err(failed)?].into(), PhantomData))
    }

    /// The action.
    pub(in crate::table) fn unpack(&self) -> Result<T> {
        let len = zstd_safe::get_frame_content_size(&self.0).ok().flatten();
        let mut plain = vec![0; len.unwrap_or(0) as usize];
        let done = CONTEXTS.with_borrow_mut(|(_, context)| {
            context.decompress_using_ddict(&mut plain[..], &self.0, &DICTIONARY.1)
        });
        done.map_err(failed)?;
        let mut parts = plain.splitn(2, |it| *it == b'\n');
        let mut action: T = serde_json::from_slice(parts.next().unwrap_or_default())?;
        if let Some(text) = parts.next() {
            action.put_text(std::str::from_utf8(text)?.to_owned());
        }
        Ok(action)
    }
}

fn failed(code: usize) -> anyhow::Error {
    let cause = zstd_safe::get_error_name(code).to_lowercase();
    anyhow!("packing a file of the log: {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::rows_of;

    #[test]
    fn a_file_takes_a_few_hundred_bytes_and_is_unpacked_as_it_was() {
        let files = rows_of("hall-3", "", 21).files;
        let path = format!("date=2026-11-21/part-{}.parquet", crate::table::unique());
        let mut add = Add::new(path, "2026-11-21", 9_000_000, 1_795_860_179_874);
        add.tags = Some([("forebay.packets".to_owned(), Some("{}".to_owned()))].into());
        for (stats, max) in [
            (None, 150),
            (Some(String::new()), 150),
            (Some("several\nlines\n".to_owned()), 170),
            (Some(files[0].statistics.to_json()), 500),
        ] {
            add.stats = stats;
            let packed = Packed::of(add.clone()).unwrap();
            assert_eq!(packed.unpack().unwrap(), add);
            assert_eq!(packed, Packed::of(add.clone()).unwrap());
            let (len, plain) = (packed.0.len(), serde_json::to_vec(&add).unwrap().len());
            println!("{len} bytes instead of {plain}");
            assert!(len < max, "{len} bytes instead of {plain}");
        }
    }
}
