//! A device, opened as a program has asked for it.

use crate::{
    abi,
    border::attach,
    device_name::exists_and_is_up,
    failure::{Failure, of_port as failure},
    settings::Settings,
};
use forebay::time::Clock;
use forebay_net::{
    af_packet::{AfPacket, AfPacketConfig},
    filter::bpf::{Instruction, code},
    open::{self, Name, Options},
    port::{DEFAULT_SNAPLEN, MAX_SNAPLEN, Port, TimeSource},
};
use std::{
    io::ErrorKind,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

/// How long the kernel collects packets if the program sets no limit.
const DEFAULT_DELAY: Duration = Duration::from_millis(10);
/// With a shorter delay, each block of the kernel's ring is soon used up, even if it holds a single frame: then there are more of them.
const SHORT_DELAY: Duration = Duration::from_millis(10);
/// The bytes of the ring if the program sets none. Larger ones take longer to clear, and fit into no cache.
const RING_BYTES: u64 = 16 << 20;
const RING_BYTES_OF_SHORT_DELAY: u64 = 64 << 20;
/// The bytes of a block. The program is woken for each, so larger ones take less processor time.
const BLOCK_BYTES: u32 = 512 << 10;
const BLOCK_BYTES_OF_SHORT_DELAY: u32 = 128 << 10;
/// All protocols.
const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;
/// The least size of the kernel's ring, in bytes.
const MIN_RING_BYTES: u64 = 1 << 20;
/// The port's own advice is for the command `forebay`, whose file capabilities another program does not get.
const RIGHTS: &str = "Run the program as root (sudo forebay with PROGRAM), or let it read what a capture shares (share:NAME)";

/// The bytes of the kernel's ring, and of its blocks. Each delay ends a block, so that the number of blocks says how long the program may do
/// other work.
fn ring(asked: Option<u64>, delay: Duration) -> (u64, u32) {
    match asked {
        Some(bytes) => (bytes.max(MIN_RING_BYTES), BLOCK_BYTES_OF_SHORT_DELAY),
        None if delay < SHORT_DELAY => (RING_BYTES_OF_SHORT_DELAY, BLOCK_BYTES_OF_SHORT_DELAY),
        None => (RING_BYTES, BLOCK_BYTES),
    }
}

/// What a device is read with.
pub struct Opened {
    pub name: Name,
    pub port: Box<dyn Port>,
    pub clock: Clock,
    /// The socket to which the kernel can attach a filter.
    pub socket: Option<OwnedFd>,
    /// Bytes of a packet that the program gets.
    pub snaplen: u32,
    pub timeout: Option<Duration>,
}

impl Opened {
    pub fn open(settings: &Settings) -> Result<Opened, Failure> {
        let device = settings.device.to_string_lossy();
        let name: Name = device.parse().map_err(|error| failure(&error))?;
        // A program with more rights than its user would run ssh for that user.
        if matches!(name, Name::Ssh(_)) {
            let text = "other machines cannot be captured from. Share their packets: forebay capture -i ssh:HOST/INTERFACE --share NAME";
            return Err(Failure::new(abi::NO_SUCH_DEVICE, text));
        }
        exists_and_is_up(&name)?;
        let protocol = match (settings.protocol, &name) {
            (0, _) => ETH_P_ALL,
            // As to the kernel, of an integer.
            (protocol, Name::Interface(_)) => protocol as u16,
            _ => return Err("only interfaces can select an Ethernet protocol".into()),
        };
        let snaplen = match u32::try_from(settings.snaplen) {
            Ok(snaplen @ 1..=MAX_SNAPLEN) => snaplen,
            _ => DEFAULT_SNAPLEN,
        };
        // Filters see the whole packets.
        let whole = snaplen.max(DEFAULT_SNAPLEN);
        let timeout = u64::try_from(settings.timeout).ok().filter(|&ms| ms > 0);
        let timeout = timeout.map(Duration::from_millis);
        let delay = match settings.immediate {
            true => Duration::from_millis(1),
            false => timeout
                .unwrap_or(DEFAULT_DELAY)
                .min(Duration::from_secs(10)),
        };
        let buffer = u64::try_from(settings.buffer)
            .ok()
            .filter(|&bytes| bytes > 0);
        let clock = open::clock(std::slice::from_ref(&name)).map_err(|error| failure(&error))?;
        let time =
            (settings.tstamp_type == abi::TSTAMP_ADAPTER_UNSYNCED).then_some(TimeSource::Hardware);
        let reads = match &name {
            Name::Interface(interface) => {
                let (ring_bytes, block_bytes) = ring(buffer, delay);
                let config = AfPacketConfig {
                    ring_bytes,
                    block_bytes,
                    promiscuous: settings.promiscuous,
                    snaplen: whole,
                    retire: delay,
                    ethernet_only: true,
                    protocol,
                    time,
                    ..AfPacketConfig::default()
                };
                AfPacket::open(interface, &config).map(|port| {
                    let socket = port.as_fd().try_clone_to_owned().ok();
                    // The filter of all interfaces also selects those with Ethernet.
                    let socket = socket.filter(|_| !name.is_any());
                    (Box::new(port) as Box<dyn Port>, socket)
                })
            }
            _ => {
                let options = Options {
                    ring_bytes: buffer,
                    promiscuous: settings.promiscuous,
                    snaplen: whole,
                    delay,
                    ..Options::default()
                };
                let names = std::slice::from_ref(&name);
                open::ports(names, &options, &clock).and_then(|mut ports| {
                    let none = || forebay::Error::new(device.as_ref(), "opening it");
                    Ok((ports.pop().ok_or_else(none)?, None))
                })
            }
        };
        let (port, socket) = reads.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied if name.interface().is_some() => {
                failure(&error.advise(RIGHTS))
            }
            _ => failure(&error),
        })?;
        if let Some(socket) = &socket
            && snaplen < DEFAULT_SNAPLEN
        {
            let cut = attach(socket.as_fd(), &[Instruction::new(code::RET_K, snaplen)]);
            cut.map_err(|error| format!("can't limit the length of packets: {error}"))?;
        }
        Ok(Opened {
            name,
            port,
            clock,
            socket,
            snaplen,
            timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_at_least_as_many_blocks_as_libpcaps() {
        let blocks = |asked, ms| {
            let (ring, block) = ring(asked, Duration::from_millis(ms));
            ring / u64::from(block)
        };
        // libpcap's blocks have 128 KiB, and its ring has 2 MiB if the program asks for no other.
        for ms in [1, 9, 10, 1000] {
            assert!(blocks(None, ms) >= 16);
            for bytes in [2 << 20, 64 << 20] {
                assert_eq!(blocks(Some(bytes), ms), bytes / (128 << 10));
            }
        }
    }
}
