//! Every flag is parsed with a value that its help describes, once and twice.

use clap::{Arg, ArgAction, Command, CommandFactory, error::ErrorKind};

/// A value for each name of a value. The first one that the flag accepts is used.
fn values(name: &str) -> &'static [&'static str] {
    match name {
        "ADDRESS" => &["192.0.2.1", "192.0.2.1:9"],
        "A" | "B" | "INTERFACE" => &["sim", "eth0"],
        "ACTION" => &["send"],
        "CHANGES" => &["vlan=5"],
        "CLOCK" => &["hardware"],
        "COUNTxSIZE" => &["16x4M"],
        "END" => &["a"],
        "FORMAT" => &["pcap"],
        "HOST:PORT" => &["localhost:9"],
        "KEY:VALUE" => &["duration:5"],
        "KIND" => &["sha256", "xxh3"],
        "LIST" => &["2,3"],
        "-" => &["-"],
        "MAC" => &["02:00:00:00:00:01"],
        "MODE" => &["hash"],
        "PERCENT" | "PERCENT|SIZE" | "SIZE|PERCENT" => &["10%", "10"],
        "POLICY" => &["file", "none"],
        "RATE" => &["10M", "10k"],
        "SECONDS" | "TIME" | "TIME|SIZE" => &["5s", "5", "14:00"],
        "SIZE" => &["4M", "64"],
        "SUM" => &["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"],
        "URL" => &["http://localhost/"],
        "[ADDRESS:]PORT" | "[HOST:]PORT" => &["9"],
        "tcp:[ADDR:]PORT" => &["tcp:9"],
        "zstd[:LEVEL]" => &["zstd:3"],
        _ => &["name", "5", "2", "4096"],
    }
}

/// Each subcommand that has flags, with the words that lead to it.
fn subcommands(command: &Command, words: &[String]) -> Vec<(Vec<String>, Command)> {
    let mut found = Vec::new();
    for inner in command.get_subcommands() {
        let words: Vec<_> = words
            .iter()
            .cloned()
            .chain([inner.get_name().into()])
            .collect();
        found.push((words.clone(), inner.clone()));
        found.extend(subcommands(inner, &words));
    }
    found
}

/// Whether `words` are parsed. That a further flag is required is no failure: values are checked before.
fn is_parsed(command: &mut Command, words: &[String]) -> Result<(), ErrorKind> {
    match command.try_get_matches_from_mut(words) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => Ok(()),
        Err(error) => Err(error.kind()),
    }
}

/// The ways to give a flag: `-w VALUE`, or `--write VALUE`.
fn spellings(arg: &Arg) -> Vec<String> {
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let long = arg.get_long_and_visible_aliases().unwrap_or_default();
    short
        .into_iter()
        .chain(long.into_iter().map(|name| format!("--{name}")))
        .collect()
}

#[test]
fn each_flag_is_parsed_and_a_second_one_is_counted_or_listed_or_refused() {
    let words = ["forebay".to_owned()];
    let mut whole = super::Args::command();
    let (mut flags, mut wrong) = (0, Vec::new());
    for (words, command) in subcommands(&super::Args::command(), &words) {
        for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let action = arg.get_action();
            if matches!(action, ArgAction::Help | ArgAction::Version) {
                continue;
            }
            flags += 1;
            let possible = arg.get_possible_values();
            let possible: Vec<_> = possible.iter().map(|it| it.get_name()).collect();
            let name = arg.get_value_names().and_then(|names| names.first());
            let samples = match (action.takes_values(), name) {
                (false, _) => vec![],
                (true, _) if !possible.is_empty() => possible,
                (true, name) => values(name.map_or("", |name| name.as_str())).to_vec(),
            };
            for spelling in spellings(arg) {
                let given = |sample: Option<&&str>| {
                    let sample = sample.map(|sample| (*sample).to_owned());
                    [spelling.clone()]
                        .into_iter()
                        .chain(sample)
                        .collect::<Vec<_>>()
                };
                let once = |sample: Option<&&str>| [words.clone(), given(sample)].concat();
                let sample = samples
                    .iter()
                    .find(|sample| is_parsed(&mut whole, &once(Some(sample))).is_ok());
                let parsed = is_parsed(&mut whole, &once(sample));
                let twice = is_parsed(&mut whole, &[once(sample), given(sample)].concat());
                let expected = match action {
                    ArgAction::Append | ArgAction::Count => Ok(()),
                    _ => Err(ErrorKind::ArgumentConflict),
                };
                if (parsed, twice) != (Ok(()), expected) {
                    wrong.push(format!(
                        "{words:?} {spelling}: once {parsed:?}, twice {twice:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(flags > 150, "{flags}");
}
