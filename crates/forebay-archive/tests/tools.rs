//! With programs of others: an S3 server (moto), and the packages `deltalake` and `duckdb`.
//!
//! They are in the virtual environment `FOREBAY_ARCHIVE_TOOLS`; without it these tests are skipped.

mod common;

use common::{archive, captured, done, python, run};
use forebay_testing::folder::Folder;
use std::{
    fs,
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

macro_rules! python_or_skip {
    () => {
        match python() {
            Ok(python) => python,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        }
    };
}

/// The sums that other programs read from the index, and that a scan of the files gives.
#[test]
fn deltalake_and_duckdb_read_the_index_and_find_the_sums_of_the_files() {
    let python = python_or_skip!();
    let folder = Folder::new();
    let (spool, to) = (folder.path("spool"), folder.path("to"));
    fs::create_dir(&spool).unwrap();
    let mut bytes = 0;
    for seed in 1..=3 {
        let path = captured(
            &folder,
            &format!("spool/{seed}.pcapng"),
            &format!("count=4000,seed={seed},size=imix"),
        );
        let info = forebay_net::info::Info::of(&path);
        bytes += info.unwrap().all.wire_bytes;
    }
    assert_eq!(
        run(&["ship", &spool, &to, "--sensor", "hall", "--once"]).0,
        0
    );
    let script = r#"
import sys, duckdb
from deltalake import DeltaTable
table = DeltaTable(sys.argv[1])
index = table.to_pyarrow_table()
files = table.file_uris()
sums = "select sum(packets), sum(bytes), count(distinct segment), count(distinct community_id) > 0, min(date)::varchar"
print(duckdb.sql(sums + " from index").fetchall()[0])
print(duckdb.sql(sums + f" from read_parquet({files}, hive_partitioning = true)").fetchall()[0])
# The statistics of the log are those of the rows.
low = duckdb.sql("select min(first_ns), min(key_b) from index").fetchall()[0]
acts = table.get_add_actions(flatten=True)
acts = duckdb.sql("select min(\"min.first_ns\"), min(\"min.key_b\") from acts").fetchall()[0]
print(low == acts)
"#;
    let out = Command::new(python)
        .args(["-c", script, &format!("{to}/index")])
        .output()
        .unwrap();
    let (_, out, err) = done(out);
    let sums = format!("(12000, {bytes}, 3, True, '2020-01-01')");
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        [&*sums, &*sums, "True"],
        "{err}"
    );
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_object_store_is_shipped_to_survives_an_outage_and_its_errors_say_what_to_do() {
    let python = python_or_skip!();
    let folder = Folder::new();
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let endpoint = format!("http://127.0.0.1:{port}");
    let with_store = |args: &[&str]| {
        let mut command = archive(args);
        command
            .env("AWS_ENDPOINT_URL", &endpoint)
            .env("AWS_REGION", "us-east-1");
        command
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret");
        command
    };
    let run = |args: &[&str]| done(with_store(args).output().unwrap());
    let spool = folder.path("spool");
    fs::create_dir(&spool).unwrap();
    captured(&folder, "spool/a.pcapng", "count=5000,size=imix");
    // The store is down at first: ship waits.
    let mut shipping = with_store(&["ship", &spool, "s3://captures/lab", "--sensor", "hall"]);
    let mut shipping = shipping
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (code, _, err) = run(&["status", "s3://captures/lab"]);
    assert!(
        code == 1 && err.contains("The store does not answer"),
        "{err}"
    );
    let server = Command::new(python)
        .args([
            "-m",
            "moto.server",
            "-H",
            "127.0.0.1",
            "-p",
            &port.to_string(),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Server(server.unwrap());
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let (code, _, err) = run(&[
        "ship",
        &spool,
        "s3://missing/lab",
        "--sensor",
        "hall",
        "--once",
    ]);
    let expected = ["The bucket does not exist", "another `ship`"];
    assert!(
        code == 1 && expected.iter().any(|it| err.contains(it)),
        "{err}"
    );
    let made = Command::new("curl")
        .args(["-fsS", "-X", "PUT", &format!("{endpoint}/captures")])
        .status();
    assert!(made.unwrap().success());
    while fs::exists(folder.path("spool/a.pcapng")).unwrap() {
        assert!(shipping.try_wait().unwrap().is_none(), "ship ended early");
        std::thread::sleep(Duration::from_millis(50));
    }
    shipping.kill().unwrap();
    shipping.wait().unwrap();
    captured(&folder, "spool/b.pcapng", "count=3000,seed=2");
    let (code, _, err) = run(&[
        "ship",
        &spool,
        "s3://captures/lab",
        "--sensor",
        "hall",
        "--once",
    ]);
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = run(&["status", "s3://captures/lab", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let sensor: serde_json::Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(
        (&sensor["captured"], &sensor["indexed"], &sensor["segments"]),
        (&8000.into(), &8000.into(), &2.into())
    );
}
