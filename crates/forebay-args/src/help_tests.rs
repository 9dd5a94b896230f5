//! The help fits terminals of 80 and 60 columns.

use clap::Command;

/// The command and every subcommand, also those of subcommands.
fn commands() -> Vec<Command> {
    let mut left = vec![super::command()];
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
fn the_short_help_fits_two_screens_and_the_overview_one() {
    for command in commands() {
        let name = command.get_name().to_owned();
        let text = command.term_width(80).render_help().to_string();
        let rows = text.trim_end().lines().count();
        let limit = match &name[..] {
            "capture" => continue,
            "forebay" => 24,
            _ => 48,
        };
        assert!(rows <= limit, "{name}: {rows} rows\n{text}");
    }
}

#[test]
fn the_short_help_has_groups_and_examples() {
    for command in commands() {
        let name = command.get_name().to_owned();
        if command.has_subcommands() {
            continue;
        }
        let text = command.clone().render_help().to_string();
        assert!(text.contains("\nExamples:\n  "), "{name}: {text}");
        let mut flags = command.get_arguments();
        let is_grouped = flags.any(|arg| arg.get_help_heading() != Some("Other"));
        assert!(is_grouped, "{name}");
    }
    let command = super::command();
    let mut capture = command.find_subcommand("capture").unwrap().clone();
    let text = capture.render_help().to_string();
    let groups = [
        "Input:",
        "Output:",
        "Series of files:",
        "When to stop:",
        "Memory:",
        "Monitoring:",
        "Privileges:",
    ];
    for group in groups {
        assert!(text.contains(&format!("\n{group}\n")), "{text}");
    }
    for key in [
        "duration:",
        "interval:",
        "filesize:",
        "packets:",
        "files:",
        "total:",
    ] {
        assert!(text.contains(key), "{key}: {text}");
    }
}

#[test]
fn the_overview_names_every_subcommand() {
    let mut command = super::command();
    let text = command.render_help().to_string();
    let words: Vec<_> = text.split([' ', ',', '\n']).collect();
    let own = command
        .get_subcommands()
        .filter(|it| it.get_name() != "help");
    for inner in own {
        assert!(words.contains(&inner.get_name()), "{}", inner.get_name());
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
        if name == "forebay" {
            continue;
        }
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
