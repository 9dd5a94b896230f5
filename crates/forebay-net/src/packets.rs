//! Copies frames, which are valid only during their burst, into packets of a pool, and shows packets as frames.
//!
//! A frame is copied once, into a slot of the pool. After that, only the descriptor of the packet passes between threads.
//!
//! ```text
//!  burst:  │ frame │ ──copy_frame──▶ slot: │ headroom │ frame │ tailroom │ ──▶ Packet ──▶ a ring, another thread, a file
//! ```

use crate::port::{Direction, Frame};
use forebay::packet::{Desc, Flags, Packet, Pool, Refused};

/// Why a frame was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotCopied {
    /// The pool has no free slot. This is the only reason that passes with time.
    Exhausted,
    /// The frame has more than 1,048,575 bytes, which a descriptor cannot hold.
    TooLong {
        /// Bytes of the frame.
        len: usize,
    },
    /// The number of the interface is above 255.
    Interface {
        /// Number of the interface.
        interface: u32,
    },
}

forebay::coded!([] NotCopied, "packet", {
    NotCopied::Exhausted => Code::Full, "the pool has no slot left for a frame";
    NotCopied::TooLong { len } => Code::TooLong,
        "a frame of {len} bytes is too long for a packet: at most {}", Desc::MAX_LEN;
    NotCopied::Interface { interface } => Code::Invalid,
        "interface number {interface} is too large for a packet: at most 255";
});

/// Copies `frame` into a packet of `pool`: its bytes, time (the lower 48 bits), length on the wire, interface (as port), and
/// [`Flags::VALID`], with [`Flags::OUTBOUND`] where that is known. A frame longer than a slot takes several.
///
/// The number of frames lost before it is not copied; count it at the call.
///
/// ```
/// use forebay::packet::{Pool, PoolConfig};
/// use forebay_net::{packets::copy_frame, port::Frame};
/// let mut pool = Pool::new(&PoolConfig::default())?;
/// let frame = Frame {
///     data: &[7; 60], wire_len: 1514, time_ns: 1_700_000_000_000_000_000, interface: 2, ..Frame::default()
/// };
/// let packet = copy_frame(&mut pool, &frame).unwrap();
/// assert_eq!((packet.as_slice(), packet.wire_len(), packet.port()), (frame.data, 1514, 2));
/// assert_eq!((packet.headroom(), packet.time_near(frame.time_ns + 1)), (128, frame.time_ns));
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// - No slot is free: return the frame with [`Burst::put_back`](crate::port::Burst::put_back). The source keeps it, or
///   drops and counts it.
/// - The frame has more bytes, or a higher interface number, than a descriptor can hold.
#[inline]
pub fn copy_frame(pool: &mut Pool, frame: &Frame<'_>) -> Result<Packet, NotCopied> {
    let len = frame.data.len();
    if len > Desc::MAX_LEN as usize {
        return Err(NotCopied::TooLong { len });
    }
    let interface = frame.interface;
    let port = u8::try_from(interface).map_err(|_| NotCopied::Interface { interface })?;
    let mut packet = pool.take().ok_or(NotCopied::Exhausted)?;
    match packet.put(len as u32) {
        Ok(room) => room.copy_from_slice(frame.data),
        Err(Refused::NoRoom { .. }) => packet
            .append(pool, frame.data)
            .map_err(|_| NotCopied::Exhausted)?,
        Err(_) => unreachable!("a fresh packet is alone"),
    }
    packet.set_time(frame.time_ns);
    packet.set_port(port);
    packet.set_wire_len(frame.wire_len);
    packet.set_flags(match frame.direction {
        Direction::Outbound => Flags::VALID.with(Flags::OUTBOUND),
        _ => Flags::VALID,
    });
    Ok(packet)
}

/// A packet as a frame, for writing it. The bytes are borrowed. `None` for a packet that is longer than a slot.
///
/// The time is reconstructed from `reference_ns`, any time less than 39 hours away. If headers were added, the length on the
/// wire is the length that the packet has now.
///
/// ```
/// use forebay::packet::{Pool, PoolConfig};
/// use forebay_net::packets::as_frame;
/// let mut pool = Pool::new(&PoolConfig::default())?;
/// let mut packet = pool.take().unwrap();
/// packet.put(60).unwrap().fill(1);
/// packet.set_time(5);
/// let frame = as_frame(&packet, 0).unwrap();
/// assert_eq!((frame.data, frame.wire_len, frame.time_ns), (&[1; 60][..], 60, 5));
/// # Ok::<(), forebay::Error>(())
/// ```
#[inline]
pub fn as_frame(packet: &Packet, reference_ns: u64) -> Option<Frame<'_>> {
    let data = packet.as_slice();
    if data.len() < packet.len() as usize {
        return None;
    }
    Some(Frame {
        data,
        wire_len: packet.wire_len().max(packet.len()),
        time_ns: packet.time_near(reference_ns),
        interface: packet.port().into(),
        direction: match packet.flags().has(Flags::OUTBOUND) {
            true => Direction::Outbound,
            false => Direction::Unknown,
        },
        dropped_before: 0,
        ..Frame::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::packet::{Pool, PoolConfig};

    fn frame(data: &[u8]) -> Frame<'_> {
        Frame {
            time_ns: 1_700_000_000_123_456_789,
            direction: Direction::Outbound,
            ..Frame::whole(data)
        }
    }

    #[test]
    fn a_as_frame_any_length_is_kept_whole_or_refused() {
        let config = PoolConfig {
            slots: 8,
            ..PoolConfig::default()
        };
        let mut pool = Pool::new(&config).unwrap();
        for len in [0, 60, 1514, 1920, 1921, 9018, 15_000] {
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let packet = copy_frame(&mut pool, &frame(&data)).unwrap();
            assert_eq!(packet.to_vec(), data);
            assert_eq!(packet.wire_len() as usize, len);
            let back = as_frame(&packet, 1_700_000_000_000_000_000);
            assert_eq!(back.is_some(), len <= 1920);
            assert!(back.is_none_or(|back| back == frame(&data)));
        }
        let long = vec![0; 17_000];
        assert_eq!(
            copy_frame(&mut pool, &frame(&long)).unwrap_err(),
            NotCopied::Exhausted
        );
        assert_eq!(pool.refill(), 8, "the slots taken for it were returned");
        let longest = vec![0; 1 << 20];
        let refused = copy_frame(&mut pool, &frame(&longest)).unwrap_err();
        assert!(refused.to_string().contains("1048576 bytes"), "{refused}");
        let elsewhere = Frame {
            interface: 256,
            ..frame(&[0; 60])
        };
        let refused = copy_frame(&mut pool, &elsewhere).unwrap_err();
        assert!(
            refused.to_string().contains("interface number 256"),
            "{refused}"
        );
        assert_eq!(pool.refill(), 8);
    }
}
