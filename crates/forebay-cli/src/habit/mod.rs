//! Command lines that users of tcpdump type by habit: `forebay -i eth0`, `forebay eth0`, `forebay -D`.

use clap::CommandFactory;
use std::path::Path;

/// What to type instead of `words`, the command line after the program's name: `None` if it does not look
/// like a capture.
pub fn suggestion(words: &[String]) -> Option<String> {
    let first = words.first()?;
    let line = words.join(" ");
    if let Some(flag) = first.strip_prefix('-') {
        let letter = flag.chars().next()?;
        let command = crate::args::Args::command();
        let mut flags = command.find_subcommand("capture")?.get_arguments();
        let is_flag = flags.any(|arg| match flag.strip_prefix('-') {
            Some(long) => arg.get_long() == long.split('=').next(),
            None => arg.get_short() == Some(letter),
        });
        return is_flag.then(|| format!("forebay capture {line}"));
    }
    let is_port = first == "any"
        || first == "sim"
        || first.starts_with("sim:")
        || first.starts_with("share:")
        || first.starts_with("tap:")
        || (!first.contains('/') && Path::new("/sys/class/net").join(first).exists());
    is_port.then(|| format!("forebay capture -i {line}"))
}

/// What to use instead of a flag of tcpdump, dumpcap or tshark that `forebay capture` does not have.
pub fn instead(flag: &str) -> Option<&'static str> {
    let flag = flag.split('=').next()?;
    Some(match flag {
        "-f" => {
            "write the filter at the end of the line, without -f: forebay capture -i eth0 tcp port 80"
        }
        "-Y" | "-R" => {
            "display filters are Wireshark's. Write a capture filter at the end: tcp port 80"
        }
        "-T" => "for fields of packets use --json-lines, and jq to choose them",
        "-P" => "for the classic format name the file .pcap, or use --format pcap",
        "-I" | "--monitor-mode" => {
            "put the interface into monitor mode first: iw dev wlan0 set type monitor"
        }
        "-j" | "-J" | "--time-stamp-type" | "--list-time-stamp-types" => {
            "times are those of the kernel. Leave it out, or use --time hardware"
        }
        "-E" | "-M" | "-o" => {
            "forebay does not decode that. Write a file with -w, and open it in Wireshark"
        }
        "-N" | "-H" | "-O" | "--no-optimize" | "-u" => {
            "leave it out: names are never looked up, and filters need no such flag"
        }
        "-m" => "leave it out: no modules are loaded",
        "--micro" => "use --time-stamp-precision micro",
        "--nano" => "use --time-stamp-precision nano",
        "-k" => {
            "write to standard output for Wireshark: forebay capture -i eth0 -w - | wireshark -k -i -"
        }
        "--capture-comment" => "forebay writes no comments. editcap --capture-comment adds one",
        "-g" => "forebay makes files that only you can read; chmod g+r changes that",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::suggestion;

    fn of(line: &str) -> Option<String> {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        suggestion(&words)
    }

    #[test]
    fn a_capture_without_its_subcommand_is_recognised() {
        assert_eq!(of("-i eth0").unwrap(), "forebay capture -i eth0");
        assert_eq!(of("-i eth0 tcp").unwrap(), "forebay capture -i eth0 tcp");
        assert_eq!(of("-D").unwrap(), "forebay capture -D");
        assert_eq!(
            of("--list-interfaces").unwrap(),
            "forebay capture --list-interfaces"
        );
        assert_eq!(of("lo").unwrap(), "forebay capture -i lo");
        assert_eq!(of("share:lan").unwrap(), "forebay capture -i share:lan");
        assert_eq!(of("any").unwrap(), "forebay capture -i any");
        assert_eq!(
            of("sim:rate=10G -c 5").unwrap(),
            "forebay capture -i sim:rate=10G -c 5"
        );
    }

    #[test]
    fn anything_else_is_left_to_the_ordinary_error() {
        assert_eq!(of("captur"), None);
        assert_eq!(of("--no-such-flag"), None);
        assert_eq!(of("../etc"), None);
    }
}
