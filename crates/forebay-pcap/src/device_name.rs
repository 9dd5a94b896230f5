//! Names of devices, before they are opened.

use crate::{
    abi,
    border::environment,
    failure::{Failure, of_port as failure},
};
use forebay_net::{link, open::Name};
use std::ffi::{CStr, CString, c_int};

/// The device that a program opens under this name: another one, if the user has set that.
pub fn device_name(asked: &CStr) -> CString {
    environment(c"FOREBAY_PCAP_DEVICE").unwrap_or_else(|| asked.to_owned())
}

/// The time stamp types of a device.
pub fn tstamp_types(device: &CStr) -> Vec<c_int> {
    let links = link::interfaces().unwrap_or_default();
    let link = links
        .iter()
        .find(|link| link.name.as_bytes() == device.to_bytes());
    let device = link.and_then(|link| link.device().ok());
    match device.and_then(|device| device.stamps) {
        Some(stamps) if stamps.hardware_all => {
            vec![abi::TSTAMP_HOST, abi::TSTAMP_ADAPTER_UNSYNCED]
        }
        _ => vec![abi::TSTAMP_HOST],
    }
}

/// Programs distinguish these two errors by their codes.
pub fn exists_and_is_up(name: &Name) -> Result<(), Failure> {
    let Some(interface) = name.interface().filter(|_| !name.is_any()) else {
        return Ok(());
    };
    let links = link::interfaces().map_err(|error| failure(&error))?;
    let link = links.iter().find(|link| link.name == interface);
    match link.map(link::Link::is_up) {
        None => {
            let text = format!("there is no interface {interface}");
            Err(Failure::new(abi::NO_SUCH_DEVICE, text))
        }
        Some(false) => Err(Failure::new(abi::IFACE_NOT_UP, "the interface is down")),
        Some(true) => Ok(()),
    }
}
