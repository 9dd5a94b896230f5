//! The limit of free space on a disk that a test makes up.

use super::{
    super::{reports::Reports, retention::list_of_tests},
    *,
};
use forebay_testing::folder::Folder;
use std::fs;

const MIB: u64 = 1 << 20;

/// A disk of 100 MiB in which only the files of a folder use space, and `others` bytes.
fn disk(folder: &Path, others: Arc<AtomicU64>) -> Ask {
    let folder = folder.to_owned();
    Box::new(move || {
        let files = fs::read_dir(&folder)?.flatten();
        let used: u64 = files
            .map(|file| file.metadata().map_or(0, |it| it.len()))
            .sum();
        let used = used + others.load(Relaxed);
        Ok(Space {
            free: (100 * MIB).saturating_sub(used),
            total: 100 * MIB,
        })
    })
}

/// A series of this number of files of 10 MiB, and its folder.
fn series(files: u64) -> (Folder, Retention, Reports) {
    let folder = Folder::new();
    let reports = Reports::default();
    let retention = list_of_tests(&reports);
    for number in 0..files {
        let path = folder.join(number.to_string());
        fs::File::create(&path).unwrap().set_len(10 * MIB).unwrap();
        retention.add(&path, 10 * MIB);
    }
    (folder, retention, reports)
}

/// A limit for the files of a folder, and the bytes that others use on its disk.
fn space(
    keep: KeepFree,
    folder: &Folder,
    retention: Option<Retention>,
) -> (SpaceLimit, Arc<AtomicU64>) {
    let others = Arc::new(AtomicU64::new(0));
    let ask = disk(folder, others.clone());
    (limit(keep, folder, retention, ask).unwrap(), others)
}

fn limit(
    keep: KeepFree,
    folder: &Path,
    retention: Option<Retention>,
    ask: Ask,
) -> Result<SpaceLimit> {
    SpaceLimit::with(keep, folder.to_path_buf(), retention, ask)
}

/// The error of a limit that cannot be met while others use this number of bytes.
fn refused(keep: KeepFree, folder: &Path, retention: Option<Retention>, others: u64) -> String {
    let ask = disk(folder, Arc::new(AtomicU64::new(others)));
    let refused = limit(keep, folder, retention, ask);
    refused.err().unwrap().to_string()
}

/// A disk of this size that always has this number of bytes free.
fn fixed(free: u64, total: u64) -> Ask {
    Box::new(move || Ok(Space { free, total }))
}

#[test]
fn the_oldest_files_go_until_all_that_waits_has_room() {
    let (folder, retention, reports) = series(5);
    let (space, others) = space(KeepFree::Percent(20), &folder, Some(retention));
    assert_eq!(folder.names().len(), 5, "half of the disk is free");
    // 15 MiB are free, and 20 have to be, with 4 for this write, 10 for the next ones, and the margin.
    others.store(35 * MIB, Relaxed);
    space.awaits(10 * MIB);
    space.make(4 * MIB).unwrap();
    assert_eq!(folder.names(), ["2", "3", "4"]);
    assert!(!space.is_short());
    assert_eq!(reports.files().removed_for_space, 2);
    assert_eq!(reports.files().removed, 0);
    // Without the packets that wait, it is enough.
    others.store(70 * MIB, Relaxed);
    space.make(4 * MIB).unwrap();
    assert!(space.is_short() && folder.names().is_empty());
}

#[test]
fn a_limit_that_removing_all_files_cannot_meet_costs_no_file() {
    let (folder, retention, reports) = series(3);
    let all = "The file system has 104.9 MB in all";
    for (bytes, said) in [
        (30 * MIB, "31.46 MB must stay free"),
        (100 * MIB, all),
        (u64::MAX, all),
    ] {
        let keep = KeepFree::Bytes(bytes);
        let error = refused(keep, &folder, Some(retention.clone()), 70 * MIB);
        assert!(error.contains(said), "{error}");
        assert_eq!(folder.names().len(), 3);
    }
    let keep = KeepFree::Percent(10);
    let refused = limit(keep, &folder, Some(retention.clone()), fixed(0, 0));
    assert!(refused.is_err() && folder.names().len() == 3);
    // Other programs fill the disk while the capture runs.
    let (space, others) = space(KeepFree::Percent(30), &folder, Some(retention));
    others.store(70 * MIB, Relaxed);
    space.make(4 * MIB).unwrap();
    assert!(space.is_short());
    assert_eq!(
        (folder.names().len(), reports.files().removed_for_space),
        (3, 0)
    );
}

