//! Objects that became shorter, and objects that the store can never return.

use crate::common::{
    self, Outcome, captures, ok, python_or_skip, reports,
    servers::{Fleet, TO},
};
use forebay_testing::folder::Folder;
use std::fs;

/// How an archive is reached.
struct Place<'a> {
    to: &'a str,
    run: &'a dyn Fn(&[&str]) -> Outcome,
    keys: &'a dyn Fn(&str) -> Vec<String>,
    get: &'a dyn Fn(&str) -> Vec<u8>,
    put: &'a dyn Fn(&str, &[u8]),
}

impl Place<'_> {
    /// Calls `check` with an object that lacks its end, after `whole` bytes.
    fn cut(&self, key: &str, whole: usize, check: impl Fn()) {
        let bytes = (self.get)(key);
        (self.put)(key, &bytes[..whole]);
        check();
        (self.put)(key, &bytes);
    }

    fn check(&self) {
        let to = self.to;
        let is_file = |it: &String| it.ends_with(".parquet");
        let index = (self.keys)("index").into_iter().find(is_file).unwrap();
        let segment = (self.keys)("segments").pop().unwrap();
        let fails = |args: &[&str], key: &str| {
            let err = reports((self.run)(args), 1, key);
            assert!(err.contains("is damaged"), "{args:?}: {err}");
            assert!(!err.contains("does not answer"), "{args:?}: {err}");
        };
        for whole in [0, 100] {
            self.cut(&index, whole, || {
                fails(&["find", "--in", to, "udp", "--count"], &index);
                fails(&["expire", to, "--keep", "1d udp"], &index);
                fails(&["rebuild", to], &index);
            });
            self.cut(&segment, whole, || {
                fails(&["verify", to], &segment);
                fails(&["rebuild", to], &segment);
                fails(&["expire", to, "--older-than", "1d"], &segment);
                fails(&["find", "--in", to, "udp", "-w", "/dev/null"], &segment);
            });
        }
        ok((self.run)(&["status", to]));
    }
}

#[test]
fn objects_that_became_shorter_are_damaged() {
    let folder = Folder::new();
    let (spool, to) = (common::spool(&folder, "spool"), folder.path("to"));
    captures(&folder, 1..=1, 3000);
    ok(common::ship(&spool, &to, &[]));
    let key = |path: &std::path::PathBuf| path.strip_prefix(&to).unwrap().display().to_string();
    let path = |key: &str| format!("{to}/{key}");
    Place {
        to: &to,
        run: &common::run,
        keys: &|under| common::files_below(path(under)).iter().map(key).collect(),
        get: &|key| fs::read(path(key)).unwrap(),
        put: &|key, bytes| fs::write(path(key), bytes).unwrap(),
    }
    .check();
}

#[test]
fn objects_of_an_object_store_that_became_shorter_are_damaged() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    fleet.start_store();
    let spool = common::spool(&fleet.folder, "spool");
    captures(&fleet.folder, 1..=1, 3000);
    ok(fleet.run(&["ship", &spool, TO, "--sensor", "hall", "--once"]));
    Place {
        to: TO,
        run: &|args| fleet.run(args),
        keys: &|under| fleet.keys(under),
        get: &|key| fleet.get(key),
        put: &|key, bytes| fleet.put(key, bytes),
    }
    .check();
}
