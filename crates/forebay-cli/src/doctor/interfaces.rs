//! Interfaces: whether they are up, what they lost, and settings that change what a capture sees.

use super::finding::{Finding, Findings, State};
use crate::output::counted;
use anyhow::Result;
use forebay_net::{
    link::{self, Link, Offload},
    spelling::nearest,
};

/// What each group of offloads means for a capture.
const OFFLOADS: &[(&[Offload], &str)] = &[
    (
        &[Offload::ReceiveMerging, Offload::HardwareReceiveMerging],
        "received segments are merged before a capture sees them (GRO)",
    ),
    (
        &[Offload::LargeReceive],
        "the hardware merges received segments (LRO): their headers are not those of the wire",
    ),
    (
        &[Offload::TcpSplitting, Offload::GenericSplitting],
        "sent segments are captured before they are split (TSO, GSO)",
    ),
    (
        &[Offload::TransmitChecksums],
        "sent frames are captured before their checksums are computed",
    ),
];

pub fn check(names: &[String]) -> Result<Vec<Finding>> {
    let links = link::interfaces()?;
    let mut found = Vec::new();
    for name in names {
        match links.iter().find(|link| link.name == *name) {
            Some(link) => found.extend(check_one(link)?),
            None => {
                let names = links.iter().map(|link| link.name.as_str());
                let near = nearest(names, name).map(|near| format!(" (did you mean {near}?)"));
                let mut missing = Findings::about(format!("interface {name}"));
                missing.put(
                    State::Loss,
                    format!("there is no such interface{}", near.unwrap_or_default()),
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
            "it lost {} since it was created, before any program saw them",
            counted(link.dropped, "frame", "frames")
        ));
    }
    let device = link.device()?;
    match device.rings.map(|rings| (rings.receive, rings.max_receive)) {
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
    let on = device.changing_offloads();
    for (kinds, text) in OFFLOADS {
        let of_kind: Vec<_> = on.iter().copied().filter(|it| kinds.contains(it)).collect();
        if !of_kind.is_empty() {
            let command = device.command_for(name, &of_kind);
            found.put(State::Note, *text, command);
        }
    }
    if on.is_empty() && !device.offloads.is_empty() {
        found.fine("frames are captured as they are on the wire (no GRO, LRO, TSO, GSO, and checksums are computed)");
    }
    Ok(found.list)
}
