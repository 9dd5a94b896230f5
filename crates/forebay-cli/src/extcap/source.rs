//! What Wireshark can capture from: names, descriptions and settings.

use super::sentence::Sentence;
use crate::{
    args::Extcap as Flags,
    shares,
    usage::{Usage, refuse},
};
use anyhow::Result;
use forebay_net::share::{self, Listed, ShareName};
use std::str::FromStr;

/// Wireshark's names for sources begin so, and are used for names of files.
const SIM: &str = "forebay-sim";
const SSH: &str = "forebay-ssh";
const SHARE: &str = "forebay-share-";

pub enum Source {
    Sim,
    /// An interface of another machine, which the settings name.
    Ssh,
    /// With its owner, if it is listed.
    Share(ShareName, Option<String>),
}

/// The simulated card, other machines, and the shares that this user may read.
///
/// # Errors
/// Shares cannot be found out.
pub fn list() -> Result<Vec<Source>> {
    let shares = share::list()?;
    let permitted = shares
        .into_iter()
        .filter(|it| it.is_permitted == Some(true));
    let share = |it: Listed| Source::Share(it.name, it.owner.map(shares::user));
    Ok([Source::Sim, Source::Ssh]
        .into_iter()
        .chain(permitted.map(share))
        .collect())
}

impl FromStr for Source {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Source> {
        if text == SIM {
            return Ok(Source::Sim);
        }
        if text == SSH {
            return Ok(Source::Ssh);
        }
        match text.strip_prefix(SHARE).map(str::parse) {
            Some(Ok(name)) => Ok(Source::Share(name, None)),
            Some(Err(error)) => Err(Usage(error.to_string()).into()),
            None => refuse(format!(
                "'{text}' is no name of a source. --extcap-interfaces lists them"
            )),
        }
    }
}

impl Source {
    /// The name for `capture -i`.
    ///
    /// # Errors
    /// The other machine is not named.
    pub fn name(&self, flags: &Flags) -> Result<String> {
        Ok(match self {
            Source::Sim => format!("sim:{}", flags.sim),
            Source::Share(name, _) => format!("share:{name}"),
            Source::Ssh => {
                let Some(host) = flags.remote_host.as_deref().filter(|it| !it.is_empty()) else {
                    return refuse(
                        "name the other machine in the settings of the interface: --remote-host",
                    );
                };
                let user = flags.remote_user.iter().filter(|it| !it.is_empty());
                let user: String = user.map(|it| format!("{it}@")).collect();
                let port = flags.remote_port.iter().filter(|it| !it.is_empty());
                let port: String = port.map(|it| format!(":{it}")).collect();
                let host = match host.contains(':') {
                    true => format!("[{host}]"),
                    false => host.to_owned(),
                };
                let (interface, program) = (&flags.remote_interface, &flags.remote_program);
                format!("ssh:{user}{host}{port}/{interface},with={program}")
            }
        })
    }

    /// Whether its link type is known before it is captured from.
    pub fn is_here(&self) -> bool {
        !matches!(self, Source::Ssh)
    }

    /// The line that lists it.
    pub fn sentence(&self) -> Sentence {
        let (value, display) = match self {
            Source::Sim => (SIM.to_owned(), "Forebay: simulated card".to_owned()),
            Source::Ssh => (
                SSH.to_owned(),
                "Forebay: another machine, with ssh".to_owned(),
            ),
            Source::Share(name, owner) => {
                let by = owner.iter().map(|owner| format!(", of {owner}"));
                (
                    format!("{SHARE}{name}"),
                    format!("Forebay: shared capture {name}{}", by.collect::<String>()),
                )
            }
        };
        Sentence::of("interface")
            .with("value", &value)
            .with("display", &display)
    }

    /// The lines for its settings.
    pub fn settings(&self) -> String {
        match self {
            Source::Sim => setting(
                0,
                "--sim",
                "Settings",
                "KEY=VALUE,… as after sim:, such as rate=1G,size=imix",
                "rate=1kpps",
            ),
            Source::Share(..) => String::new(),
            Source::Ssh => [
                (
                    "--remote-host",
                    "Host",
                    "or its name in ssh's configuration",
                    "",
                ),
                (
                    "--remote-user",
                    "User",
                    "empty: as ssh's configuration has it",
                    "",
                ),
                (
                    "--remote-port",
                    "Port",
                    "empty: as ssh's configuration has it",
                    "",
                ),
                (
                    "--remote-interface",
                    "Interface",
                    "the interface there",
                    "eth0",
                ),
                (
                    "--remote-program",
                    "Program",
                    "forebay or tcpdump, on the other machine",
                    "forebay",
                ),
            ]
            .into_iter()
            .zip(0..)
            .map(|((flag, display, tooltip, default), number)| {
                setting(number, flag, display, tooltip, default)
            })
            .collect(),
        }
    }
}

fn setting(number: u32, flag: &str, display: &str, tooltip: &str, default: &str) -> String {
    let line = Sentence::of("arg")
        .with("number", &number.to_string())
        .with("call", flag)
        .with("display", display)
        .with("tooltip", tooltip)
        .with("type", "string")
        .with("default", default);
    line.to_string()
}
