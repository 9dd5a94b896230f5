//! The help fits terminals of 80 and 60 columns.

use clap::{Command, CommandFactory};

/// The command and every subcommand, also those of subcommands.
fn commands() -> Vec<Command> {
    let mut left = vec![super::Args::command()];
    let mut found = left.clone();
    while let Some(command) = left.pop() {
        for inner in command.get_subcommands() {
            found.push(inner.clone());
            left.push(inner.clone());
        }
    }
    found
}

#[test]
fn no_line_of_help_is_longer_than_the_terminal() {
    for columns in [60, 80] {
        for command in commands() {
            let mut command = command.term_width(columns);
            let name = command.get_name().to_owned();
            let texts = [command.render_long_help(), command.render_help()];
            for text in texts.map(|text| text.to_string()) {
                for line in text.lines() {
                    assert!(line.chars().count() <= columns, "{name}: {line}");
                }
            }
        }
    }
}

#[test]
fn every_command_ends_its_help_with_examples_that_are_never_wrapped() {
    for command in commands() {
        let name = command.get_name().to_owned();
        let help = command.get_after_long_help();
        let help = help.unwrap_or_else(|| panic!("{name} has no examples"));
        let help = help.to_string();
        let (_, examples) = help.split_once("Examples:\n").expect(&name);
        let mut command = command.term_width(60);
        let text = command.render_long_help().to_string();
        assert!(text.trim_end().ends_with(examples), "{name}: {text}");
    }
}

#[test]
fn every_default_is_shown() {
    for command in commands() {
        let name = command.get_name().to_owned();
        let text = command.clone().render_long_help().to_string();
        for arg in command.get_arguments() {
            assert!(!arg.is_hide_default_value_set(), "{name}: {arg}");
            if let [default] = arg.get_default_values() {
                let shown = format!("[default: {}]", default.to_string_lossy());
                let is_switch = !arg.get_action().takes_values();
                assert!(is_switch || text.contains(&shown), "{name}: {arg}");
            }
        }
    }
}
