//! What can stand at the end of a command line.

use crate::control::place;
use clap::{Arg, Command};
use forebay::queue;
use forebay_net::{link, share};
use std::{collections::BTreeSet, env, fs, path::Path};

/// Words of a flag's value that clap does not know, by the subcommand (none: any) and the flag.
const WORDS: &[(&str, &str, &[&str])] = &[
    (
        "capture",
        "autostop",
        &["duration:", "packets:", "filesize:", "files:"],
    ),
    ("", "autostop", &["duration:", "packets:"]),
    (
        "",
        "ring_buffer",
        &[
            "duration:",
            "interval:",
            "filesize:",
            "packets:",
            "files:",
            "total:",
        ],
    ),
    ("", "sync", &["none", "interval", "file", "always"]),
    ("", "format", &["pcapng", "pcap", "pcap-us"]),
    ("", "time", &["software", "hardware"]),
    ("", "fanout", &["hash", "lb", "cpu", "qm", "rollover"]),
    ("", "cut", &["send", "pad", "skip"]),
    ("", "hash", &["sha256", "crc32"]),
    ("", "compress", &["zstd", "zstd:"]),
    ("", "serve", &["tcp:"]),
    ("", "keep_free", &["5%", "10%", "20%"]),
    ("", "spec", &["rate=", "size=", "count="]),
];

#[derive(Debug, Default)]
pub struct Candidates {
    /// Each with a description, which may be empty.
    pub list: Vec<(String, String)>,
    /// Names of files, too.
    pub files: bool,
}

impl Candidates {
    /// Those for the last of `words`, which may be empty or not complete.
    pub fn of(command: &Command, words: &[String]) -> Candidates {
        let mut found = Candidates::default();
        let Some((typed, before)) = words.split_last() else {
            return found;
        };
        let (mut command, mut flag, mut position) = (command, None, 0);
        for word in before {
            if flag.take().is_some() {
            } else if let Some(inner) = command.find_subcommand(word) {
                command = inner;
            } else if word.len() > 1 && word.starts_with('-') {
                flag = find_flag(command, word);
            } else {
                position += 1;
            }
        }
        let name = command.get_name();
        // Its arguments are those of another program.
        if name == "with" && position > 0 {
            found.files = true;
            return found;
        }
        match (flag, typed.split_once('=')) {
            (Some(arg), _) => found.values(name, arg),
            (None, Some((flag, _))) if typed.starts_with("--") => {
                if let Some(arg) = command
                    .get_arguments()
                    .find(|it| it.get_long() == Some(&flag[2..]))
                {
                    found.values(name, arg);
                }
                found
                    .list
                    .iter_mut()
                    .for_each(|(word, _)| *word = format!("{flag}={word}"));
            }
            _ if typed.starts_with('-') => found.flags(command),
            _ if command.has_subcommands() => found.subcommands(command),
            _ => {
                let positionals: Vec<_> = command.get_positionals().collect();
                // The last one may be repeated.
                if let Some(arg) = positionals.get(position).or(positionals.last()) {
                    found.values(name, arg);
                }
            }
        }
        found
            .list
            .retain(|(word, _)| word.starts_with(typed.as_str()));
        found
    }

    fn add<T: Into<String>>(&mut self, words: impl IntoIterator<Item = T>, about: &str) {
        let words = words
            .into_iter()
            .map(|word| (word.into(), about.to_owned()));
        self.list.extend(words);
    }

    fn subcommands(&mut self, command: &Command) {
        for inner in command.get_subcommands() {
            self.add([inner.get_name()], &about(inner.get_about()));
        }
    }

    fn flags(&mut self, command: &Command) {
        for arg in command.get_arguments().filter(|it| !it.is_positional()) {
            let short = arg.get_short().map(|it| format!("-{it}"));
            let long = arg.get_long().map(|it| format!("--{it}"));
            self.add(short.into_iter().chain(long), &about(arg.get_help()));
        }
    }

    /// Values of a flag or an argument of `command`.
    fn values(&mut self, command: &str, arg: &Arg) {
        for value in arg.get_possible_values() {
            self.add([value.get_name()], &about(value.get_help()));
        }
        let is_of = |of: &str| of.is_empty() || of == command;
        let words = WORDS
            .iter()
            .find(|(of, flag, _)| is_of(of) && arg.get_id() == flag);
        self.add(
            words
                .into_iter()
                .flat_map(|(.., words)| words.iter().copied()),
            "",
        );
        let kind = arg.get_value_names().and_then(|names| names.first());
        match (command, kind.map_or("", |it| it.as_str())) {
            ("interfaces" | "doctor" | "replay" | "generate", "INTERFACE") | (_, "A" | "B") => {
                self.interfaces()
            }
            (_, "INTERFACE") => self.sources(),
            ("with", "PROGRAM") => {
                self.programs();
                self.files = true;
            }
            ("control" | "trigger" | "top", "NAME") => self.captures(),
            ("send" | "recv" | "stat" | "remove", "NAME") => self.queues(),
            (_, "FILE" | "DIR" | "INPUT" | "OUTPUT" | "CMD") => self.files = true,
            _ => {}
        }
    }

