//! What the driver of an interface reports about it: `SIOCETHTOOL` (linux/ethtool.h), as `ethtool` shows it.
//!
//! Each question stands for itself: a driver that does not answer it leaves that value unknown.

use super::{
    Link,
    netdev::{self, XdpSupport},
    netlink::text,
};
use crate::sys::{self, Ethtool};
use forebay::{Error, Result};
use rustix::net::{AddressFamily, SocketType};
use std::os::fd::{AsFd, BorrowedFd};

/// The properties and settings of an interface, from [`Link::device`]. `None`: the driver does not report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The driver's name, such as `ixgbe` or `veth`.
    pub driver: Option<String>,
    /// Where the hardware is, such as the PCI address `0000:03:00.0`.
    pub bus: Option<String>,
    /// Speed of the link in bits per second.
    pub bits_per_second: Option<u64>,
    /// The queues in use, of those that the hardware has.
    pub queues: Option<Queues>,
    /// Sizes of the hardware's rings.
    pub rings: Option<RingSizes>,
    /// Offloads that change what a capture sees, in the order of [`Offload::ALL`]. Those that the kernel does not know are missing.
    pub offloads: Vec<(Offload, Setting)>,
    /// Time stamps that the interface can take.
    pub stamps: Option<Stamps>,
    /// What the driver can do for XDP.
    pub xdp: Option<XdpSupport>,
}

/// Numbers of queues. Each receives and sends, or only one of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Queues that receive.
    pub receive: u32,
    /// Queues that send.
    pub transmit: u32,
    /// The largest possible number of queues that receive.
    pub max_receive: u32,
    /// The largest possible number of queues that send.
    pub max_transmit: u32,
}

/// Sizes of the hardware's rings, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// The receive ring.
    pub receive: u32,
    /// The transmit ring.
    pub transmit: u32,
    /// The largest possible receive ring.
    pub max_receive: u32,
    /// The largest possible transmit ring.
    pub max_transmit: u32,
}

/// Time stamps that an interface can take of received frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The kernel can stamp received frames.
    pub software: bool,
    /// The hardware can stamp received frames, and reports these times.
    pub hardware: bool,
    /// The hardware can stamp *every* received frame, and not only those of PTP.
    pub hardware_all: bool,
    /// It is set to stamp every received frame. `None`: the driver does not report its setting.
    pub set_to_all: Option<bool>,
    /// The hardware's clock: N of `/dev/ptpN`.
    pub clock: Option<u32>,
}

/// Work that the kernel or the hardware does on frames between a capture and the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offload {
    /// The kernel merges received segments (GRO).
    ReceiveMerging,
    /// The hardware merges received segments, such that they can be split again.
    HardwareReceiveMerging,
    /// The hardware merges received segments (LRO). Their headers are lost.
    LargeReceive,
    /// The hardware, or the kernel just before it, splits TCP segments that are sent.
    TcpSplitting,
    /// The same for other segments that are sent (GSO).
    GenericSplitting,
    /// The hardware checks the checksums of received frames. Does not change them.
    ReceiveChecksums,
    /// The hardware computes the checksums of frames that are sent.
    TransmitChecksums,
    /// The hardware removes the VLAN tags of received frames.
    VlanRemoval,
    /// The hardware inserts the VLAN tags of frames that are sent.
    VlanInsertion,
}

/// The state of an offload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// It is in use.
    pub is_on: bool,
    /// It cannot be changed.
    pub is_fixed: bool,
}

impl Offload {
    /// All offloads.
    pub const ALL: [Offload; 9] = [
        Offload::ReceiveMerging,
        Offload::HardwareReceiveMerging,
        Offload::LargeReceive,
        Offload::TcpSplitting,
        Offload::GenericSplitting,
        Offload::ReceiveChecksums,
        Offload::TransmitChecksums,
        Offload::VlanRemoval,
        Offload::VlanInsertion,
    ];

