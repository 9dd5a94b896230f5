//! The command lines of ssh and of the other machine.

use super::target::{Program, Target};
use forebay::{Error, Result};
use std::process::Command;

/// Runs there, in a POSIX shell, with the filter as its first argument and the capture as the others. Has no single quote in it.
///
/// It leaves out the packets of this connection: each would cause more of them. Its input never has a byte: at its end, which
/// is that of the connection, the capture ends, too, also without packets, and still writes its counts.
const SCRIPT: &str = "f=$1; shift; set -f; \
    own() { [ $# = 4 ] && echo \"not (host ${1%%%*} and host ${3%%%*} and tcp port $2 and tcp port $4)\"; }; \
    o=$(own $SSH_CONNECTION); [ -z \"$o\" ] || f=\"${f:+($f) and }$o\"; \
    exec 3<&0; \"$@\" -- ${f:+\"$f\"} 3<&- & p=$!; \
    { cat <&3; kill $p; } >/dev/null 2>&1 & \
    wait $p; s=$?; kill $! 2>/dev/null; exit $s";

/// Keeps Ctrl-C from ssh: it ends the capture, whose counts still have to arrive.
const SHIELDED: &str = "trap '' INT QUIT; exec ssh \"$@\"";

/// What the capture there shall do as one here would.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Bytes to keep of a packet.
    pub snaplen: u32,
    /// Also packets for other stations.
    pub promiscuous: bool,
    /// Size of the receive ring; `None`: as the program there has it.
    pub ring_bytes: Option<u64>,
}

/// The program ssh, which captures packets that match `filter` there.
///
/// # Errors
/// The filter has a character that terminals and shells obey.
pub fn ssh(target: &Target, filter: &str, asked: Asked) -> Result<Command> {
    let mut ssh = Command::new("sh");
    ssh.args(["-c", SHIELDED, "ssh", "-T", "-x", "-a", "-e", "none"]);
    // A connection that is dead ends, instead of looking like an interface without packets.
    let options = [
        "ClearAllForwardings=yes",
        "ConnectTimeout=15",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "RemoteCommand=none",
        "ControlMaster=no",
    ];
    ssh.args(options.iter().flat_map(|it| ["-o", it]));
    if let Some(port) = target.port {
        ssh.args(["-p", &port.to_string()]);
    }
    if let Some(user) = &target.user {
        ssh.args(["-l", user]);
    }
    ssh.args(["--", &target.host, &there(target, filter, asked)?]);
    // A service here is none there.
    ssh.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    Ok(ssh)
}

/// The one line for the shell there.
fn there(target: &Target, filter: &str, asked: Asked) -> Result<String> {
    // Lines of a filter in a file.
    let filter = filter.replace(['\n', '\r', '\t'], " ");
    if filter.chars().any(char::is_control) {
        let error = Error::invalid(target.to_string(), "the filter has a control character");
        return Err(error.advise("Leave it out"));
    }
    let snaplen = asked.snaplen.to_string();
    // Both programs take the number as KiB.
    let ring = asked.ring_bytes.map(|it| it.div_ceil(1024).to_string());
    let mut words = vec!["sh", "-c", SCRIPT, "sh", &filter];
    words.extend(match target.program {
        Program::Forebay => &["forebay", "capture", "-q", "-U", "-w", "-"][..],
        Program::Tcpdump => &["tcpdump", "-n", "-U", "-w", "-"],
    });
    words.extend((!asked.promiscuous).then_some("-p"));
    words.extend(ring.iter().flat_map(|ring| ["-B", ring]));
    words.extend(["-s", &snaplen, "-i", &target.interface]);
    let words: Vec<_> = words.into_iter().map(quoted).collect();
    Ok(format!("exec {}", words.join(" ")))
}

/// One word for a shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked {
        snaplen: 99,
        promiscuous: true,
        ring_bytes: None,
    };

    /// What the shell of this machine makes of the words after `sh -c SCRIPT sh`.
    fn words(filter: &str, interface: &str) -> Vec<String> {
        let target: Target = format!("h/{interface}").parse().unwrap();
        let line = there(&target, filter, ASKED).unwrap();
        let (_, rest) = line.split_once(SCRIPT).unwrap();
        let printed = Command::new("sh")
            .arg("-c")
            .arg(format!("printf '%s\\0' '{rest}"))
            .output();
        let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
        printed.split('\0').map(str::to_owned).collect()
    }

    #[test]
    fn no_filter_and_no_interface_is_more_than_one_word_of_the_shell() {
        for hostile in [
            "'; touch /tmp/x; '",
            "$(id)",
            "`id`",
            "a' 'b",
            "\\",
            "\\'",
            "|| reboot",
            "&",
            "a\"b",
            "${IFS}",
            "!!",
            "*",
            "~",
            "# x",
            "--",
            "$'\\n'",
        ] {
            let found = words(hostile, &hostile.replace("--", "x"));
            let at = found.iter().position(|it| it == "sh").unwrap();
            assert_eq!(found[at + 1], hostile, "{found:?}");
            assert_eq!(found[at + 2..at + 4], ["forebay", "capture"]);
            assert_eq!(
                found[found.len() - 2],
                hostile.replace("--", "x"),
                "{found:?}"
            );
        }
        let target: Target = "h/eth0".parse().unwrap();
        assert!(there(&target, "tcp \u{1b}[2J", ASKED).is_err());
    }

    #[test]
    fn the_host_follows_the_end_of_the_flags() {
        let target: Target = "ada@h:22/eth0".parse().unwrap();
        let asked = Asked {
            promiscuous: false,
            ring_bytes: Some(8 << 20),
            ..ASKED
        };
        let command = ssh(&target, "", asked).unwrap();
        let words: Vec<_> = command.get_args().map(|it| it.to_str().unwrap()).collect();
        let at = words.iter().position(|it| *it == "--").unwrap();
        assert_eq!((words[at + 1], words.len()), ("h", at + 3));
        assert!(
            words[at + 2].contains(" '-p' '-B' '8192' '-s' '99' '-i' 'eth0'"),
            "{words:?}"
        );
    }
}
