//! The rights that capturing needs: capabilities, also those of a namespace, and never set-user-ID.

use crate::{lab::tool, support::count};
use serde_json::Value;
use std::{
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Runs `script` as the user nobody, with `$0` a copy of the command that this user can run.
fn as_nobody(script: &str) -> Option<std::process::Output> {
    as_nobody_of(env!("CARGO_BIN_EXE_forebay"), 0o755, script)
}

/// As [`as_nobody`], with `$0` a copy of `program` that has this mode.
fn as_nobody_of(program: &str, mode: u32, script: &str) -> Option<std::process::Output> {
    // SAFETY: it reads a number of this process.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root, to become nobody");
        return None;
    }
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let name = format!("forebay-nobody-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder, open).unwrap();
    let copy = folder.join("forebay");
    // Not by ourselves: a child of another test could inherit the descriptor, and what is being written cannot be run.
    let copied = Command::new("cp")
        .args([program.as_ref(), copy.as_os_str()])
        .status();
    assert!(copied.unwrap().success());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&copy, mode).unwrap();
    let output = tool("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["bash", "-c", script])
        .arg(&copy)
        .current_dir(&folder)
        .output()
        .unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    Some(output)
}

#[test]
fn without_rights_the_message_advises_what_to_do() {
    let Some(output) = as_nobody("exec $0 capture -i lo -c 1") else {
        return;
    };
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{log}");
    for part in [
        "lo: opening a packet socket: ",
        "setcap cap_net_raw",
        "unshare -rn",
    ] {
        assert!(log.contains(part), "{log}");
    }
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
    let forebay = env!("CARGO_BIN_EXE_forebay");
    for command in ["pipe -i /etc/shadow", "capture -r /etc/shadow"] {
        let script = format!("exec $0 {command}");
        let output = as_nobody_of(forebay, 0o4755, &script).unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        assert!(
            log.contains("set-user-ID") && log.contains("setcap"),
            "{log}"
        );
    }
}

#[test]
fn in_a_namespace_of_its_own_anybody_captures() {
    let script = "unshare -rn true || exit 77
        unshare -rn bash -c 'ip link set lo up
            $0 capture -i lo -c 2 -w got.pcapng --json udp port 9 2>log & child=$!
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
    let json: Value = serde_json::from_slice(&output.stdout).expect(&log);
    assert_eq!(
        (count(&json["written"]), output.status.code()),
        (2, Some(0))
    );
}
