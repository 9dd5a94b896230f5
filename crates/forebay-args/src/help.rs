//! The command with its help: `-h` prints the first clause about each flag and the first examples, `--help` everything.

use clap::{Arg, ArgAction, Command};

/// Examples at the end of `-h`.
const EXAMPLES: usize = 3;

/// `forebay` without a subcommand, and with `-h` or `--help`.
const OVERVIEW: &str = "\
Captures packets, buffers data, and counts whatever is lost
Usage: forebay COMMAND [FLAGS] [ARGUMENTS]

Capture  capture           print packets, or write them
         top               busiest flows and hosts, live
         control, trigger  steer a running capture
         shares            list captures to read from
         with, extcap      tcpdump, Wireshark on forebay
Files    info, flows       sum up files, conversations
         repair            cut damaged capture files
         records           check or print record files
         archive, find     keep captures, search them
Paths    replay            send capture files
         generate, verify  send frames, count losses
         bridge            forward between interfaces
Data     pipe              a large buffer for a pipe
         queue             messages between processes
         get               fetch a URL
System   interfaces        what each interface can do
         doctor            find what loses packets
         man, completions  manual pages, shell scripts

forebay COMMAND -h lists the flags of a command, and --help
explains them. forebay --version prints the version.
";

/// `forebay` with both kinds of help.
pub fn helpful(command: Command) -> Command {
    brief(command).override_help(OVERVIEW)
}

fn brief(command: Command) -> Command {
    let after = command.get_after_long_help().map(ToString::to_string);
    let after = after.map(|text| first_examples(&text));
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::Help);
    let help = help
        .help("Print this; --help prints all flags, and explains them")
        .help_heading("Other");
    let command = command.mut_args(with_first_clause).mut_subcommands(brief);
    let command = command.disable_help_flag(true).arg(help);
    match after {
        Some(after) => command.after_help(after),
        None => command,
    }
}

/// `-h` shows the text up to the first full stop or semicolon, and `--help` all of it.
fn with_first_clause(arg: Arg) -> Arg {
    let Some(text) = arg.get_help().map(ToString::to_string) else {
        return arg;
    };
    let is_end = |&(at, _): &(usize, &str)| {
        let before = &text[..at];
        before.matches('(').count() == before.matches(')').count()
    };
    let ends = [". ", "; "]
        .map(|end| text.match_indices(end).find(is_end))
        .into_iter()
        .flatten();
    let Some((end, _)) = ends.min() else {
        return arg;
    };
    let first = text[..end].to_owned();
    match arg.get_long_help() {
        Some(_) => arg.help(first),
        None => arg.help(first).long_help(text),
    }
}

/// The first examples of a long help. A line that begins with `#` belongs to the one after it, and `\` or `|` at the end of a line
/// continues it.
fn first_examples(help: &str) -> String {
    let (_, lines) = help.split_once("Examples:\n").unwrap_or_default();
    let mut text = String::from("Examples:");
    let (mut examples, mut continues) = (0, false);
    for line in lines.lines() {
        examples += usize::from(!continues);
        if examples > EXAMPLES {
            break;
        }
        text = text + "\n" + line;
        continues = line.trim_start().starts_with('#') || line.ends_with(['\\', '|']);
    }
    text
}
