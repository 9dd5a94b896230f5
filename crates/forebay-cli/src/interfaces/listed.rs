//! An interface as it is listed: in the table, at length and as JSON.

use super::backends::Backends;
use forebay_net::link::{Device, Link};

/// An interface with everything that is known of it.
pub struct Listed {
    pub link: Link,
    pub device: Device,
    pub backends: Backends,
}

/// `up`, `down`, or `no link`: up, but no cable is connected.
pub fn state(link: &Link) -> &'static str {
    match (link.is_up(), link.is_running()) {
        (true, true) => "up",
        (true, false) => "no link",
        (false, _) => "down",
    }
}

/// The clock that can stamp every received frame, in one word.
pub fn time(device: &Device) -> &'static str {
    match device.stamps {
        Some(stamps) if stamps.hardware_all => "hard",
        Some(stamps) if stamps.hardware => "ptp",
        Some(stamps) if stamps.software => "soft",
        _ => "-",
    }
}

/// Queues that receive and send. Without an answer of the driver, those for which the kernel has memory.
pub fn queues(it: &Listed) -> (u32, u32) {
    match it.device.queues {
        Some(queues) => (queues.receive, queues.transmit),
        None => it.link.queues,
    }
}
