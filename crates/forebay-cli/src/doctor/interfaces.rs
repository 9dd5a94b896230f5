//! Interfaces: whether they are up, what they lost, and settings that change what a capture sees.

use super::{Finding, Findings, State};
use anyhow::Result;
use forebay_net::link::{self, Link};

pub fn check(names: &[String]) -> Result<Vec<Finding>> {
    let links = link::interfaces()?;
    let mut found = Vec::new();
    for name in names {
        match links.iter().find(|link| link.name == *name) {
            Some(link) => found.extend(check_one(link)?),
            None => {
                let mut missing = Findings::about(format!("interface {name}"));
                missing.put(
                    State::Loss,
                    "there is no such interface",
                    Some("forebay capture -D".into()),
                );
                found.extend(missing.list);
            }
        }
    }
    if names.is_empty() {
        for link in links
            .iter()
            .filter(|link| link.is_up() && !link.is_loopback())
        {
            found.extend(check_one(link)?);
        }
    }
    Ok(found)
}

fn check_one(link: &Link) -> Result<Vec<Finding>> {
    let name = &link.name;
    let mut found = Findings::about(format!("interface {name}"));
    match (link.is_up(), link.is_running()) {
        (true, true) => found.fine(format!("up, {}, MTU {}", link.hardware_name(), link.mtu)),
        (true, false) => found.note("up, but nothing is connected"),
        (false, _) => found.put(
            State::Loss,
            "down: it receives nothing",
            Some(format!("sudo ip link set {name} up")),
        ),
    }
    if link.dropped > 0 {
        found.note(format!(
            "it lost {} {} since it was created, before any program saw them",
            link.dropped,
            if link.dropped == 1 { "frame" } else { "frames" }
        ));
    }
    let settings = link.settings()?;
    match settings.receive_ring {
        Some((now, most)) if now < most => found.put(
            // A small ring alone loses nothing.
            if link.dropped > 0 {
                State::Loss
            } else {
                State::Note
            },
            format!("its receive ring holds {now} frames of {most} possible: a burst may not fit"),
            Some(format!("sudo ethtool -G {name} rx {most}")),
        ),
        Some((now, _)) => found.fine(format!(
            "its receive ring is as large as possible: {now} frames"
        )),
        None => {}
    }
    let offloads = [
        (
            settings.merges_in_software,
            "gro",
            "received segments are merged before a capture sees them (GRO)",
        ),
        (
            settings.merges_in_hardware,
            "lro",
            "the hardware merges received segments (LRO): their headers are not those of the wire",
        ),
        (
            settings.splits_when_sending,
            "tso",
            "sent segments are captured before they are split (TSO, GSO)",
        ),
    ];
    for (is_on, feature, text) in offloads {
        if is_on == Some(true) {
            let features = if feature == "tso" {
                "tso off gso off".into()
            } else {
                format!("{feature} off")
            };
            found.put(
                State::Note,
                text,
                Some(format!("sudo ethtool -K {name} {features}")),
            );
        }
    }
    if offloads.iter().all(|(is_on, ..)| *is_on == Some(false)) {
        found.fine("frames are captured as they are on the wire (no GRO, LRO, TSO, GSO)");
    }
    Ok(found.list)
}
