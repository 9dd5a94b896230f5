//! Every detail of each interface, in several lines.

use super::{
    backends::Rights,
    listed::{Listed, queues, state},
    table::speed,
};
use crate::output::{plain, wrapped_at};
use forebay_net::link::{Device, Link, Setting};

/// Columns beside a title.
const COLUMNS: usize = 80 - 11;

pub fn print(listed: &[Listed], rights: &Rights) -> String {
    let mut text = String::new();
    for (number, it) in listed.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        text += &format!("{}\n", head(it));
        for (title, value) in details(it) {
            for (number, line) in wrapped_at(&value, COLUMNS, "").iter().enumerate() {
                let title = if number == 0 { title } else { "" };
                text += &format!("  {title:<8} {line}\n");
            }
        }
        let changing = it.device.changing_offloads();
        if let Some(command) = it.device.command_for(&it.link.name, &changing) {
            text += &format!("           {command}\n");
        }
    }
    if let Some(advice) = rights.advice() {
        text += &format!("\n{advice}\n");
    }
    text
}

/// `eth0: up, Ethernet, MTU 1500, 10 Gb/s`
fn head(Listed { link, device, .. }: &Listed) -> String {
    let mut words = vec![
        format!("{}: {}", plain(&link.name), state(link)),
        link.hardware_name(),
        format!("MTU {}", link.mtu),
    ];
    words.extend(
        device
            .bits_per_second
            .map(|bits| format!("{}bit/s", spaced(&speed(bits)))),
    );
    words.join(", ")
}

/// `10 G` for `10G`.
fn spaced(speed: &str) -> String {
    let (number, unit) = speed.split_at(speed.len() - 1);
    format!("{number} {unit}")
}

fn details(it: &Listed) -> Vec<(&'static str, String)> {
    let Listed {
        link,
        device,
        backends,
    } = it;
    let mut details = Vec::new();
    if let Some(driver) = driver(link, device) {
        details.push(("driver", driver));
    }
    let (receive, transmit) = queues(it);
    let most = device.queues.map_or(String::new(), |it| {
        format!(" (at most {} and {})", it.max_receive, it.max_transmit)
    });
    details.push((
        "queues",
        format!("{receive} receive, {transmit} send{most}"),
    ));
    if let Some(rings) = device.rings {
        let text = format!(
            "{} frames receive (at most {}), {} send (at most {})",
            rings.receive, rings.max_receive, rings.transmit, rings.max_transmit
        );
        details.push(("rings", text));
    }
    details.push(("time", time(device)));
    details.push((
        "packet",
        match &backends.packet {
            Ok(()) => format!("yes: -i {}", plain(&link.name)),
            Err(reason) => format!("no: {reason}"),
        },
    ));
    details.push((
        "xdp",
        match &backends.xdp {
            Ok(mode) => format!("{}. {}", mode.described(), xdp(device)),
            Err(reason) => format!("no: {reason}"),
        },
    ));
    if link.dropped > 0 {
        details.push((
            "lost",
            format!("{} frames since it was created", link.dropped),
        ));
    }
    details.extend(offloads(device));
    details
}

fn driver(link: &Link, device: &Device) -> Option<String> {
    let mut words = Vec::new();
    words.extend(device.driver.as_deref().map(|it| plain(it).into_owned()));
    if !link.kind.is_empty() && device.driver.as_ref() != Some(&link.kind) {
        words.push(format!("kind {}", plain(&link.kind)));
    }
    let bus = device.bus.as_deref().filter(|it| *it != "N/A");
    words.extend(bus.map(|it| format!("at {}", plain(it))));
    (!words.is_empty()).then(|| words.join(", "))
}

fn time(device: &Device) -> String {
    let Some(stamps) = device.stamps else {
        return "of the kernel; the driver does not report more".into();
    };
    let clock = stamps
        .clock
        .map_or(String::new(), |it| format!(", clock /dev/ptp{it}"));
    match (stamps.hardware_all, stamps.hardware) {
        (true, _) => {
            let set = match stamps.set_to_all {
                Some(false) => ", not set to stamp every frame: sudo hwstamp_ctl -i NAME -r 1",
                _ => "",
            };
            format!("of the kernel, or of the hardware (--time hardware){clock}{set}")
        }
        (false, true) => format!("of the kernel; the hardware stamps only PTP{clock}"),
        (false, false) => "of the kernel; the hardware takes no time stamps".into(),
    }
}

fn xdp(device: &Device) -> String {
    let Some(it) = device.xdp else {
        return "The kernel does not report what the driver can do".into();
    };
    let can = [
        (it.runs_programs, "programs"),
        (it.redirects, "redirection"),
        (it.zero_copy, "zero copy"),
        (it.receives_large_frames, "frames larger than a buffer"),
        (it.hardware_stamps, "hardware time stamps"),
    ];
    let can: Vec<_> = can
        .into_iter()
        .filter(|(is, _)| *is)
        .map(|(_, word)| word)
        .collect();
    match can.is_empty() {
        true => "The driver has no support for XDP".into(),
        false => format!("The driver has: {}", can.join(", ")),
    }
}

/// Offloads that are on, and those that are off. Those that cannot be changed are marked.
fn offloads(device: &Device) -> Vec<(&'static str, String)> {
    let of = |wanted: bool| {
        let some = device.offloads.iter().filter(|(_, it)| it.is_on == wanted);
        let names: Vec<_> = some
            .map(|(offload, Setting { is_fixed, .. })| {
                let fixed = if *is_fixed { " (fixed)" } else { "" };
                format!("{}{fixed}", offload.name())
            })
            .collect();
        names.join(", ")
    };
    let (on, off) = (of(true), of(false));
    let mut lines = Vec::new();
    if !off.is_empty() {
        lines.push(("off", off));
    }
    if !on.is_empty() {
        let changing = device.changing_offloads();
        let changing: Vec<_> = changing.iter().map(|it| it.name()).collect();
        let means = match changing.is_empty() {
            true => String::new(),
            false => format!(". Not as on the wire: {}", changing.join(", ")),
        };
        lines.push(("on", on + &means));
    }
    lines
}