    /// Its name for `ethtool -K`.
    ///
    /// ```
    /// assert_eq!(forebay_net::link::Offload::ReceiveMerging.name(), "gro");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Offload::ReceiveMerging => "gro",
            Offload::HardwareReceiveMerging => "rx-gro-hw",
            Offload::LargeReceive => "lro",
            Offload::TcpSplitting => "tso",
            Offload::GenericSplitting => "gso",
            Offload::ReceiveChecksums => "rx",
            Offload::TransmitChecksums => "tx",
            Offload::VlanRemoval => "rxvlan",
            Offload::VlanInsertion => "txvlan",
        }
    }

    /// With this offload, captured frames may differ from those on the wire: they are longer, or their checksums are not computed
    /// yet. VLAN tags that the hardware removed are inserted again by [`af_packet`](crate::af_packet).
    pub fn changes_frames(self) -> bool {
        use Offload::*;
        matches!(
            self,
            ReceiveMerging
                | HardwareReceiveMerging
                | LargeReceive
                | TcpSplitting
                | GenericSplitting
                | TransmitChecksums
        )
    }

    /// The offload to which a feature of the kernel belongs, by the feature's name (net/ethtool/common.c).
    fn of_feature(name: &str) -> Option<Offload> {
        Some(match name {
            "rx-gro" => Offload::ReceiveMerging,
            "rx-gro-hw" => Offload::HardwareReceiveMerging,
            "rx-lro" => Offload::LargeReceive,
            "tx-generic-segmentation" => Offload::GenericSplitting,
            "rx-checksum" => Offload::ReceiveChecksums,
            "rx-vlan-hw-parse" => Offload::VlanRemoval,
            "tx-vlan-hw-insert" => Offload::VlanInsertion,
            _ if name.starts_with("tx-tcp") && name.ends_with("-segmentation") => {
                Offload::TcpSplitting
            }
            _ if name.starts_with("tx-checksum-ip") => Offload::TransmitChecksums,
            _ => return None,
        })
    }
}

impl Device {
    /// The state of an offload, if the driver reports it.
    pub fn offload(&self, offload: Offload) -> Option<Setting> {
        let mut found = self.offloads.iter().filter(|(it, _)| *it == offload);
        found.next().map(|(_, setting)| *setting)
    }

    /// Offloads that are on, and that can make captured frames differ from those on the wire.
    ///
    /// ```
    /// use forebay_net::link::{Device, Offload, Setting};
    /// let on = Setting { is_on: true, is_fixed: false };
    /// let offloads = vec![(Offload::ReceiveMerging, on), (Offload::VlanRemoval, on)];
    /// let device = Device { offloads, ..Device::default() };
    /// assert_eq!(device.changing_offloads(), [Offload::ReceiveMerging]);
    /// ```
    pub fn changing_offloads(&self) -> Vec<Offload> {
        let changing =
            |&&(offload, setting): &&(Offload, Setting)| setting.is_on && offload.changes_frames();
        let found = self.offloads.iter().filter(changing);
        found.map(|(offload, _)| *offload).collect()
    }

    /// The command that turns these offloads off; `None` if none of them can be, or if no command can contain the name. Other unusual
    /// names are quoted for a shell.
    ///
    /// ```
    /// use forebay_net::link::{Device, Offload, Setting};
    /// let on = Setting { is_on: true, is_fixed: false };
    /// let device = Device { offloads: vec![(Offload::ReceiveMerging, on)], ..Device::default() };
    /// let command = device.command_for("eth0", &[Offload::ReceiveMerging]);
    /// assert_eq!(command.as_deref(), Some("sudo ethtool -K eth0 gro off"));
    /// ```
    pub fn command_for(&self, name: &str, offloads: &[Offload]) -> Option<String> {
        let can_change =
            |it: &&Offload| self.offload(**it).is_some_and(|setting| !setting.is_fixed);
        let words = offloads.iter().filter(can_change);
        let words: Vec<_> = words.map(|it| format!("{} off", it.name())).collect();
        let name = shell_word(name).filter(|_| !words.is_empty())?;
        Some(format!("sudo ethtool -K {name} {}", words.join(" ")))
    }
}

impl Link {
    /// Asks the driver for the properties and settings of this interface. Needs no privilege.
    ///
    /// ```
    /// for link in forebay_net::link::interfaces()? {
    ///     println!("{}: {:?}", link.name, link.device()?);
    /// }
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// No socket can be opened.
    pub fn device(&self) -> Result<Device> {
        let socket = sys::socket(AddressFamily::INET, SocketType::DGRAM, None)
            .map_err(|cause| Error::new(&self.name, "asking for its settings").because(cause))?;
        let socket = socket.as_fd();
        let ask = |question| sys::ethtool(socket, &self.name, question).ok();
        let about = ask(Ethtool::Driver);
        // Four texts of 32 bytes follow the question: driver, version, firmware, bus.
        let word = |at: usize| {
            let bytes: Vec<_> = about?[1 + at * 8..9 + at * 8]
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            Some(text(&bytes)).filter(|text| !text.is_empty())
        };
        Ok(Device {
            driver: word(0),
            bus: word(3),
            bits_per_second: ask(Ethtool::Settings).and_then(|answer| speed(&answer)),
            queues: ask(Ethtool::Channels).map(|answer| queues(&answer)),
            rings: ask(Ethtool::RingSizes).and_then(|answer| rings(&answer)),
            offloads: offloads(socket, &self.name).unwrap_or_default(),
            stamps: ask(Ethtool::TimeStamps).map(|answer| Stamps {
                set_to_all: sys::stamps_all(socket, &self.name).ok(),
                ..stamps(&answer)
            }),
            xdp: netdev::support(self.index).ok(),
        })
    }
}

