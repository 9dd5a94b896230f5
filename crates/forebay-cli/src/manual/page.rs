//! The manual page of a subcommand: its flags and its long help, in the sections of a manual page.

use super::roff::{Page, escaped};
use anyhow::Result;
use clap::{Arg, ArgAction, Command};
use std::fmt::Write;

/// Flags with a value that are named in the synopsis.
const IN_SYNOPSIS: usize = 6;

const EXIT_CODES: &str = "0 success, 1 failure, 2 bad request";

/// Variables of the environment, what they do, and the subcommands that read them; none: all.
const ENVIRONMENT: &[(&str, &str, &[&str])] = &[
    (
        "NO_COLOR",
        "if it is set and not empty, printed packets have no colours",
        &["capture"],
    ),
    (
        "TERM",
        "dumb: no colours, and no screen of top",
        &["capture", "top"],
    ),
    (
        "TZ",
        "the time zone of printed times and of names of files",
        &["capture", "control", "flows", "info"],
    ),
    (
        "http_proxy, https_proxy, all_proxy, no_proxy",
        "the proxies, and the hosts that are asked directly, as curl reads them",
        &["get"],
    ),
    (
        "XDG_RUNTIME_DIR",
        "its folder forebay has the sockets of captures with --control",
        &["capture", "control", "trigger", "top"],
    ),
    (
        "NOTIFY_SOCKET, WATCHDOG_USEC",
        "set by systemd, to which the capture reports",
        &["capture"],
    ),
    (
        "LD_LIBRARY_PATH, FOREBAY_PCAP_DEVICE",
        "set for the program: the folder of the library, before those that were set, and --device",
        &["with"],
    ),
    (
        "PATH",
        "where forebay-archive is searched for, if it is not next to forebay",
        &["forebay"],
    ),
];

/// Files, what they are, and the subcommands that use them.
const FILES: &[(&str, &str, &[&str])] = &[
    (
        "$XDG_RUNTIME_DIR/forebay/NAME, /run/forebay/NAME",
        "the socket of a capture with --control NAME, of a user and of root",
        &["capture", "control", "trigger", "top"],
    ),
    (
        "NAME.part",
        "a file of a series that is not complete yet",
        &["capture"],
    ),
    ("/dev/shm/forebay.NAME", "a queue", &["queue"]),
    (
        "~/.local/lib/wireshark/extcap/forebay",
        "the link of --install, in a folder that depends on the version of Wireshark",
        &["extcap"],
    ),
    (
        "/usr/lib/forebay/libpcap.so.0.8",
        "forebay's libpcap, of the package libforebay-pcap",
        &["with"],
    ),
    ("FILE.cut", "what was cut off", &["repair"]),
    (
        "/etc/services, /etc/protocols",
        "names in filter expressions",
        &["capture", "flows", "top", "verify", "bridge", "replay"],
    ),
];

/// Pages about the same, of other programs and of this one.
const SEE_ALSO: &[(&str, &[&str])] = &[
    (
        "forebay-filter(7)",
        &["capture", "flows", "top", "verify", "bridge", "replay"],
    ),
    (
        "pcap-filter(7)",
        &["capture", "flows", "top", "verify", "bridge", "replay"],
    ),
    ("tcpdump(1)", &["capture", "with"]),
    ("ld.so(8)", &["with"]),
    ("pcap(3PCAP)", &["with"]),
    ("extcap(4)", &["extcap"]),
    ("wireshark(1)", &["extcap"]),
    ("tshark(1)", &["extcap"]),
    ("forebay-shares(1)", &["extcap"]),
    ("dumpcap(1)", &["capture"]),
    ("tcpreplay(1)", &["replay"]),
    ("capinfos(1)", &["info"]),
    ("iftop(8)", &["top"]),
    ("pv(1)", &["pipe"]),
    ("mbuffer(1)", &["pipe"]),
    ("curl(1)", &["get"]),
    ("packet(7)", &["capture", "interfaces"]),
    ("forebay-verify(1)", &["generate"]),
    ("forebay-generate(1)", &["verify"]),
    (
        "forebay-capture(1)",
        &["control", "trigger", "shares", "top", "info", "repair"],
    ),
    ("forebay-control(1)", &["capture", "trigger"]),
];

