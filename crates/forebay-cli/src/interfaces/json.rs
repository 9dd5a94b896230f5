//! The interfaces as one JSON object.

use super::{
    backends::Rights,
    listed::{Listed, state},
};
use crate::output;
use serde_json::{Map, Value, json};

const SCHEMA: u32 = 2;

pub fn print(listed: &[Listed], rights: &Rights) -> String {
    let interfaces: Vec<_> = listed.iter().map(interface).collect();
    let object = json!({
        "schema": SCHEMA,
        "rights": { "packet": rights.packet.is_none(), "xdp": rights.xdp.is_none() },
        "interfaces": interfaces,
    });
    output::json(&object) + "\n"
}

fn interface(it: &Listed) -> Value {
    let Listed {
        link,
        device,
        backends,
    } = it;
    let offloads: Map<_, _> = device
        .offloads
        .iter()
        .map(|(offload, setting)| {
            let value = json!({ "on": setting.is_on, "fixed": setting.is_fixed });
            (offload.name().to_owned(), value)
        })
        .collect();
    let changing = device.changing_offloads();
    let names: Vec<_> = changing.iter().map(|it| it.name()).collect();
    json!({
        "name": link.name,
        "index": link.index,
        "state": state(link),
        "up": link.is_up(),
        "running": link.is_running(),
        "loopback": link.is_loopback(),
        "hardware": link.hardware,
        "link": link.hardware_name(),
        "kind": Some(&link.kind).filter(|kind| !kind.is_empty()),
        "driver": device.driver,
        "bus": device.bus,
        "mtu": link.mtu,
        "bits_per_second": device.bits_per_second,
        "queues": device.queues.map(|it| json!({
            "receive": it.receive,
            "transmit": it.transmit,
            "max_receive": it.max_receive,
            "max_transmit": it.max_transmit,
        })),
        "rings": device.rings.map(|it| json!({
            "receive": it.receive,
            "transmit": it.transmit,
            "max_receive": it.max_receive,
            "max_transmit": it.max_transmit,
        })),
        "offloads": offloads,
        "not_as_on_the_wire": names,
        "command": device.command_for(&link.name, &changing),
        "time_stamps": device.stamps.map(|it| json!({
            "software": it.software,
            "hardware": it.hardware,
            "hardware_all": it.hardware_all,
            "set_to_all": it.set_to_all,
            "clock": it.clock,
        })),
        "dropped": link.dropped,
        "backends": {
            "packet": backend(&backends.packet, |()| true.into()),
            "xdp": backend(&backends.xdp, |mode| mode.name().into()),
        },
        "xdp": device.xdp.map(|it| json!({
            "runs_programs": it.runs_programs,
            "redirects": it.redirects,
            "zero_copy": it.zero_copy,
            "receives_large_frames": it.receives_large_frames,
            "hardware_stamps": it.hardware_stamps,
        })),
        "xdp_program": link.xdp_program,
    })
}

/// What a backend gives, and the reason if it is nothing.
fn backend<T: Copy>(backend: &Result<T, String>, gives: impl Fn(T) -> Value) -> Value {
    match backend {
        Ok(mode) => json!({ "gives": gives(*mode), "reason": null }),
        Err(reason) => json!({ "gives": null, "reason": reason }),
    }
}
