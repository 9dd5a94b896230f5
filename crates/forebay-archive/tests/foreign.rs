//! A table that another program has written, or writes to.

mod common;
#[path = "foreign/earlier.rs"]
mod earlier;

use common::{captures, done, json_of, ok, places, python_or_skip, run, ship, status};
use std::{path::Path, process::Command};

/// Writes the rows again as earlier versions of this program committed them with delta-rs: one transaction a segment, a property, and
/// a checkpoint.
const AGAIN: &str = r#"
import sys, os, time
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
path = sys.argv[1]
old = DeltaTable(path)
rows, schema = old.to_pyarrow_table(), old.schema()
os.rename(path, path + "-old")
DeltaTable.create(path, schema, partition_by=["date"], name="forebay", configuration={"delta.checkpointInterval": "20"})
for segment in sorted(set(rows["segment"].to_pylist())):
    _, sensor, _, _, name = segment.split("/")
    id = Transaction(f"segments/{sensor}/{name.split('.')[0]}", 1, int(time.time() * 1000))
    mask = [it == segment for it in rows["segment"].to_pylist()]
    write_deltalake(path, rows.filter(mask), mode="append", commit_properties=CommitProperties(app_transactions=[id]))
DeltaTable(path).create_checkpoint()
"#;

const CHANGED: &str = r#"
import sys
from deltalake import DeltaTable
table = DeltaTable(sys.argv[1])
table.update(updates={"vlan_tags": "0"}, predicate="vlan_tags = 0")
table.optimize.compact()
"#;

fn with_python(python: &Path, script: &str, to: &str) {
    let mut command = Command::new(python);
    let command = command.args(["-c", script, &format!("{to}/index")]);
    ok(done(command.output().unwrap()));
}

#[test]
fn a_table_of_delta_rs_is_searched_compacted_and_expired_also_after_it_was_changed() {
    let python = python_or_skip!();
    let (folder, spool, to) = places();
    captures(&folder, 0..4, 500);
    ok(ship(&spool, &to, &[]));
    with_python(&python, AGAIN, &to);
    let found = |expected: &str| {
        let find = ["find", "--in", &to, "--count", "udp or tcp or not ip"];
        assert_eq!(ok(run(&find)).trim(), expected);
    };
    found("2000");
    assert_eq!(status(&to)[0]["indexed"], 2000);
    // Their transactions are known.
    captures(&folder, 0..5, 500);
    let shipped = ok(ship(&spool, &to, &[]));
    assert_eq!(status(&to)[0]["indexed"], 2500, "{shipped}");
    with_python(&python, CHANGED, &to);
    found("2500");
    assert_eq!(status(&to)[0]["indexed"], 2500);
    captures(&folder, 5..7, 500);
    ok(ship(&spool, &to, &[]));
    ok(run(&["compact", &to]));
    found("3500");
    assert_eq!(status(&to)[0]["indexed"], 3500);
    // The other program reads it, too.
    with_python(&python, CHANGED, &to);
    found("3500");
    let expired = json_of(run(&["expire", &to, "--older-than", "30d", "--json"]));
    assert_eq!(expired["packets"], 3500);
    found("0");
}

/// Replaces the log up to its last commit by a checkpoint in parts, as Spark writes it: statistics are columns (`stats_parsed`), and not
/// JSON unless asked for.
const CHECKPOINT: &str = r#"
import datetime, json, os, sys
import pyarrow as pa, pyarrow.parquet as pq
path, parts, as_json = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "json"
log = path + "/_delta_log"
commits = sorted(it for it in os.listdir(log) if it.endswith(".json") and len(it) == 25)
state = {}
for name in commits:
    for line in open(f"{log}/{name}"):
        (kind, it), = json.loads(line).items()
        if kind in ("add", "remove"):
            state["file", it["path"]] = kind, it
        elif kind != "commitInfo":
            state[kind, it.get("appId")] = kind, it
