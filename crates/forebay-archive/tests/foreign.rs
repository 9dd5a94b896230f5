//! A table that another program has written, or writes to.

mod common;

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
