//! A clock that is not that of the store.

use super::*;
use crate::{
    archive::{
        Archive,
        faulty::{Faulty, Put},
    },
    segment::{self, Pack, pack},
    table::{Rows, Table},
};
use forebay_testing::folder::Folder;
use std::{
    fs::{self, File},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

const DAY: Duration = Duration::from_hours(24);

/// Stores a segment with one packet of this time, and returns its rows.
async fn stored(archive: &Archive, folder: &Folder, time: SystemTime) -> Rows {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap().as_secs() as u32;
    let words = [
        0xa1b2_c3d4,
        4 << 16 | 2,
        0,
        0,
        65535,
        1,
        seconds,
        0,
        4,
        4,
        0,
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|it: &u32| it.to_le_bytes()).collect();
    let scratch = folder.path("scratch");
    let options = Pack {
        sensor: "hall",
        compress: true,
    };
    let packed = pack(&bytes[..], &mut File::create(&scratch).unwrap(), &options).unwrap();
    let bytes = fs::read(scratch).unwrap();
    archive.put(&packed.key, bytes.into()).await.unwrap();
    Rows {
        segment: packed.key,
        files: packed.index,
    }
}

#[test]
fn a_clock_that_is_days_ahead_lets_nothing_go_too_early() {
    let folder = Folder::new();
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    let archive = archive.wrapped(|store| {
        let store = Faulty::over(store, Arc::new(|_: &str| Put::Done));
        Arc::new(store.clock_ahead(-2 * 86_400))
    });
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let now = SystemTime::now();
        let an_hour_old = stored(&archive, &folder, now - 2 * DAY - DAY / 24).await;
        let old = stored(&archive, &folder, now - 30 * DAY).await;
        let being_shipped = stored(&archive, &folder, now - 31 * DAY).await;
        let mut table = Table::open_or_create(&archive).await.unwrap();
        let rows = [an_hour_old, old];
        assert_eq!(table.append(&rows).await.unwrap(), 2);
        let config = ExpireConfig {
            older_than: Some(DAY),
            ..ExpireConfig::default()
        };
        let done = expire(&archive, &config, &mut |_| {}).await.unwrap();
        assert_eq!((done.segments, done.not_deleted), (1, 0));
        let left = archive.list(segment::FOLDER).await.unwrap();
        let mut left: Vec<&str> = left.iter().map(|it| it.location.as_ref()).collect();
        left.sort_unstable();
        let mut expected = [&*rows[0].segment, &*being_shipped.segment];
        expected.sort_unstable();
        assert_eq!(left, expected);
    });
}
