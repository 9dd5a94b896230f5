//! What users of other programs type by habit: `forebay -i eth0`, `forebay a.pcap`, `forebay merge`, `tcp.port==80`.

mod display_filter;
mod flags;

pub use flags::instead;

use clap::CommandFactory;
use forebay_net::filter::Filter;
use std::path::Path;

/// Words that are no subcommand, because they are one of another program or of another version, and what to use.
const WORDS: &[(&[&str], &str)] = &[
    (
        &[
            "dump", "sniff", "print", "record", "listen", "tcpdump", "tshark", "dumpcap",
        ],
        "packets are captured and printed by: forebay capture -i eth0",
    ),
    (
        &["read", "open", "view", "show", "filter"],
        "a file is printed by: forebay capture -r FILE, and summed up by: forebay info FILE",
    ),
    (
        &["send", "play", "tcpreplay", "inject"],
        "forebay replay FILE -i eth0 sends a file, and forebay generate sends test frames",
    ),
    (
        &["list", "iface", "ifaces", "interface", "devices", "links"],
        "interfaces are listed by: forebay interfaces",
    ),
    (
        &["stats", "stat", "statistics", "conversations"],
        "of a file: forebay flows FILE, or forebay info FILE; of an interface: forebay top eth0",
    ),
    (
        &["capinfos", "summary"],
        "files are summed up by: forebay info FILE",
    ),
    (
        &["watch", "monitor", "live", "iftop"],
        "an interface is watched by: forebay top -i eth0",
    ),
    (
        &["share", "serve"],
        "packets are shared by: forebay capture -i eth0 --share NAME. forebay shares lists what is shared",
    ),
    (
        &["status", "stop", "rotate", "flush"],
        "a running capture is controlled by: forebay control NAME status|stop|rotate|flush",
    ),
    (
        &["merge", "mergecap", "concat"],
        "files are read one after another by: forebay capture -r A -r B -w OUT. mergecap merges by time",
    ),
    (
        &["cut", "edit", "editcap", "split"],
        "a file is filtered and split by: forebay capture -r FILE -w OUT -b packets:COUNT tcp port 80",
    ),
    (
        &["fix", "check", "recover"],
        "a damaged capture is cut to what is whole by: forebay repair FILE",
    ),
    (
        &["loss", "test", "iperf"],
        "losses of a path are counted by: forebay generate, and forebay verify at its other end",
    ),
    (
        &["buffer", "pv", "mbuffer", "cat"],
        "data is buffered by: forebay pipe",
    ),
    (
        &["curl", "wget", "fetch", "download"],
        "a URL is fetched by: forebay get URL",
    ),
    (
        &["search", "query"],
        "an archive is searched by: forebay find",
    ),
    (&["version"], "the version is printed by: forebay --version"),
];

/// What to type instead of `words`, the command line after the program's name: `None` if it looks like no habit.
pub fn suggestion(words: &[String]) -> Option<String> {
    let first = words.first()?;
    if let Some((_, text)) = WORDS.iter().find(|(known, _)| known.contains(&&first[..])) {
        return Some((*text).into());
    }
    let line = words.join(" ");
    let meant = if first.starts_with('-') {
        has_flag("capture", first).then(|| format!("forebay capture {line}"))
    } else if is_file(first) {
        Some(format!("forebay capture -r {line}"))
    } else if is_interface(first) {
        Some(format!("forebay capture -i {line}"))
    } else {
        let is_filter = line.parse::<Filter>().is_ok();
        is_filter.then(|| format!("forebay capture -i eth0 {line}"))
    };
    meant.map(|meant| format!("did you mean '{meant}'?"))
}

fn has_flag(subcommand: &str, flag: &str) -> bool {
    let command = crate::args::Args::command();
    let command = command.find_subcommand(subcommand);
    let mut flags = command.into_iter().flat_map(|it| it.get_arguments());
    flags.any(|arg| match flag.strip_prefix("--") {
        Some(long) => arg.get_long() == long.split('=').next(),
        None => arg.get_short().is_some() && arg.get_short() == flag.chars().nth(1),
    })
}

fn is_file(word: &str) -> bool {
    Path::new(word).is_file()
}

fn is_interface(word: &str) -> bool {
    let prefixes = ["sim:", "share:", "tap:", "xdp:"];
    matches!(word, "any" | "sim")
        || prefixes.iter().any(|it| word.starts_with(it))
        || (!word.contains('/') && Path::new("/sys/class/net").join(word).exists())
}

/// What was probably meant by the expression of a command that has no input.
pub fn input(expression: &[String]) -> Option<String> {
    let first = expression.first()?;
    let flag = match (is_file(first), is_interface(first)) {
        (true, _) => "-r",
        (false, true) => "-i",
        (false, false) => return None,
    };
    Some(format!("Did you mean {flag} {}?", expression.join(" ")))
}

/// Why `expression` is not a filter, if it looks like something else.
pub fn not_a_filter(expression: &str) -> Option<String> {
    let mut words = expression.split_whitespace();
    let first = words.clone().next()?;
    if let Some(file) = words.find(|word| is_file(word)) {
        return Some(format!(
            "{file} is a file, and not part of a filter. Read it with -r {file}"
        ));
    }
    let typed: Vec<_> = std::env::args_os().collect();
    let follows = |flag: &str| typed.windows(2).any(|it| it[0] == flag && it[1] == first);
    if follows("-t") && ["a", "ad", "adoy", "d", "dd", "e", "r", "u", "ud", "udoy"].contains(&first)
    {
        return Some(format!(
            "-t has no value, so {first} is read as a filter. Repeat the letter: -tt prints seconds since 1970, -ttt the time since the \
             packet before, -tttt the date"
        ));
    }
    if follows("-e") && first.contains('.') {
        return Some(format!(
            "-e prints link-layer headers and has no value, so {first} is read as a filter. For fields of packets use --fields source,destination"
        ));
    }
    display_filter::advice(expression)
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
        for (typed, meant) in [
            ("-i eth0", "-i eth0"),
            ("-i eth0 tcp", "-i eth0 tcp"),
            ("-D", "-D"),
            ("--list-interfaces", "--list-interfaces"),
            ("lo", "-i lo"),
            ("share:lan", "-i share:lan"),
            ("any", "-i any"),
            ("sim:rate=10G -c 5", "-i sim:rate=10G -c 5"),
            ("tcp port 80", "-i eth0 tcp port 80"),
            ("/etc/passwd", "-r /etc/passwd"),
        ] {
            let meant = format!("did you mean 'forebay capture {meant}'?");
            assert_eq!(of(typed), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_word_of_another_program_is_answered_by_what_does_the_same() {
        for (typed, meant) in [
            ("merge a b", "capture -r A -r B -w OUT"),
            ("dump", "forebay capture"),
            ("list", "forebay interfaces"),
            ("version", "forebay --version"),
        ] {
            assert!(of(typed).unwrap().contains(meant), "{typed}");
        }
    }

    #[test]
    fn no_word_of_another_program_is_a_subcommand() {
        let command = <crate::args::Args as clap::CommandFactory>::command();
        let words = super::WORDS.iter().flat_map(|(words, _)| *words);
        for word in words {
            assert!(command.find_subcommand(word).is_none(), "{word}");
        }
    }

    #[test]
    fn anything_else_is_left_to_the_ordinary_error() {
        assert_eq!(of("captur"), None);
        assert_eq!(of("--no-such-flag"), None);
        assert_eq!(of("../etc"), None);
    }
}
