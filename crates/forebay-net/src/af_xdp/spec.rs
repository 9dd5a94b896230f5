//! What `xdp:INTERFACE,KEY=VALUE,…` means.

use crate::units;
use forebay::{Error, Result};
use std::{fmt, str::FromStr, time::Duration};

/// Where in the kernel a program takes frames from the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel has made a packet of a frame.
    Native,
    /// After that, with any driver.
    Generic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        })
    }
}

/// An interface to be opened with AF_XDP.
///
/// ```
/// use forebay_net::af_xdp::{Mode, Spec};
/// let spec: Spec = "eth0,queue=2,mode=native,busy-poll=50us".parse()?;
/// assert_eq!((&spec.interface[..], spec.queue, spec.mode), ("eth0", Some(2), Some(Mode::Native)));
/// assert!("eth0,queue=all".parse::<Spec>().is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// Its name.
    pub interface: String,
    /// `queue=N`: only this receive queue. `None`: all of them.
    pub queue: Option<u32>,
    /// `mode=native|generic`. `None`: native if the driver can, otherwise generic.
    pub mode: Option<Mode>,
    /// `copy=yes`: do not ask the driver to write frames directly into our memory.
    pub copies: bool,
    /// `pass=yes`: copy frames and let the machine have them, instead of taking them. Excludes `copies` and `busy_poll`, which are of
    /// sockets.
    pub passes: bool,
    /// `busy-poll=TIME`: each [`receive`](crate::port::Port::receive) that finds no frame polls the hardware once, for up to this time. The
    /// hardware raises fewer interrupts only if `napi_defer_hard_irqs` and `gro_flush_timeout` of the interface are set, too.
    pub busy_poll: Option<Duration>,
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |what: String, advice: &str| Err(Error::invalid("xdp", what).advise(advice));
        let mut parts = text.split(',');
        let mut spec = Spec {
            interface: parts.next().unwrap_or_default().into(),
            ..Spec::default()
        };
        if spec.interface.is_empty() {
            return wrong("the interface is missing".into(), "Use xdp:eth0");
        }
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let is_fine = match key {
                "queue" => value.parse().map(|queue| spec.queue = Some(queue)).is_ok(),
                "mode" => {
                    spec.mode = match value {
                        "native" => Some(Mode::Native),
                        "generic" => Some(Mode::Generic),
                        _ => None,
                    };
                    spec.mode.is_some()
                }
                "copy" => {
                    spec.copies = value == "yes";
                    matches!(value, "yes" | "no")
                }
                "pass" => {
                    spec.passes = value == "yes";
                    matches!(value, "yes" | "no")
                }
                "busy-poll" => {
                    let range = Duration::from_micros(1)..=Duration::from_millis(100);
                    spec.busy_poll = units::duration(value).filter(|time| range.contains(time));
                    spec.busy_poll.is_some()
                }
                _ => {
                    return wrong(
                        format!("there is no key '{key}'"),
                        "Use queue, mode, copy, pass or busy-poll",
                    );
                }
            };
            if !is_fine {
                let advice = match key {
                    "queue" => "Use a number, such as queue=0",
                    "mode" => "Use mode=native or mode=generic",
                    "copy" => "Use copy=yes or copy=no",
                    "pass" => "Use pass=yes or pass=no",
                    _ => "Use a time from 1us to 100ms, such as busy-poll=50us",
                };
                return wrong(format!("'{value}' is not a value of {key}"), advice);
            }
        }
        if spec.passes && (spec.copies || spec.busy_poll.is_some()) {
            return wrong(
                "with pass=yes there is no AF_XDP socket to which copy= and busy-poll= could apply"
                    .into(),
                "Leave them out",
            );
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_part_is_named_with_what_is_possible() {
        for (text, words) in [
            ("", "the interface is missing. Use xdp:eth0"),
            (",queue=1", "the interface is missing"),
            (
                "eth0,queue=-1",
                "'-1' is not a value of queue. Use a number",
            ),
            (
                "eth0,mode=skb",
                "'skb' is not a value of mode. Use mode=native",
            ),
            (
                "eth0,copy",
                "'' is not a value of copy. Use copy=yes or copy=no",
            ),
            ("eth0,busy-poll=2s", "'2s' is not a value of busy-poll"),
            ("eth0,pass", "'' is not a value of pass. Use pass=yes"),
            ("eth0,pass=yes,copy=yes", "copy= and busy-poll= could apply"),
            ("eth0,busy-poll=1ms,pass=yes", "Leave them out"),
            ("eth0,frames=7", "there is no key 'frames'. Use queue, mode"),
        ] {
            let error = text.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!("eth0".parse::<Spec>().unwrap().interface, "eth0");
    }
}
