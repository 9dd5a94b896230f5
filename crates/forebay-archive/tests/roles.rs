//! The policies in packaging/policies, on a server that enforces them: what a role must do works, and what it must not do fails and changes
//! nothing.

mod common;

use common::{
    Outcome, assert_counts, captured, done, json_of, ok, python_or_skip, reports, runtime,
    servers::{self, Running, Server, TO, with_store},
};
use forebay_testing::folder::Folder;
use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt, aws::AmazonS3, path::Path as ObjectPath};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// The users of the server, and the files with their policies. The first two are sensors.
const USERS: [(&str, &str); 5] = [
    ("hall", "sensor"),
    ("dmz", "sensor"),
    ("indexer", "indexer"),
    ("analyst", "analyst"),
    ("janitor", "janitor"),
];

/// An S3 server with these users.
struct Store {
    _running: Running,
    endpoint: String,
    keys: Value,
}

impl Store {
    fn start(python: &Path, folder: &Folder) -> Store {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/policies");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/roles.py");
        let file = folder.path("keys.json");
        let mut command = Command::new(python);
        command.args([script, &file]);
        command.args(USERS.map(|(user, policy)| format!("{user}={root}/{policy}.json")));
        let mut running = Running::start(&mut command);
        let begin = Instant::now();
        let text = loop {
            if let Ok(text) = fs::read_to_string(&file) {
                break text;
            }
            let is_running = running.0.try_wait().unwrap().is_none();
            assert!(is_running && begin.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(20));
        };
        let ready: Value = serde_json::from_str(&text).unwrap();
        Store {
            _running: running,
            endpoint: format!("http://127.0.0.1:{}", ready["port"]),
            keys: ready["keys"].clone(),
        }
    }

    fn keys(&self, user: &str) -> [&str; 2] {
        [0, 1].map(|at| self.keys[user][at].as_str().unwrap())
    }

    /// Runs `forebay-archive` with the keys of a user.
    fn run(&self, user: &str, args: &[&str]) -> Outcome {
        let [id, secret] = self.keys(user);
        let mut command = with_store(&self.endpoint, args);
        command.env("AWS_ACCESS_KEY_ID", id);
        done(
            command
                .env("AWS_SECRET_ACCESS_KEY", secret)
                .output()
                .unwrap(),
        )
    }

    /// The bucket, with the keys of a user.
    fn bucket(&self, user: &str) -> AmazonS3 {
        servers::bucket(&self.endpoint, self.keys(user))
    }

    /// All objects with their hashes.
    fn objects(&self) -> Vec<(String, String)> {
        let bucket = self.bucket("owner");
        let listed: Vec<_> = runtime().block_on(bucket.list(None).try_collect()).unwrap();
        let object = |it: object_store::ObjectMeta| (it.location.into(), it.e_tag.unwrap());
        let mut objects: Vec<_> = listed.into_iter().map(object).collect();
        objects.sort();
        objects
    }
}

/// Checks whether a request was made, or refused because of the policy.
#[track_caller]
fn assert_allowed<T>(answer: object_store::Result<T>, may: bool, what: &str) {
    let is_as_expected = match &answer {
        Ok(_) => may,
        Err(error) => !may && error.to_string().contains("AccessDenied"),
    };
    assert!(is_as_expected, "{what}: {:?}", answer.err());
}

/// The requests that a role may make, on objects of all kinds.
#[test]
fn each_role_may_make_the_requests_that_it_needs_and_no_others() {
    let python = python_or_skip!();
    let folder = Folder::new();
    let store = Store::start(&python, &folder);
    let runtime = runtime();
    let owner = store.bucket("owner");
    let buckets = USERS.map(|(user, _)| (user, store.bucket(user)));
    let all = ["hall", "dmz", "indexer", "analyst", "janitor"];
    let readers = &["indexer", "analyst", "janitor"][..];
    let with_hall = &["hall", "indexer", "analyst", "janitor"][..];
    for (key, writers, readers) in [
        (
            "segments/sensor=hall/date=2026-01-01/hour=00/a.pcapng.zst",
            &["hall"][..],
            with_hall,
        ),
        ("segments/.probe", &["janitor"], readers),
        ("sensors/.archive.json", &["hall", "dmz"], &all[..]),
        ("sensors/.turns/compact-1-1.json", &["janitor"], readers),
        ("sensors/hall/claim.json", &["hall"], with_hall),
        ("sensors/hall/clock.json", &["hall"], with_hall),
        (
            "sensors/hall/shipped/2026-01-01/0001.json",
            &["hall"],
            with_hall,
        ),
        (
            "sensors/hall/days/2026-01-01/a.json",
            &["janitor"],
            with_hall,
        ),
        (
            "sensors/hall/dropped-a.json",
            &["hall", "janitor"],
            with_hall,
        ),
        ("sensors/hall/expired-a.json", &["janitor"], with_hall),
        (
            "sensors/hall/expired/2026-01-01/a.json",
            &["janitor"],
            with_hall,
        ),
        ("sensors/hall/vanished-a.json", &["janitor"], with_hall),
        (
            "index/_delta_log/00000000000000000000.json",
            &["indexer", "janitor"],
            readers,
        ),
        (
            "index/date=2026-01-01/part-a.parquet",
            &["indexer", "janitor"],
            readers,
        ),
        ("holds/a.json", &["janitor"], readers),
    ] {
        let path = ObjectPath::from(format!("lab/{key}"));
        runtime.block_on(async {
            owner.put(&path, "{}".into()).await.unwrap();
            for (user, bucket) in &buckets {
                let what = |verb: &str| format!("{verb} {key} as {user}");
                let put = bucket.put(&path, "{}".into()).await;
                assert_allowed(put, writers.contains(user), &what("put"));
                let got = bucket.get(&path).await;
                assert_allowed(got, readers.contains(user), &what("get"));
                // A claim belongs to a sensor for ever.
                let kept = ["claim", "clock", ".archive"];
                let may = *user == "janitor" && !kept.iter().any(|it| key.contains(it));
                assert_allowed(bucket.delete(&path).await, may, &what("delete"));
            }
        });
    }
}

