use super::*;
use std::{
    env,
    fs::{self, File},
    os::unix::fs::FileExt,
    process::Command,
};

fn small_pages() -> MapConfig {
    MapConfig::default()
}

fn huge_pages() -> MapConfig {
    MapConfig {
        huge_pages: true,
        ..MapConfig::default()
    }
}

fn maps() -> usize {
    fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count()
}

/// Whether a sanitizer is active. Its own maps appear and disappear, and its addresses take terabytes.
fn sanitized() -> bool {
    let sanitized = fs::read_to_string("/proc/self/status")
        .unwrap()
        .lines()
        .any(|line| {
            let terabytes = |kib: &str| {
                kib.trim_end_matches(" kB")
                    .trim()
                    .parse()
                    .is_ok_and(|kib: u64| kib >> 30 > 0)
            };
            line.strip_prefix("VmPeak:").is_some_and(terabytes)
        });
    if sanitized {
        eprintln!("skipped: counting maps and limiting addresses makes no sense under a sanitizer");
    }
    sanitized
}

/// Whether this process runs only this test of this file. If not, runs it in a child that does, and requires it to pass; under a
/// sanitizer it is skipped.
fn is_child_for(test: &str) -> bool {
    if sanitized() {
        return false;
    }
    if env::var_os("FOREBAY_CHILD").is_some() {
        return true;
    }
    let child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("memory::tests::{test}"),
            "--nocapture",
            "--test-threads=1",
        ])
        .env("FOREBAY_CHILD", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(told.contains("running 1 test"), "no such test: {test}");
    let complaint = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{told}{complaint}");
    false
}

#[test]
fn a_write_near_the_end_shows_at_the_start() {
    let mut mirror = Mirror::new(10, &small_pages()).unwrap();
    let len = mirror.len();
    assert_eq!(len, sys::page_size());
    assert!(mirror.view(0, len).iter().all(|&byte| byte == 0));
    mirror.view_mut(len - 1, 3).copy_from_slice(b"abc");
    assert_eq!(mirror.view(0, 3), b"bc\0");
    mirror.view_mut(0, 1)[0] = b'z';
    assert_eq!(mirror.view(len - 1, 3), b"azc");
}

#[test]
fn each_view_starts_in_the_first_one_and_is_no_longer_than_the_memory() {
    let mirror = Mirror::new(1, &small_pages()).unwrap();
    let len = mirror.len();
    assert_eq!(mirror.view(len - 1, len).len(), len);
    for (at, bytes) in [(len, 0), (0, len + 1), (usize::MAX, 1)] {
        let mirror = std::panic::AssertUnwindSafe(&mirror);
        std::panic::catch_unwind(|| mirror.view(at, bytes).len()).unwrap_err();
    }
}

#[test]
fn sizes_that_make_no_sense_are_refused_before_anything_is_touched() {
    for (len, advice) in [
        (0, "at least one byte"),
        (usize::MAX, "no address space"),
        (isize::MAX as usize / 2 - 4096, "at most half"),
        (sys::available_memory().unwrap() * 3 / 4, "at most half"),
    ] {
        let mirror = Mirror::new(len, &small_pages()).unwrap_err().to_string();
        let region = Region::new(len, &small_pages()).unwrap_err().to_string();
        assert!(
            mirror.starts_with("mirrored memory: mapping ") && mirror.contains(advice),
            "{mirror}"
        );
        assert!(
            region.starts_with("memory region: mapping ") && region.contains(advice),
            "{region}"
        );
    }
}

#[test]
fn a_mirror_costs_two_maps_and_gives_them_back() {
    if !is_child_for("a_mirror_costs_two_maps_and_gives_them_back") {
        return;
    }
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let (maps_before, descriptors_before) = (maps(), descriptors());
    let mirrors = [1, 5 << 20].map(|len| Mirror::new(len, &small_pages()).unwrap());
    assert_eq!(maps(), maps_before + 4);
    assert_eq!(descriptors(), descriptors_before);
    let listed = fs::read_to_string("/proc/self/smaps").unwrap();
    assert!(listed.contains("dc"), "not inherited by fork");
    drop(mirrors);
    assert_eq!(maps(), maps_before);
}

/// Number of these pages that are mapped in the page table.
fn present(bytes: &[u8]) -> usize {
    let page = sys::page_size();
    let mut entries = vec![0; bytes.len() / page * 8];
    let table = File::open("/proc/self/pagemap").unwrap();
    let first = bytes.as_ptr().addr() / page;
    table.read_exact_at(&mut entries, first as u64 * 8).unwrap();
    let is_present = |entry: &&[u8]| entry[7] >> 7 == 1;
    entries.chunks(8).filter(is_present).count()
}

