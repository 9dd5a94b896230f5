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
        || (!first.contains('/') && Path::new("/sys/class/net").join(first).exists());
    is_port.then(|| format!("forebay capture -i {line}"))
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