#[test]
fn the_commands_of_a_role_work_and_those_of_another_role_fail_and_change_nothing() {
    let python = python_or_skip!();
    let folder = Folder::new();
    let store = Store::start(&python, &folder);
    let mut nats = Server::nats(&python, &folder, &[]);
    nats.start();
    let queue = format!("nats://127.0.0.1:{}", nats.port);
    let spool = |name: &str| common::spool(&folder, name);
    let capture = |name: &str, card: &str| captured(&folder, &format!("{name}/a.pcapng"), card);
    let ship = |user: &str, sensor: &str, spool: &str, more: &[&str]| {
        let args = ["ship", spool, TO, "--sensor", sensor, "--once"];
        store.run(user, &[&args, more].concat())
    };
    let (hall, dmz) = (spool("hall"), spool("dmz"));
    capture("hall", "count=500");
    // Long enough to be sent in parts.
    capture("dmz", "count=10000,size=1000,seed=2");
    ok(ship("hall", "hall", &hall, &["--announce", &queue]));
    ok(ship(
        "dmz",
        "dmz",
        &dmz,
        &["--announce", &queue, "--no-compress"],
    ));
    let index = [
        "index",
        TO,
        "--from",
        &queue,
        "--once",
        "--wait",
        "1s",
        "--take-over",
        "3s",
        "--json",
    ];
    let shipped = store.objects();
    for user in ["hall", "dmz", "analyst"] {
        reports(store.run(user, &index), 3, "may not do this");
    }
    assert_eq!(store.objects(), shipped);
    assert_counts(
        &json_of(store.run("indexer", &index)),
        [("packets", 10_500)],
    );
    ok(store.run("janitor", &["hold", TO, "kept", "--sensor", "dmz"]));

    let before = store.objects();
    let status = store.run("analyst", &["status", TO]);
    ok(status);
    let find = ["find", "--in", TO, "--count", "--json"];
    let found = || json_of(store.run("analyst", &find))["packets"].clone();
    assert_eq!(found(), 10_500);
    let expire = ["expire", TO, "--older-than", "1d", "--json"];
    for (user, _) in USERS.iter().take(4) {
        for args in [
            &expire[..],
            &["hold", TO, "case", "udp"],
            &["hold", TO, "--release", "kept"],
        ] {
            let (code, out, err) = store.run(user, args);
            assert_eq!(code, 3, "{args:?} as {user}: {out}{err}");
        }
    }
    let planned = [&expire[..], &["-n"]].concat();
    assert_counts(
        &json_of(store.run("analyst", &planned)),
        [("segments", 1), ("held", 1)],
    );
    for user in ["hall", "analyst"] {
        for args in [&["compact", TO][..], &["rebuild", TO]] {
            let refused = store.run(user, args);
            // The index of the archive needs no compaction, so an analyst has nothing to write.
            assert!(
                refused.0 == 3 || user == "analyst",
                "{args:?} as {user}: {}",
                refused.2
            );
        }
    }
    // A sensor reads nothing of another one, and no index.
    for args in [&find[..], &["status", TO], &["verify", TO]] {
        reports(store.run("hall", args), 3, "may not do this");
    }
    // A sensor cannot ship as another one, and other roles as none.
    let other = spool("other");
    capture("other", "count=10,seed=3");
    for (user, sensor) in [
        ("hall", "dmz"),
        ("hall", "new"),
        ("analyst", "new"),
        ("indexer", "new"),
        ("janitor", "new"),
    ] {
        reports(ship(user, sensor, &other, &["--announce", &queue]), 3, "");
        let _ = fs::remove_dir_all(format!("{other}/.forebay-ship"));
    }
    assert_eq!(store.objects(), before);
    assert_eq!(found(), 10_500);

    // A sensor that should announce cannot write to the index itself. Its segment is stored, and waits for an indexer.
    capture("hall", "count=20,seed=4");
    let index_of = |all: Vec<(String, String)>| -> Vec<(String, String)> {
        all.into_iter()
            .filter(|it| it.0.contains("lab/index/"))
            .collect()
    };
    reports(ship("hall", "hall", &hall, &[]), 3, "");
    assert_eq!(index_of(store.objects()), index_of(before));
    ok(ship("hall", "hall", &hall, &["--announce", &queue]));
    assert_counts(&json_of(store.run("indexer", &index)), [("packets", 20)]);

    let done = json_of(store.run("janitor", &expire));
    assert_counts(
        &done,
        [
            ("segments", 2),
            ("packets", 520),
            ("held", 1),
            ("not_deleted", 0),
        ],
    );
    ok(store.run("janitor", &["hold", TO, "--release", "kept"]));
    ok(store.run("janitor", &["compact", TO, "--vacuum", "1d"]));
    assert_counts(
        &json_of(store.run("janitor", &expire)),
        [("packets", 10_000)],
    );
    ok(store.run("janitor", &["rebuild", TO]));
    assert_eq!(found(), 0);
    let left = store.objects();
    assert!(
        !left.iter().any(|it| it.0.contains("/segments/")),
        "{left:?}"
    );
}