#[test]
fn pages_left_for_later_are_present_in_both_views_where_they_were_asked_for() {
    let page = sys::page_size();
    let later = MapConfig {
        populate: false,
        ..small_pages()
    };
    let mut mirror = Mirror::new(256 * page, &later).unwrap();
    let present_at = |mirror: &Mirror, at: usize| present(mirror.view(at * page, 64 * page));
    mirror.view_mut(65 * page, 1)[0] = 7;
    assert_eq!(present_at(&mirror, 63), 1);
    mirror.populate(63 * page + 1..126 * page + 1).unwrap();
    mirror.populate(0..0).unwrap();
    assert_eq!(mirror.view(65 * page, 1), [7], "unchanged");
    assert_eq!(present_at(&mirror, 63), 64);
    assert_eq!(present_at(&mirror, 127), 0);
    // From page 255, the pages after the first are in the second view.
    mirror.populate(0..64 * page).unwrap();
    assert_eq!(present(mirror.view(255 * page, 65 * page)), 64);
}

#[test]
#[should_panic(expected = "of a mirror of")]
fn no_page_beyond_a_mirror_can_be_asked_for() {
    let mirror = Mirror::new(1, &small_pages()).unwrap();
    let _ = mirror.populate(0..mirror.len() + 1).is_err();
}

#[test]
fn running_out_of_maps_is_a_clean_error() {
    if !is_child_for("running_out_of_maps_is_a_clean_error") {
        return;
    }
    let bare = MapConfig {
        populate: false,
        ..MapConfig::default()
    };
    let mut mirrors = Vec::with_capacity(100_000);
    let error = loop {
        match Mirror::new(1, &bare) {
            Ok(mirror) => mirrors.push(mirror),
            Err(error) => break error,
        }
        if mirrors.len() == 100_000 {
            eprintln!("skipped: this machine allows more than 200,000 maps");
            return;
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOMEM), "{error}");
    // While no map is free, /proc cannot be read. After some are freed, the count shows that the failures used none.
    for _ in 0..10 {
        Mirror::new(1, &bare).unwrap_err();
    }
    mirrors.truncate(mirrors.len() - 10);
    let before = maps();
    let again: Vec<_> = (0..10).map(|_| Mirror::new(1, &bare).unwrap()).collect();
    assert_eq!(maps(), before + 20);
    assert!(error.to_string().contains("vm.max_map_count"), "{error}");
    drop(again);
}

#[test]
fn running_out_of_addresses_is_a_clean_error() {
    if !is_child_for("running_out_of_addresses_is_a_clean_error") {
        return;
    }
    let before = maps();
    let limit = rustix::process::Rlimit {
        current: Some(1 << 30),
        maximum: Some(1 << 30),
    };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
    for len in [600 << 20, 1 << 30] {
        let error = Mirror::new(len, &small_pages()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM), "{error}");
    }
    let error = Region::new(1 << 30, &small_pages()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOMEM), "{error}");
    assert_eq!(maps(), before);
}

#[test]
fn a_region_is_zeroed_whole_pages_and_aligned_to_huge_ones_from_there_on() {
    for (len, align) in [
        (1, 4096),
        (5000, 4096),
        (2 << 20, 2 << 20),
        (5 << 20, 2 << 20),
    ] {
        let mut region = Region::new(len, &small_pages()).unwrap();
        assert_eq!(region.len(), len.next_multiple_of(sys::page_size()));
        assert_eq!(region.as_ptr() as usize % align, 0);
        assert!(region.iter().all(|&byte| byte == 0));
        region.fill(1);
    }
}

#[test]
fn huge_pages_are_reported_as_the_kernel_has_them() {
    const LEN: usize = 4 << 20;
    assert_eq!(
        Region::new(LEN, &small_pages()).unwrap().huge_pages(),
        HugePages::NotAsked
    );
    assert_eq!(
        Mirror::new(LEN, &small_pages()).unwrap().huge_pages(),
        HugePages::NotAsked
    );
    let region = Region::new(LEN, &huge_pages()).unwrap();
    let mirror = Mirror::new(LEN + 1, &huge_pages()).unwrap();
    assert_eq!(mirror.len(), 6 << 20, "whole huge pages");
    assert_eq!(
        Mirror::new(5000, &huge_pages()).unwrap().len(),
        5000_usize.next_multiple_of(sys::page_size())
    );
    for (got, len) in [
        (region.huge_pages(), LEN),
        (mirror.huge_pages(), mirror.len()),
    ] {
        match got {
            HugePages::NotAsked => panic!("they were requested"),
            HugePages::Refused => eprintln!("this kernel gave no huge pages for {len} bytes"),
            HugePages::Got { bytes } => assert!(bytes > 0 && bytes <= len, "{bytes} of {len}"),
        }
    }
}
