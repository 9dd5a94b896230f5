//! What is captured where: `ssh:user@host:22/eth0,with=tcpdump`.

use forebay::{Error, Result};
use std::{fmt, str::FromStr};

/// The program that captures on the other machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// `forebay`, whose losses are known exactly.
    #[default]
    Forebay,
    /// `tcpdump`, whose losses are unknown.
    Tcpdump,
}

/// An interface of another machine.
///
/// ```
/// use forebay_net::remote::{Program, Target};
/// let target: Target = "ada@[fe80::1%eth0]:2222/eth1,with=tcpdump".parse()?;
/// assert_eq!((&target.host[..], target.port, target.program), ("fe80::1%eth0", Some(2222), Program::Tcpdump));
/// assert_eq!(target.to_string(), "ssh:fe80::1%eth0/eth1");
/// assert!("-oProxyCommand=reboot/eth0".parse::<Target>().is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The user there; `None`: as ssh's configuration has it.
    pub user: Option<String>,
    /// The host, or its name in ssh's configuration. It never begins with a dash.
    pub host: String,
    /// The port of its ssh server; `None`: as ssh's configuration has it.
    pub port: Option<u16>,
    /// The interface there.
    pub interface: String,
    /// What captures there.
    pub program: Program,
}

fn wrong<T>(what: impl fmt::Display) -> Result<T> {
    let error = Error::invalid("ssh", what.to_string());
    Err(error.advise("Use ssh:HOST/INTERFACE or ssh:USER@HOST:PORT/INTERFACE, and ,with=tcpdump after it if forebay is not installed there"))
}

/// A name that ssh and a shell cannot take for anything else.
fn name(what: &str, text: &str, others: &str) -> Result<String> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || others.contains(it);
    match !text.is_empty()
        && text.len() < 256
        && !text.starts_with('-')
        && text.chars().all(is_plain)
    {
        true => Ok(text.to_owned()),
        false => wrong(format_args!(
            "'{}' is no name of a {what}",
            text.escape_debug()
        )),
    }
}

impl FromStr for Target {
    type Err = Error;

    /// The text after `ssh:`, which may begin with `//`.
    fn from_str(text: &str) -> Result<Target> {
        let text = text.strip_prefix("//").unwrap_or(text);
        let Some((place, rest)) = text.split_once('/') else {
            return wrong("the interface is missing");
        };
        let (interface, program) = match rest.rsplit_once(",with=") {
            None => (rest, Program::Forebay),
            Some((interface, "forebay")) => (interface, Program::Forebay),
            Some((interface, "tcpdump")) => (interface, Program::Tcpdump),
            Some((_, other)) => {
                let other = other.escape_debug();
                return wrong(format_args!(
                    "with={other}: only forebay and tcpdump are known"
                ));
            }
        };
        let is_odd = interface.is_empty() || interface.starts_with('-');
        if is_odd || interface.len() > 255 || interface.chars().any(char::is_control) {
            let interface = interface.escape_debug();
            return wrong(format_args!("'{interface}' is no name of an interface"));
        }
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(name("user", user, "._-")?), place),
            None => (None, place),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((host, port)) => (name("host", host, ":.%_-")?, port),
            None => {
                let end = place.find(':').unwrap_or(place.len());
                (name("host", &place[..end], "._-")?, &place[end..])
            }
        };
        let port = match port.strip_prefix(':').map(str::parse) {
            None if port.is_empty() => None,
            Some(Ok(port @ 1..)) => Some(port),
            _ => return wrong(format_args!("'{}' is no port", port.escape_debug())),
        };
        Ok(Target {
            user,
            host,
            port,
            interface: interface.into(),
            program,
        })
    }
}

impl Target {
    /// What follows `ssh` on a command line.
    pub(super) fn words(&self) -> String {
        let port = self.port.map(|port| format!("-p {port} "));
        let user = self.user.as_ref().map(|user| format!("{user}@"));
        [port, user, Some(self.host.clone())]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The name that a user types, without the program.
    pub(super) fn source(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@"));
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let port = self.port.map(|port| format!(":{port}"));
        let place: String = [user, Some(host), port].into_iter().flatten().collect();
        format!("ssh:{place}/{}", self.interface)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ssh:{}/{}", self.host, self.interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_a_flag_or_a_word_of_a_shell_is_refused() {
        for text in [
            "",
            "host",
            "/eth0",
            "host/",
            "-oProxyCommand=id/eth0",
            "-l@host/eth0",
            "u@-h/eth0",
            "a b/eth0",
            "$(id)/eth0",
            "`id`@h/eth0",
            "h;id/eth0",
            "h\n/eth0",
            "h/-w",
            "h/a\nb",
            "h/\u{7f}",
            "h:0/eth0",
            "h:99999/eth0",
            "h:/eth0",
            "a:b:c/eth0",
            "[::1/eth0",
            "[::1]x/eth0",
            "[-x]/eth0",
            "@h/eth0",
            "h/eth0,with=sh",
            "'h'/eth0",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn advice_names_the_user_and_the_port_and_has_brackets_where_they_belong() {
        let target: Target = "ada@[fe80::1%eth0]:2222/eth1,with=tcpdump".parse().unwrap();
        assert_eq!(target.words(), "-p 2222 ada@fe80::1%eth0");
        assert_eq!(target.source(), "ssh:ada@[fe80::1%eth0]:2222/eth1");
        let target: Target = "//h/eth0".parse().unwrap();
        assert_eq!(
            (target.words(), target.source()),
            ("h".into(), "ssh:h/eth0".into())
        );
    }

    #[test]
    fn settings_of_a_source_there_may_have_commas() {
        let target: Target = "//h/sim:rate=1k,size=64,with=forebay".parse().unwrap();
        assert_eq!(target.interface, "sim:rate=1k,size=64");
    }
}
