//! Whether frames are captured as they are on the wire, and whether the hardware stamps them. The driver is asked when a port is
//! opened.

use super::interfaces::Which;
use crate::link::{Link, Stamps, shell_word};
use forebay::{Error, Result};

/// Offloads that change captured frames, and the command that turns them off. The loopback interface has no wire.
pub(super) fn offloads(which: &Which<'_>) -> Result<(Vec<&'static str>, Option<String>)> {
    let links = match which {
        Which::One(link, _) => std::slice::from_ref(*link),
        Which::Any(links) => links,
    };
    let mut names = Vec::new();
    let mut command = None;
    let is_captured = |link: &&Link| link.is_up() && !link.is_loopback();
    for link in links.iter().filter(is_captured) {
        let device = link.device()?;
        let changing = device.changing_offloads();
        names.extend(changing.iter().map(|it| it.name()));
        command = device.command_for(&link.name, &changing);
    }
    if matches!(which, Which::Any(_)) && !names.is_empty() {
        names.sort_unstable();
        names.dedup();
        // There is a command for each interface.
        command = Some("forebay interfaces -D".into());
    }
    Ok((names, command))
}

/// Checks that the hardware is able to stamp every frame and set to do so.
///
/// # Errors
/// It is not.
pub(super) fn check_stamps(which: &Which<'_>) -> Result<()> {
    match which {
        Which::One(link, _) => judge(&link.name, link.device()?.stamps.unwrap_or_default()),
        Which::Any(_) => Err(Error::invalid("any", "stamping frames in hardware")
            .advise("Each network card has a separate clock: name one interface")),
    }
}

fn judge(name: &str, stamps: Stamps) -> Result<()> {
    let refused = |why: &str, advice: String| {
        Err(Error::new(name, format!("stamping frames in hardware: {why}")).advise(advice))
    };
    let otherwise = "Leave --time hardware out: the kernel then stamps frames. forebay interfaces shows what each interface can do";
    match stamps {
        Stamps {
            hardware: false, ..
        } => refused("its driver reports no support for it", otherwise.into()),
        Stamps {
            hardware_all: false,
            ..
        } => refused("it stamps only frames of PTP", otherwise.into()),
        Stamps {
            set_to_all: Some(false),
            ..
        } => refused(
            "it is not set to stamp every frame",
            format!(
                "Set it, with linuxptp: sudo hwstamp_ctl -i {} -r 1",
                shell_word(name).unwrap_or("NAME".into())
            ),
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_that_does_not_stamp_every_frame_is_refused_with_the_reason() {
        let all = Stamps {
            software: true,
            hardware: true,
            hardware_all: true,
            set_to_all: Some(true),
            clock: Some(0),
        };
        let unknown = Stamps {
            set_to_all: None,
            ..all
        };
        assert!(judge("eth0", all).is_ok() && judge("eth0", unknown).is_ok());
        let none = Stamps {
            hardware: false,
            ..all
        };
        let only_ptp = Stamps {
            hardware_all: false,
            ..all
        };
        let not_set = Stamps {
            set_to_all: Some(false),
            ..all
        };
        for (stamps, words) in [
            (
                none,
                "eth0: stamping frames in hardware: its driver reports no support",
            ),
            (
                only_ptp,
                "it stamps only frames of PTP. Leave --time hardware out",
            ),
            (not_set, "sudo hwstamp_ctl -i eth0 -r 1"),
        ] {
            let text = judge("eth0", stamps).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        }
    }
}