    fn interfaces(&mut self) {
        for link in link::interfaces().unwrap_or_default() {
            let state = if link.is_up() { "up" } else { "down" };
            self.add(
                [&link.name[..]],
                &format!("{}, {state}", link.hardware_name()),
            );
        }
    }

    fn sources(&mut self) {
        self.interfaces();
        self.add(["any"], "all interfaces");
        self.add(["sim"], "a simulated card");
        for name in share::offered().unwrap_or_default() {
            self.add([format!("share:{name}")], "packets that a capture shares");
        }
        let home = env::var_os("HOME").unwrap_or_default();
        let ssh = fs::read_to_string(Path::new(&home).join(".ssh/config")).unwrap_or_default();
        for host in hosts(&ssh) {
            self.add([format!("ssh:{host}/")], "an interface of another machine");
        }
    }

    /// Programs that a shell finds by name.
    fn programs(&mut self) {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).filter_map(|folder| fs::read_dir(folder).ok());
        let names: BTreeSet<String> = folders
            .flat_map(|entries| entries.flatten())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        self.add(names, "");
    }

    fn captures(&mut self) {
        let running = place::running().unwrap_or_default();
        let names = running.iter().filter_map(|(name, _)| name.to_str());
        self.add(names, "a running capture");
    }

    fn queues(&mut self) {
        self.add(queue::shared::list().unwrap_or_default(), "a queue");
    }
}

/// The names of machines in a configuration of ssh: patterns are none.
fn hosts(ssh: &str) -> impl Iterator<Item = &str> {
    let named = ssh.lines().filter_map(|line| {
        let (key, hosts) = line.trim().split_once([' ', '\t'])?;
        key.eq_ignore_ascii_case("host").then_some(hosts)
    });
    let is_plain = |host: &&str| !host.contains(['*', '?', '!', '"']);
    named.flat_map(str::split_whitespace).filter(is_plain)
}

/// The flag that takes the next word as its value.
fn find_flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let found = match word.strip_prefix("--") {
        Some(long) => command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(long)),
        // Of several letters only the last one can have a value.
        None => command
            .get_arguments()
            .find(|arg| arg.get_short() == word.chars().next_back()),
    };
    found.filter(|arg| arg.get_action().takes_values())
}

/// A description in one line.
fn about(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (Vec<String>, bool) {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let found = Candidates::of(&crate::args::command(), &words);
        (
            found.list.into_iter().map(|(word, _)| word).collect(),
            found.files,
        )
    }

    #[test]
    fn each_place_has_its_candidates() {
        for (line, expected) in [
            ("cap", "capture"),
            ("capture -i s", "sim"),
            ("capture -w x -i lo", "lo"),
            ("capture --interface=an", "--interface=any"),
            ("capture -a dur", "duration:"),
            ("capture -b int", "interval:"),
            ("capture --sync al", "always"),
            ("capture -nni l", "lo"),
            ("capture --ring", "--ring-buffer"),
            ("capture -Q in", "in"),
            ("control lan ro", "rotate"),
            ("queue se", "send"),
            ("replay f -i lo", "lo"),
            ("interfaces lo", "lo"),
        ] {
            let (words, files) = of(line);
            assert!(
                words.iter().any(|word| word == expected),
                "{line}: {words:?}"
            );
            assert!(!files, "{line}");
        }
    }

    #[test]
    fn with_has_programs_and_then_files() {
        let (words, files) = of("with s");
        assert!(words.iter().any(|word| word == "sh") && files, "{words:?}");
        assert_eq!(of("with --device sim tcpdump -i "), (Vec::new(), true));
    }

    #[test]
    fn machines_are_those_that_the_configuration_of_ssh_names() {
        let text = "Host one two *.example !three\n  HostName 10.0.0.1\n\thost\tfour\n#Host five\nUser six\n";
        assert_eq!(hosts(text).collect::<Vec<_>>(), ["one", "two", "four"]);
    }

    #[test]
    fn what_cannot_stand_there_is_left_out() {
        assert!(!of("replay f -i s").0.contains(&"sim".into()));
        assert!(of("generate -a file").0.is_empty());
        assert_eq!(of("capture -c "), (Vec::new(), false));
        for line in ["capture -r ", "info x", "pipe ", "man "] {
            assert!(of(line).1, "{line}");
        }
    }
}
