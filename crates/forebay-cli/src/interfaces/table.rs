//! One line for each interface, within 80 columns, and then the reasons why something is not available.

use super::{
    backends::Rights,
    listed::{Listed, queues, state, time},
};
use crate::output::{plain, wrapped};
use forebay_net::units::scaled;
use std::{collections::BTreeMap, fmt::Write};

const COLUMNS: usize = 80;
const TITLES: [&str; 10] = [
    "NAME", "STATE", "LINK", "DRIVER", "QUEUES", "MTU", "SPEED", "TIME", "PACKET", "XDP",
];
const DRIVER: usize = 3;
/// The shortest that the name of a driver is cut to.
const MIN_DRIVER: usize = 6;

pub fn print(listed: &[Listed], rights: &Rights, is_complete: bool) -> String {
    let titles = TITLES.map(str::to_owned);
    let rows: Vec<_> = [titles].into_iter().chain(listed.iter().map(row)).collect();
    let mut text = lines(rows);
    if is_complete {
        text += "any   all interfaces that are up, and those that appear later\n";
        text += "sim   a simulated card, which needs no privileges\n";
    }
    let notes = notes(listed, rights);
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        for line in wrapped(&note) {
            let _ = writeln!(text, "{line}");
        }
    }
    if let Some(advice) = rights.advice() {
        let _ = writeln!(text, "{advice}");
    }
    text
}

fn row(it: &Listed) -> [String; TITLES.len()] {
    let Listed {
        link,
        device,
        backends,
    } = it;
    let (receive, transmit) = queues(it);
    [
        plain(&link.name).into_owned(),
        state(link).into(),
        link.hardware_name().replace("hardware type", "type"),
        plain(device.driver.as_deref().unwrap_or("-")).into_owned(),
        format!("{receive}/{transmit}"),
        link.mtu.to_string(),
        device.bits_per_second.map_or("-".into(), speed),
        time(device).into(),
        if backends.packet.is_ok() { "yes" } else { "no" }.into(),
        match &backends.xdp {
            Ok(mode) => mode.name().into(),
            Err(_) => "no".into(),
        },
    ]
}

/// `10G`, `2.5G`
pub fn speed(bits_per_second: u64) -> String {
    match bits_per_second {
        bits if bits >= 1_000_000_000 => format!("{}G", bits as f64 / 1e9),
        bits => format!("{}M", bits as f64 / 1e6),
    }
}

fn lines(mut rows: Vec<[String; TITLES.len()]>) -> String {
    let width = |rows: &[[String; TITLES.len()]], column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let total: usize = (0..TITLES.len()).map(|column| width(&rows, column)).sum();
    let gaps = TITLES.len() - 1;
    // Of long lines, the name of the driver is the least loss: the long form has it.
    let excess = (total + 2 * gaps).saturating_sub(COLUMNS);
    let driver = width(&rows, DRIVER).saturating_sub(excess).max(MIN_DRIVER);
    let is_long = width(&rows, DRIVER) - MIN_DRIVER < excess;
    let gap = if is_long { " " } else { "  " };
    for row in &mut rows {
        if row[DRIVER].chars().count() > driver {
            let cut: String = row[DRIVER].chars().take(driver - 1).collect();
            row[DRIVER] = cut + "…";
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().enumerate();
        let cells = cells.map(|(column, cell)| {
            let width = width(&rows, column);
            format!("{cell:width$}")
        });
        let line = cells.collect::<Vec<_>>().join(gap);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Why something is not available, each reason once, with the interfaces that it concerns.
fn notes(listed: &[Listed], rights: &Rights) -> Vec<String> {
    let mut notes = Vec::new();
    let changed =
        |it: &&Listed| !it.link.is_loopback() && !it.device.changing_offloads().is_empty();
    let changed: Vec<_> = listed.iter().filter(changed).map(name).collect();
    if !changed.is_empty() {
        notes.push(format!(
            "Offloads change captured frames: {}. See forebay interfaces -D",
            changed.join(", ")
        ));
    }
    let general = [("PACKET", &rights.packet), ("XDP", &rights.xdp)];
    for (backend, reason) in general {
        if let Some(reason) = reason {
            notes.push(format!("{backend} no: {reason}"));
        }
    }
    let mut reasons: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for it in listed {
        let both = [
            ("PACKET", it.backends.packet.as_ref().err(), &rights.packet),
            ("XDP", it.backends.xdp.as_ref().err(), &rights.xdp),
        ];
        for (backend, reason, general) in both {
            if let Some(reason) = reason.filter(|&reason| Some(reason) != general.as_ref()) {
                reasons.entry((backend, reason)).or_default().push(name(it));
            }
        }
    }
    for ((backend, reason), names) in reasons {
        notes.push(format!("{backend} no: {}: {reason}", names.join(", ")));
    }
    let lost = |it: &&Listed| it.link.dropped > 0;
    for it in listed.iter().filter(lost) {
        let count = scaled(it.link.dropped as f64);
        notes.push(format!(
            "{} lost {count} frames since it was created",
            name(it)
        ));
    }
    notes
}

fn name(it: &Listed) -> String {
    plain(&it.link.name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::backends::{Backends, Xdp};
    use forebay_net::link::{Device, Link, Queues};

    fn long_names() -> Listed {
        Listed {
            link: Link {
                name: "enp129s0f0np0v1".into(),
                hardware: 1,
                flags: 1,
                mtu: 65_536,
                ..Link::default()
            },
            device: Device {
                driver: Some("thunder-nicvf-very-long".into()),
                bits_per_second: Some(400_000_000_000),
                queues: Some(Queues {
                    receive: 8,
                    transmit: 8,
                    max_receive: 8,
                    max_transmit: 8,
                }),
                ..Device::default()
            },
            backends: Backends {
                packet: Ok(()),
                xdp: Ok(Xdp::ZeroCopy),
            },
        }
    }

    #[test]
    fn long_names_of_drivers_are_cut_and_names_of_interfaces_are_not() {
        let rights = Rights {
            packet: None,
            xdp: None,
        };
        let text = print(&[long_names()], &rights, true);
        assert!(
            text.contains("enp129s0f0np0v1 no link Ethernet thund… 8/8"),
            "{text}"
        );
        let is_long = |line: &&str| line.chars().count() > 80;
        assert_eq!(text.lines().find(is_long), None);
    }

    #[test]
    fn speeds_are_short() {
        assert_eq!(
            [10_000_000, 2_500_000_000, 400_000_000_000].map(speed),
            ["10M", "2.5G", "400G"]
        );
    }
}