text, long, flag = pa.string(), pa.int64(), pa.bool_()
texts = pa.map_(text, text)
types = {"string": text, "long": long, "integer": pa.int32()}
fields = json.loads(state["metaData", None][1]["schemaString"])["fields"]
columns = [(it["name"], types[it["type"]]) for it in fields if it["name"] != "date"]
vector = pa.struct([("storageType", text), ("pathOrInlineDv", text), ("offset", pa.int32())])
schema = pa.schema([
    ("txn", pa.struct([("appId", text), ("version", long), ("lastUpdated", long)])),
    ("add", pa.struct([
        ("path", text), ("partitionValues", texts), ("size", long), ("modificationTime", long), ("dataChange", flag), ("stats", text),
        ("tags", texts), ("deletionVector", vector), ("baseRowId", long), ("defaultRowCommitVersion", long),
        ("partitionValues_parsed", pa.struct([("date", pa.date32())])),
        ("stats_parsed", pa.struct([
            ("numRecords", long), ("minValues", pa.struct(columns)), ("maxValues", pa.struct(columns)),
            ("nullCount", pa.struct([(name, long) for name, _ in columns]))]))])),
    ("remove", pa.struct([
        ("path", text), ("deletionTimestamp", long), ("dataChange", flag), ("extendedFileMetadata", flag), ("partitionValues", texts),
        ("size", long), ("stats", text), ("tags", texts), ("deletionVector", vector)])),
    ("metaData", pa.struct([
        ("id", text), ("name", text), ("description", text), ("format", pa.struct([("provider", text), ("options", texts)])),
        ("schemaString", text), ("partitionColumns", pa.list_(text)), ("configuration", texts), ("createdTime", long)])),
    ("protocol", pa.struct([
        ("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()), ("readerFeatures", pa.list_(text)),
        ("writerFeatures", pa.list_(text))])),
    ("domainMetadata", pa.struct([("domain", text), ("configuration", text), ("removed", flag)])),
])
rows = []
for kind, it in state.values():
    if kind == "add":
        it["stats_parsed"] = json.loads(it["stats"])
        it["partitionValues_parsed"] = {"date": datetime.date.fromisoformat(it["partitionValues"]["date"])}
        if not as_json:
            del it["stats"]
    rows.append({kind: it})
last = len(commits) - 1
for part in range(parts):
    name = f"{log}/{last:020}.checkpoint.{part + 1:010}.{parts:010}.parquet"
    pq.write_table(pa.Table.from_pylist(rows[part::parts], schema), name)
json.dump({"version": last, "size": len(rows), "parts": parts}, open(log + "/_last_checkpoint", "w"))
for name in commits[:-1]:
    os.remove(f"{log}/{name}")
"#;

#[test]
fn checkpoints_in_parts_with_statistics_as_columns_are_read() {
    let python = python_or_skip!();
    for (statistics, outside) in [("json", 4), ("columns", 0)] {
        let (folder, spool, to) = places();
        captures(&folder, 0..4, 500);
        ok(ship(&spool, &to, &[]));
        let mut command = Command::new(&python);
        let index = format!("{to}/index");
        let command = command.args(["-c", CHECKPOINT, &index, "3", statistics]);
        ok(done(command.output().unwrap()));
        let find = [
            "find",
            "--in",
            &to,
            "--count",
            "--json",
            "udp or tcp or not ip",
        ];
        let found = |more: &[&str]| json_of(run(&[&find, more].concat()));
        assert_eq!(found(&[])["packets"], 2000);
        // Without statistics as JSON, all files are read, and no packet is missing.
        let later = found(&["--from", "2030-01-01"]);
        assert_eq!(later["packets"], 0);
        assert_eq!(later["index"]["files_outside_time"], outside, "{later}");
        assert_eq!(status(&to)[0]["indexed"], 2000);
        if statistics == "json" {
            continue;
        }
        // The transactions are known.
        captures(&folder, 0..5, 500);
        ok(ship(&spool, &to, &[]));
        assert_eq!(status(&to)[0]["indexed"], 2500);
        ok(run(&["compact", &to]));
        assert_eq!(found(&[])["packets"], 2500);
        let expired = json_of(run(&["expire", &to, "--older-than", "30d", "--json"]));
        assert_eq!(expired["packets"], 2500);
        assert_eq!(found(&[])["packets"], 0);
    }
}