#[test]
fn removing_files_that_frees_nothing_ends_the_capture_before_all_are_gone() {
    let (folder, retention, reports) = series(9);
    let free = Arc::new(AtomicU64::new(50 * MIB));
    let now = free.clone();
    let ask = move || {
        Ok(Space {
            free: now.load(Relaxed),
            total: 200 * MIB,
        })
    };
    let keep = KeepFree::Bytes(20 * MIB);
    let space = limit(keep, &folder, Some(retention), Box::new(ask)).unwrap();
    for written in 0..20 {
        free.store((50 - 2 * written) * MIB, Relaxed);
        space.make(2 * MIB).unwrap();
    }
    assert!(space.is_short());
    let left = 9 - u64::from(MAX_FUTILE);
    assert_eq!(folder.names().len() as u64, left);
    assert_eq!(reports.files().removed_for_space, 9 - left);
}

#[test]
fn files_that_others_removed_are_no_space_to_come() {
    let (folder, retention, reports) = series(5);
    let (space, others) = space(KeepFree::Percent(20), &folder, Some(retention));
    for gone in ["0", "1"] {
        fs::remove_file(folder.join(gone)).unwrap();
    }
    others.store(55 * MIB, Relaxed);
    space.make(4 * MIB).unwrap();
    assert_eq!(folder.names(), ["3", "4"]);
    assert_eq!(reports.files().removed_for_space, 1);
}

#[test]
fn a_thread_of_its_own_checks_while_nothing_is_written() {
    let (folder, retention, _) = series(3);
    let (space, others) = space(KeepFree::Percent(20), &folder, Some(retention));
    let watch = space.watch().unwrap();
    others.store(65 * MIB, Relaxed);
    while folder.names().len() > 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    watch.finish(&Control::new().unwrap());
    assert_eq!(folder.names(), ["2"]);
}

#[test]
fn without_files_to_remove_the_capture_ends_while_what_waits_still_fits() {
    let (folder, ..) = series(0);
    let ask = disk(&folder, Arc::new(AtomicU64::new(50 * MIB)));
    let space = limit(KeepFree::Bytes(30 * MIB), &folder, None, ask).unwrap();
    space.awaits(18 * MIB);
    assert!(!space.is_short());
    space.awaits(20 * MIB);
    assert!(space.is_short(), "20 MiB are left, and 20 wait");
    let error = refused(KeepFree::Bytes(60 * MIB), &folder, None, 50 * MIB);
    let expected = "52.43 MB are free, and 62.91 MB must stay free";
    assert!(error.contains(expected), "{error}");
    // The free space is unknown.
    refused(KeepFree::Percent(20), Path::new("/nowhere"), None, 80 * MIB);
}

#[test]
fn a_file_system_that_frees_space_late_does_not_cost_more_files() {
    let (folder, retention, _) = series(5);
    // Nothing ever becomes free, as if another program had the removed files open.
    let ask = fixed(15 * MIB, 100 * MIB);
    let space = limit(KeepFree::Percent(10), &folder, Some(retention), ask).unwrap();
    space.awaits(8 * MIB);
    for _ in 0..10 {
        // It fits as it is, and one removed file promises room for the rest.
        space.make(4 * MIB).unwrap();
    }
    assert_eq!(folder.names().len(), 4);
}

#[test]
fn the_writer_checks_for_itself_while_it_writes() {
    let (folder, retention, _) = series(3);
    let (space, others) = space(KeepFree::Percent(20), &folder, Some(retention));
    others.store(65 * MIB, Relaxed);
    let mut seen = 0;
    space.0.writes.store(1, Relaxed);
    space.check_if_idle(&mut seen);
    assert_eq!(folder.names().len(), 3, "the writer checks for itself");
    space.check_if_idle(&mut seen);
    assert_eq!(folder.names(), ["2"]);
}
