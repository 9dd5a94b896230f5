//! Settings of a handle that is not activated yet.

use crate::{
    abi,
    border::exports,
    device_name::tstamp_types,
    failure::Failure,
    handle::{Handle, Source},
    registry::Given,
    settings::Settings,
    timestamps::Precision,
};
use std::ffi::c_int;

/// Changes the settings.
fn set(handle: Given<Handle>, change: impl FnOnce(&mut Settings)) -> c_int {
    Handle::run(handle, |_, state| {
        change(state.settings()?);
        Ok(0)
    })
}

exports! {
    fn pcap_set_snaplen(handle: Given<Handle>, snaplen: c_int) -> c_int = abi::ERROR; {
        set(handle, |settings| settings.snaplen = snaplen)
    }

    fn pcap_set_promisc(handle: Given<Handle>, is_promiscuous: c_int) -> c_int = abi::ERROR; {
        set(handle, |settings| settings.promiscuous = is_promiscuous != 0)
    }

    // No device has a monitor mode here.
    fn pcap_can_set_rfmon(handle: Given<Handle>) -> c_int = abi::ERROR; {
        Handle::run(handle, |_, state| match state.source {
            Source::Dead => Err("Rfmon mode doesn't apply on a pcap_open_dead pcap_t".into()),
            _ => Ok(0),
        })
    }

    fn pcap_set_rfmon(handle: Given<Handle>, is_monitoring: c_int) -> c_int = abi::ERROR; {
        set(handle, |settings| settings.monitor = is_monitoring != 0)
    }

    fn pcap_set_timeout(handle: Given<Handle>, milliseconds: c_int) -> c_int = abi::ERROR; {
        set(handle, |settings| settings.timeout = milliseconds)
    }

    fn pcap_set_tstamp_type(handle: Given<Handle>, number: c_int) -> c_int = abi::ERROR; {
        Handle::run(handle, |_, state| {
            let settings = state.settings()?;
            if number < 0 {
                return Ok(abi::WARNING_TSTAMP_TYPE_NOTSUP);
            }
            if !tstamp_types(&settings.device).contains(&number) {
                return Ok(abi::WARNING_TSTAMP_TYPE_NOTSUP);
            }
            settings.tstamp_type = number;
            Ok(0)
        })
    }

    fn pcap_set_immediate_mode(handle: Given<Handle>, is_immediate: c_int) -> c_int = abi::ERROR; {
        set(handle, |settings| settings.immediate = is_immediate != 0)
    }

    fn pcap_set_buffer_size(handle: Given<Handle>, bytes: c_int) -> c_int = abi::ERROR; {
        set(handle, |settings| settings.buffer = bytes.max(0))
    }

    fn pcap_set_tstamp_precision(handle: Given<Handle>, number: c_int) -> c_int = abi::ERROR; {
        Handle::run(handle, |_, state| {
            let settings = state.settings()?;
            settings.precision = Precision::numbered(number).ok_or_else(|| {
                Failure::new(abi::TSTAMP_PRECISION_NOTSUP, "")
            })?;
            Ok(0)
        })
    }

    fn pcap_set_protocol_linux(handle: Given<Handle>, protocol: c_int) -> c_int = abi::ERROR; {
        set(handle, |settings| settings.protocol = protocol)
    }
}