/// The name as one word of a shell's command; `None` if it cannot be typed.
pub(crate) fn shell_word(name: &str) -> Option<String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    match name.chars().all(is_plain) {
        true => Some(name.into()),
        false if name.contains(char::is_control) => None,
        false => Some(format!("'{}'", name.replace('\'', r"'\''"))),
    }
}

type Answer = [u32; sys::ETHTOOL_WORDS];

/// `struct ethtool_cmd`: megabits per second, in two halves. An interface without a link answers −1.
fn speed(answer: &Answer) -> Option<u64> {
    let half = |byte: usize, word: u32| {
        let bytes = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([bytes[byte], bytes[byte + 1]]))
    };
    let megabits = half(0, answer[3]) | half(0, answer[7]) << 16;
    (megabits != 0 && megabits != u32::MAX && megabits != 0xFFFF)
        .then(|| u64::from(megabits) * 1_000_000)
}

/// `struct ethtool_channels`: most and present numbers of queues that receive, send, do neither, or do both.
fn queues(answer: &Answer) -> Queues {
    let [_, rx_max, tx_max, _, both_max, rx, tx, _, both, ..] = *answer;
    Queues {
        receive: rx.saturating_add(both),
        transmit: tx.saturating_add(both),
        max_receive: rx_max.saturating_add(both_max),
        max_transmit: tx_max.saturating_add(both_max),
    }
}

/// `struct ethtool_ringparam`: the largest sizes of four rings, the receive ring first and the transmit ring last, and then the
/// present sizes.
fn rings(answer: &Answer) -> Option<RingSizes> {
    let [
        _,
        max_receive,
        _,
        _,
        max_transmit,
        receive,
        _,
        _,
        transmit,
        ..,
    ] = *answer;
    (max_receive > 0).then_some(RingSizes {
        receive,
        transmit,
        max_receive,
        max_transmit,
    })
}

/// `struct ethtool_ts_info`. Bits of linux/net_tstamp.h.
fn stamps(answer: &Answer) -> Stamps {
    const RX_HARDWARE: u32 = 1 << 2;
    const RX_SOFTWARE: u32 = 1 << 3;
    const RAW_HARDWARE: u32 = 1 << 6;
    const FILTER_ALL: u32 = 1 << 1;
    let (can, clock, filters) = (answer[1], answer[2] as i32, answer[7]);
    let hardware = can & RX_HARDWARE != 0 && can & RAW_HARDWARE != 0;
    Stamps {
        software: can & RX_SOFTWARE != 0,
        hardware,
        hardware_all: hardware && filters & FILTER_ALL != 0,
        set_to_all: None,
        clock: u32::try_from(clock).ok(),
    }
}

/// The offloads of an interface. Several features may belong to one offload.
fn offloads(socket: BorrowedFd<'_>, name: &str) -> std::io::Result<Vec<(Offload, Setting)>> {
    let names = sys::ethtool_feature_names(socket, name)?;
    let answer = sys::ethtool(socket, name, Ethtool::Features)?;
    let features = names.chunks_exact(sys::FEATURE_NAME_BYTES).map(text);
    Ok(settings(features, &answer))
}

