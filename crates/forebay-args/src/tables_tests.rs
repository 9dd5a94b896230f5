//! The tables of flags in `docs/` are those of the command.
//!
//! `FOREBAY_WRITE_DOCS=1 cargo test -p forebay-args tables` writes them anew.

use clap::{Arg, Command, CommandFactory};
use std::{fmt::Write, path::Path};

const BEGIN: &str = "<!-- flags: ";
const END: &str = "<!-- end of flags -->";

/// The flag as it is typed: `-i PORT`, `--sync POLICY`, `EXPRESSION…`.
fn spelling(arg: &Arg) -> String {
    let values = match arg.get_action().takes_values() {
        false => String::new(),
        true => {
            let names = arg.get_value_names().unwrap_or_default();
            // A bar would end the cell of the table, even between backticks.
            let names = names.iter().map(|name| name.replace('|', "\\|"));
            names.map(|name| format!(" {name}")).collect()
        }
    };
    let short = arg.get_short().map(|letter| format!("`-{letter}{values}`"));
    let aliases = arg.get_visible_short_aliases().unwrap_or_default();
    let aliases = aliases.into_iter().map(|letter| format!("`-{letter}`"));
    let long = arg.get_long().map(|name| format!("`--{name}{values}`"));
    let names: Vec<_> = short.into_iter().chain(aliases).chain(long).collect();
    match names.is_empty() {
        true => format!("`{}`", values.trim_start()),
        false => names.join(" "),
    }
}

fn default(arg: &Arg) -> String {
    let is_switch = !arg.get_action().takes_values();
    let values = arg.get_default_values().iter();
    let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
    match is_switch || values.is_empty() {
        true => String::new(),
        false => format!("`{}`", values.join(" ")),
    }
}

fn table(command: &Command) -> String {
    let mut text = String::from("| Flag | Meaning | Default |\n|---|---|---|\n");
    let args = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let mut groups = Vec::new();
    for group in args().map(Arg::get_help_heading) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for group in &groups {
        if groups.len() > 2 {
            writeln!(text, "| **{}** | | |", group.unwrap_or("Other")).unwrap();
        }
        for arg in args().filter(|arg| arg.get_help_heading() == *group) {
            let help = arg.get_long_help().or(arg.get_help());
            let help = help.expect("every flag has a help text").to_string();
            let paragraphs = help.split("\n\n").map(|text| text.split_whitespace());
            let paragraphs = paragraphs.map(|words| words.collect::<Vec<_>>().join(" "));
            let help = paragraphs.collect::<Vec<_>>().join(". ");
            let help = help.replace('|', "\\|").replace('<', "\\<");
            let (flag, default) = (spelling(arg), default(arg));
            writeln!(text, "| {flag} | {help} | {default} |").unwrap();
        }
    }
    text
}

/// `page` with each table replaced by the one of the command named in its marker.
fn with_tables(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->").expect("a marker ends with -->");
        let (_, after) = after.split_once(END).expect("a table has an end marker");
        let mut command = super::Args::command();
        for word in name.split(' ') {
            command = command
                .find_subcommand(word)
                .unwrap_or_else(|| panic!("there is no subcommand {name}"))
                .clone();
        }
        write!(text, "{before}{BEGIN}{name} -->\n{}{END}", table(&command)).unwrap();
        rest = after;
    }
    text + rest
}

#[test]
fn the_documents_list_the_flags_that_the_command_has() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut documented = Vec::new();
    for entry in std::fs::read_dir(&docs).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let page = std::fs::read_to_string(&path).unwrap();
        let names = page.split(BEGIN).skip(1);
        documented.extend(names.map(|rest| rest.split(" -->").next().unwrap().to_owned()));
        let expected = with_tables(&page);
        if std::env::var_os("FOREBAY_WRITE_DOCS").is_some() {
            std::fs::write(&path, expected).unwrap();
        } else {
            assert!(
                page == expected,
                "{} lists other flags than the command has: FOREBAY_WRITE_DOCS=1 cargo test -p forebay-args tables",
                path.display()
            );
        }
    }
    for command in super::Args::command().get_subcommands() {
        let inner: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        let names = match inner.is_empty() {
            true => vec![command.get_name().to_owned()],
            false => inner
                .iter()
                .map(|name| format!("{} {name}", command.get_name()))
                .collect(),
        };
        for name in names {
            assert!(
                documented.contains(&name),
                "no page in docs/ has the flags of {name}"
            );
        }
    }
}
