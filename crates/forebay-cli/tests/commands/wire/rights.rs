//! The rights that capturing needs: capabilities, also those of a namespace, and never set-user-ID.

use crate::support::*;
use crate::wire::lab::tool;
use std::process::{Command, Output};

/// Runs `script` as the user nobody, with `$0` a copy of the command that this user can run.
pub fn as_nobody(script: &str) -> Option<Output> {
    as_nobody_of(FOREBAY, 0o755, script)
}

/// As [`as_nobody`], with `$0` a copy of `program` that has this mode.
fn as_nobody_of(program: &str, mode: u32, script: &str) -> Option<Output> {
    // SAFETY: it reads a number of this process.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root, to become nobody");
        return None;
    }
    let folder = Folder::new();
    let (root, copy) = (folder.path(""), folder.path("forebay"));
    set_mode(&root, 0o777);
    // Not by ourselves: a child of another test could inherit the descriptor, and what is being written cannot be run.
    let copied = Command::new("cp").args([program, &copy]).status();
    assert!(copied.unwrap().success());
    set_mode(&copy, mode);
    let mut setpriv = tool("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    setpriv
        .args(["bash", "-c", script, &copy])
        .current_dir(&root);
    Some(setpriv.output().unwrap())
}

#[test]
fn without_rights_the_message_advises_what_to_do() {
    let Some(output) = as_nobody("exec $0 capture -i lo -c 1") else {
        return;
    };
    output.fails(1, "lo: opening a packet socket: ");
    contains(output.log(), "setcap cap_net_raw");
    contains(output.log(), "unshare -rn");
}

#[test]
fn other_users_do_not_gain_roots_rights_to_files() {
    let Some(output) = as_nobody_of("/usr/bin/id", 0o4755, "$0 -u") else {
        return;
    };
    if output.stdout != b"0\n" {
        println!("skipped: needs a file system that heeds set-user-ID bits");
        return;
    }
    for command in ["pipe -i /etc/shadow", "capture -r /etc/shadow"] {
        let script = format!("exec $0 {command}");
        let output = as_nobody_of(FOREBAY, 0o4755, &script).unwrap();
        output.fails(1, "set-user-ID");
        contains(output.log(), "setcap");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn in_a_namespace_of_its_own_anybody_captures() {
    let script = "unshare -rn true || exit 77
        unshare -rn bash -c 'ip link set lo up
            $0 capture -v -i lo -c 2 -w got.pcapng --json udp port 9 2>log & child=$!
            until grep -q polling log; do kill -0 $child || exit 1; sleep 0.01; done
            echo x >/dev/udp/127.0.0.1/10; echo y >/dev/udp/127.0.0.1/9; echo z >/dev/udp/127.0.0.1/9
            wait $child' $0";
    let Some(output) = as_nobody(script) else {
        return;
    };
    let log = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        println!("skipped: needs user namespaces: {log}");
        return;
    }
    assert_eq!(count(&output.succeeds().json()["written"]), 2);
}