/// `struct ethtool_gfeatures`: a number of blocks, and for each 32 features what is available, requested, active and never changed.
fn settings(names: impl Iterator<Item = String>, answer: &Answer) -> Vec<(Offload, Setting)> {
    let blocks = answer[1] as usize;
    let mut found: [Option<Setting>; Offload::ALL.len()] = Default::default();
    for (number, name) in names.enumerate() {
        let (block, bit) = (number / 32, 1_u32 << (number % 32));
        let Some(offload) = Offload::of_feature(&name).filter(|_| block < blocks) else {
            continue;
        };
        let word = |field: usize| answer.get(2 + block * 4 + field).copied().unwrap_or(0);
        let (available, active, never_changed) = (word(0), word(2), word(3));
        let is_on = active & bit != 0;
        let is_fixed = available & bit == 0 || never_changed & bit != 0;
        let setting = &mut found[offload as usize];
        // Of several features, one that is on or can be changed decides.
        let so_far = setting.unwrap_or(Setting {
            is_on: false,
            is_fixed: true,
        });
        *setting = Some(match (so_far.is_on, is_on) {
            (true, false) => so_far,
            (false, true) => Setting { is_on, is_fixed },
            _ => Setting {
                is_on,
                is_fixed: so_far.is_fixed && is_fixed,
            },
        });
    }
    let all = Offload::ALL.into_iter().zip(found);
    all.filter_map(|(offload, setting)| Some((offload, setting?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(words: &[u32]) -> Answer {
        let mut answer = [0; sys::ETHTOOL_WORDS];
        answer[..words.len()].copy_from_slice(words);
        answer
    }

    #[test]
    fn speeds_are_in_two_halves_and_may_be_unknown() {
        let half =
            |low: u16| u32::from_ne_bytes([low.to_ne_bytes(), [0; 2]].concat().try_into().unwrap());
        let of = |low, high| speed(&answer(&[1, 0, 0, half(low), 0, 0, 0, half(high)]));
        assert_eq!(of(1000, 0), Some(1_000_000_000));
        assert_eq!(of(34464, 1), Some(100_000_000_000));
        assert_eq!([of(0, 0), of(0xFFFF, 0xFFFF), of(0xFFFF, 0)], [None; 3]);
    }

    #[test]
    fn queues_that_do_both_count_on_both_sides() {
        let here = queues(&answer(&[0, 2, 4, 1, 8, 1, 2, 1, 6]));
        let expected = Queues {
            receive: 7,
            transmit: 8,
            max_receive: 10,
            max_transmit: 12,
        };
        assert_eq!(here, expected);
    }

    #[test]
    fn only_hardware_that_reports_its_times_counts() {
        let of = |can, filters| stamps(&answer(&[0, can, 3, 0, 0, 0, 0, filters]));
        let full = Stamps {
            software: true,
            hardware: true,
            hardware_all: true,
            set_to_all: None,
            clock: Some(3),
        };
        assert_eq!(of(0b100_1100, 0b11), full);
        assert!(!of(0b000_1100, 0b11).hardware, "not reported");
        assert!(!of(0b100_1100, 0b101).hardware_all, "only PTP");
        assert_eq!(stamps(&answer(&[0, 0, u32::MAX])), Stamps::default());
    }

    #[test]
    fn several_features_are_one_offload() {
        let names = [
            "tx-checksum-ipv4",
            "rx-gro",
            "tx-checksum-ip-generic",
            "else",
        ];
        let names = || names.into_iter().map(str::to_owned);
        let of = |available, active, never| {
            settings(names(), &answer(&[0, 1, available, 0, active, never]))
        };
        let setting = |is_on, is_fixed| Setting { is_on, is_fixed };
        // One is off for good, the other one is on and can be changed.
        let expected = [
            (Offload::ReceiveMerging, setting(false, false)),
            (Offload::TransmitChecksums, setting(true, false)),
        ];
        assert_eq!(of(0b0110, 0b0100, 0), expected);
        assert_eq!(of(0b0001, 0b0100, 0)[1].1, setting(true, true));
        assert_eq!(of(0b0111, 0b0111, 0b0010)[0].1, setting(true, true));
        // A kernel with more names than blocks.
        assert_eq!(settings(names(), &answer(&[0, 0, u32::MAX])), []);
    }

    #[test]
    fn fixed_offloads_are_not_part_of_the_command() {
        let on = |is_fixed| Setting {
            is_on: true,
            is_fixed,
        };
        let device = Device {
            offloads: vec![
                (Offload::ReceiveMerging, on(false)),
                (Offload::TcpSplitting, on(true)),
                (Offload::GenericSplitting, on(false)),
            ],
            ..Device::default()
        };
        let all = device.changing_offloads();
        assert_eq!(all.len(), 3);
        let command = device.command_for("eth0", &all);
        assert_eq!(command.unwrap(), "sudo ethtool -K eth0 gro off gso off");
        assert_eq!(device.command_for("eth0", &all[1..2]), None);
        // A name is never more than one word of the command.
        let command = device.command_for("a'$(id)", &all).unwrap();
        assert!(
            command.starts_with(r"sudo ethtool -K 'a'\''$(id)' gro"),
            "{command}"
        );
        assert_eq!(device.command_for("a\u{1b}[31m", &all), None);
    }
}
