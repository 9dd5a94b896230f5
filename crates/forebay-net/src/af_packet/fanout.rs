//! Several ports on one interface (`PACKET_FANOUT`).

use super::{AfPacket, AfPacketConfig, shut::Shut};
use crate::port::Fanout;
use forebay::{Error, Result};

impl AfPacket {
    /// Opens `count` ports on the interface `name` or on `any`, each with a ring of `config`'s size. Together they capture each frame
    /// once: `mode` selects the port that gets it.
    ///
    /// Every port reports the drops of the interface ([`Counts::interface_dropped`](crate::port::Counts::interface_dropped)) as a whole.
    ///
    /// ```
    /// use forebay_net::{af_packet::{AfPacket, AfPacketConfig}, port::{Fanout, Port}};
    /// match AfPacket::open_fanout("lo", &AfPacketConfig::default(), 2, Fanout::Hash) {
    ///     Ok(ports) => assert_eq!(ports[1].interfaces()[0].name, "lo"),
    ///     Err(reason) => println!("skipped: {reason}"), // needs CAP_NET_RAW
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`open`](AfPacket::open); `count` is 0 or above 256; or the kernel has no such groups (before Linux 4.12).
    pub fn open_fanout(
        name: &str,
        config: &AfPacketConfig,
        count: usize,
        mode: Fanout,
    ) -> Result<Vec<Self>> {
        if !(1..=256).contains(&count) {
            let what = format!("a group of {count} readers is not possible");
            return Err(Error::invalid(name, what).advise("Use 1 to 256"));
        }
        let mut members = Vec::with_capacity(count);
        let mut group = None;
        for _ in 0..count {
            let member = Shut::open(name, config)?;
            group = Some(member.join(group, mode)?);
            members.push(member);
        }
        members.into_iter().map(Shut::accept).collect()
    }
}