/// The sections after the flags, in their order, as far as the command has them.
pub fn render(page: &mut Page, command: &Command) -> Result<()> {
    let name = title(command);
    page.section("NAME");
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    writeln!(page.0, "{} \\- {}", escaped(&name), escaped(&about))?;
    page.section("SYNOPSIS");
    for line in synopsis(command) {
        writeln!(page.0, "{line}")?;
    }
    page.section("DESCRIPTION");
    page.paragraph(&(about + "."));
    let help = command
        .get_after_long_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let (mut signals, mut codes, mut examples) = (None, EXIT_CODES, "");
    for paragraph in help.split("\n\n") {
        if let Some(text) = paragraph.strip_prefix("Signals: ") {
            signals = Some(text);
        } else if let Some(text) = paragraph.strip_prefix("Exit codes: ") {
            codes = text;
        } else if let Some(text) = paragraph.strip_prefix("Examples:\n") {
            examples = text;
        } else {
            describe(page, paragraph);
        }
    }
    flags(page, command)?;
    page.section("EXIT STATUS");
    for (code, meaning) in exit_codes(codes) {
        page.item(&code, &meaning);
    }
    if let Some(text) = signals {
        page.section("SIGNALS");
        page.paragraph(text);
    }
    let of = |names: &[&str]| {
        let words = name.split('-').chain([&name[..]]);
        words
            .skip(usize::from(name.contains('-')))
            .any(|word| names.contains(&word))
    };
    for (section, table) in [("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)] {
        let mut rows = table.iter().filter(|(.., names)| of(names)).peekable();
        if rows.peek().is_some() {
            page.section(section);
        }
        rows.for_each(|(name, text, _)| page.item(&format!("`{name}`"), text));
    }
    if !examples.is_empty() {
        page.section("EXAMPLES");
        page.verbatim(
            examples
                .lines()
                .map(|line| line.strip_prefix("  ").unwrap_or(line)),
        );
    }
    page.section("SEE ALSO");
    let others = SEE_ALSO
        .iter()
        .filter(|(_, names)| of(names))
        .map(|(page, _)| *page);
    let first = if name == "forebay" {
        "forebay-filter(7)"
    } else {
        "forebay(1)"
    };
    let inner = command
        .get_subcommands()
        .map(|it| format!("{}(1)", title(it)));
    let mut all: Vec<_> = others
        .map(str::to_owned)
        .chain([first.to_owned()])
        .chain(inner)
        .collect();
    all.sort();
    page.paragraph(&all.join(", "));
    Ok(())
}

/// `forebay-queue-send`.
pub fn title(command: &Command) -> String {
    command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned()
}

/// A paragraph of the long help; lines that are indented stay as they are.
fn describe(page: &mut Page, text: &str) {
    let (filled, kept): (Vec<_>, Vec<_>) = text.lines().partition(|line| !line.starts_with("  "));
    page.paragraph(&filled.join(" "));
    if !kept.is_empty() {
        page.verbatim(kept);
    }
}

/// Each code with its meaning. Text that begins with no number belongs to the one before.
fn exit_codes(text: &str) -> Vec<(String, String)> {
    let mut codes: Vec<(String, String)> = Vec::new();
    for part in text.trim_end_matches('.').split([',', ';']) {
        let part = part.trim();
        match (part.split_once(' '), codes.last_mut()) {
            (Some((code, meaning)), _) if code.parse::<u8>().is_ok() => {
                codes.push((code.into(), meaning.into()));
            }
            (_, Some((_, meaning))) => *meaning = format!("{meaning}, {part}"),
            (_, None) => codes.push((String::new(), part.into())),
        }
    }
    codes
}

fn spelling(arg: &Arg) -> String {
    let short = arg.get_short().map(|it| format!("-{it}"));
    short
        .or(arg.get_long().map(|it| format!("--{it}")))
        .unwrap_or_default()
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The command, its required flags and the first others with a value, and its arguments.
fn synopsis(command: &Command) -> Vec<String> {
    let words = command
        .get_bin_name()
        .unwrap_or(command.get_name())
        .to_owned();
    let mut text = format!(".B {}", escaped(&words));
    let mut lines = Vec::new();
    if command.has_subcommands() {
        return vec![text, "\\fICOMMAND\\fR [\\fIFLAG\\fR]...".into()];
    }
    let flags = command.get_arguments().filter(|it| !it.is_positional());
    let (required, others): (Vec<_>, Vec<_>) = flags.partition(|it| it.is_required_set());
    let takes_value = |arg: &&&Arg| arg.get_action().takes_values() && arg.get_short().is_some();
    let shown = others.iter().filter(takes_value).take(IN_SYNOPSIS);
    for arg in required.iter().chain(shown) {
        let (flag, value) = (escaped(&spelling(arg)), escaped(&value(arg)));
        let flag = format!("\\fB{flag}\\fR \\fI{value}\\fR");
        let repeats = if matches!(arg.get_action(), ArgAction::Append) {
            "..."
        } else {
            ""
        };
        lines.push(match arg.is_required_set() {
            true => format!("{flag}{repeats}"),
            false => format!("[{flag}]{repeats}"),
        });
    }
    lines.push("[\\fIFLAG\\fR]...".into());
    for arg in command.get_positionals() {
        let name = escaped(&value(arg)).to_uppercase();
        let repeats = if matches!(arg.get_action(), ArgAction::Append) {
            "..."
        } else {
            ""
        };
        lines.push(match arg.is_required_set() {
            true => format!("\\fI{name}\\fR{repeats}"),
            false => format!("[\\fI{name}\\fR]{repeats}"),
        });
    }
    text.push('\n');
    vec![text + &lines.join("\n")]
}

/// The flags, in their groups.
fn flags(page: &mut Page, command: &Command) -> Result<()> {
    let mut options = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render_options_section(&mut options)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut options)?;
    }
    let options = String::from_utf8_lossy(&options);
    // Blank lines between two breaks, and blanks at the ends of lines, are mistakes in roff.
    let lines: Vec<_> = options.lines().map(str::trim_end).collect();
    let options = lines.join("\n").replace("\n.br\n\n.br\n", "\n.sp\n");
    page.section("OPTIONS");
    for line in options.lines() {
        match line.strip_prefix(".SH ") {
            Some("OPTIONS") => {}
            Some("SUBCOMMANDS") => page.section("COMMANDS"),
            Some(group) => writeln!(page.0, ".SS {}", capitalized(group))?,
            None => writeln!(page.0, "{line}")?,
        }
    }
    Ok(())
}

/// A heading with one capital letter.
fn capitalized(text: &str) -> String {
    let text = text.trim_matches('"');
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    format!("\"{}{}\"", first.to_uppercase(), rest.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::exit_codes;

    #[test]
    fn exit_codes_are_a_list() {
        let codes = exit_codes(
            "0 success, also where the reader left; 1 failure; 2 bad request; stop also 3 lost.",
        );
        let codes: Vec<_> = codes
            .iter()
            .map(|(code, text)| (&code[..], &text[..]))
            .collect();
        let expected = [
            ("0", "success, also where the reader left"),
            ("1", "failure"),
            ("2", "bad request, stop also 3 lost"),
        ];
        assert_eq!(codes, expected);
    }
}
