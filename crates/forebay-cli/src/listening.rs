//! The line about each source before its first packet.

use crate::shares;
use forebay_net::{port::Owner, session::Source, units};

/// Number of interfaces of a share that are named when reading it begins.
const MAX_INTERFACES_SHOWN: usize = 5;

/// `forebay: listening on eth0, link-type EN10MB (Ethernet), …`.
pub fn listening(source: &Source, snaplen: u32, verbose: bool) -> String {
    let links = links(source);
    let got = &source.got;
    if got.in_turn {
        let packing = got.copy.strip_prefix("read").unwrap_or_default();
        return format!("forebay: reading from {}, {links}{packing}", source.name);
    }
    let interface = source.interfaces.first();
    let description = match (got.owner, interface) {
        (Some(owner), _) => format!(" ({})", shared_by(source, owner)),
        (None, Some(interface)) if !interface.description.is_empty() => {
            format!(" ({})", interface.description)
        }
        _ => String::new(),
    };
    let threads = match source.threads.len() {
        0 => String::new(),
        1 => " with 1 thread".into(),
        threads => format!(" with {threads} threads"),
    };
    if !verbose {
        return format!(
            "forebay: listening on {}{threads}{description}, {links}, snapshot length {snaplen} bytes",
            source.name
        );
    }
    let ring = match (got.ring_bytes, got.ring_frames) {
        (0, 0) => String::new(),
        (0, frames) => format!(", ring {frames} frames"),
        (bytes, _) => format!(", ring {}", units::binary(bytes)),
    };
    format!(
        "forebay: listening on {}{threads}{description}, {links}, snapshot length {snaplen} bytes, {}{ring}, {}, time stamps: {}",
        source.name, got.backend, got.copy, got.timestamps,
    )
}

/// That frames may differ from those on the wire, and the command that changes it.
pub fn not_as_on_the_wire(source: &Source) -> Option<String> {
    let got = &source.got;
    let names = (!got.offloads.is_empty()).then(|| got.offloads.join(", "))?;
    let command = got.offloads_off.as_deref();
    let command = command.map_or(String::new(), |it| format!(". To change that: {it}"));
    Some(format!(
        "forebay: warning: packets of {} may not be as on the wire, because of {names}{command}",
        source.name
    ))
}

/// `eth0, shared by root, process 1234`.
fn shared_by(source: &Source, owner: Owner) -> String {
    let mut names: Vec<_> = source
        .interfaces
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    names.truncate(MAX_INTERFACES_SHOWN);
    let more = match source.interfaces.len() - names.len() {
        0 => String::new(),
        some => format!(" and {some} more"),
    };
    let process = match owner.pid {
        0 => "a process of another container".into(),
        pid => format!("process {pid}"),
    };
    format!(
        "{}{more}, shared by {}, {process}",
        names.join(", "),
        shares::user(owner)
    )
}

/// `link-type EN10MB (Ethernet)`, with all link types of a source.
fn links(source: &Source) -> String {
    let links = source.link_types();
    let names: Vec<_> = links.iter().map(|link| link.to_string()).collect();
    match names.len() {
        0 => "link-type not known yet".into(),
        1 => format!("link-type {}", names[0]),
        _ => format!("link-types {}", names.join(", ")),
    }
}
