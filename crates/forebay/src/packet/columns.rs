//! Descriptions of many packets, a column a field: for work that looks at one or two fields of each.
//!
//! An array of [`Desc`] loads 16 bytes into the cache to read a length; a column of lengths loads 4. One instruction can also
//! process several entries of a column. For whole packets, and for rings, a [`Desc`] is better: here one packet is in seven
//! places. Plain data.
//!
//! ```text
//!  &[Desc]   │ time port flags len slot pool hash │ time port flags len slot pool hash │ …        16 bytes a packet
//!
//!  Columns   times │ 8 │ 8 │ 8 …   lens │ 4 │ 4 │ 4 …   slots │ 4 …                             21 bytes a packet,
//!            hashes │ 2 │ 2 …   pools │ 1 │ 1 …   ports │ 1 │ 1 …   flags │ 1 │ 1 …              a loop reads only a few
//! ```

use super::{Desc, Facts, Flags};

/// Descriptions of many packets, stored field by field, in order. Choose it over a slice of [`Desc`] for loops that read one or
/// two fields of many packets.
///
/// ```
/// use forebay::packet::{Columns, Desc, Facts, Flags};
/// let desc = |len, port| Desc::new(&Facts { len, port, ..Facts::default() }).unwrap();
/// let mut columns: Columns = [desc(60, 1), desc(1514, 3)].into_iter().collect();
/// assert_eq!(columns.view().lens.iter().sum::<u32>(), 1574);
///
/// let each = columns.view_mut();
/// for (flags, &len) in each.flags.iter_mut().zip(each.lens) {
///     *flags = if len > 64 { Flags::VALID } else { Flags::default() };
/// }
/// assert_eq!(columns.get(1), Some(Desc::new(&Facts { len: 1514, port: 3, flags: Flags::VALID, ..Facts::default() })?));
/// # Ok::<(), forebay::packet::DoesNotFit>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    times: Vec<u64>,
    lens: Vec<u32>,
    slots: Vec<u32>,
    hashes: Vec<u16>,
    pools: Vec<u8>,
    ports: Vec<u8>,
    flags: Vec<Flags>,
}

/// All columns, for reading. Each is as long as the number of packets.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Nanoseconds modulo 2⁴⁸; see [`Desc::time_near`].
    pub times: &'a [u64],
    /// Bytes of data, 0 to 1,048,575.
    pub lens: &'a [u32],
    /// Numbers of the (first) slots, 0 to 1,048,575.
    pub slots: &'a [u32],
    /// Hashes of the flows.
    pub hashes: &'a [u16],
    /// Numbers of the slots' pools.
    pub pools: &'a [u8],
    /// Ports where the packets arrived or will be sent.
    pub ports: &'a [u8],
    /// One bit each.
    pub flags: &'a [Flags],
}

/// The columns that may be changed, and the lengths. Each is as long as the number of packets.
#[derive(Debug)]
pub struct ViewMut<'a> {
    /// Nanoseconds; the lower 48 bits of each are kept.
    pub times: &'a mut [u64],
    /// Bytes of data, 0 to 1,048,575.
    pub lens: &'a [u32],
    /// Hashes of the flows.
    pub hashes: &'a mut [u16],
    /// Ports where the packets arrived or will be sent.
    pub ports: &'a mut [u8],
    /// One bit each.
    pub flags: &'a mut [Flags],
}

impl Columns {
    /// No packets, with room for this many.
    pub fn with_capacity(packets: usize) -> Columns {
        Columns {
            times: Vec::with_capacity(packets),
            lens: Vec::with_capacity(packets),
            slots: Vec::with_capacity(packets),
            hashes: Vec::with_capacity(packets),
            pools: Vec::with_capacity(packets),
            ports: Vec::with_capacity(packets),
            flags: Vec::with_capacity(packets),
        }
    }

    /// Adds a packet at the end.
    #[inline]
    pub fn push(&mut self, desc: Desc) {
        self.times.push(desc.time_ns());
        self.lens.push(desc.len());
        self.slots.push(desc.slot());
        self.hashes.push(desc.hash());
        self.pools.push(desc.pool());
        self.ports.push(desc.port());
        self.flags.push(desc.flags());
    }

    /// The description of the packet at `index`; `None` beyond the last one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Desc> {
        let facts = Facts {
            time_ns: *self.times.get(index)?,
            len: *self.lens.get(index)?,
            slot: *self.slots.get(index)?,
            pool: *self.pools.get(index)?,
            port: *self.ports.get(index)?,
            flags: *self.flags.get(index)?,
            hash: *self.hashes.get(index)?,
        };
        // Lengths and slots came from a description and cannot be changed, so they fit.
        Desc::new(&facts).ok()
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.lens.len()
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// Removes all packets, and keeps the memory.
    pub fn clear(&mut self) {
        self.times.clear();
        self.lens.clear();
        self.slots.clear();
        self.hashes.clear();
        self.pools.clear();
        self.ports.clear();
        self.flags.clear();
    }

    /// All columns, for reading.
    pub fn view(&self) -> View<'_> {
        View {
            times: &self.times,
            lens: &self.lens,
            slots: &self.slots,
            hashes: &self.hashes,
            pools: &self.pools,
            ports: &self.ports,
            flags: &self.flags,
        }
    }

    /// The columns that may be changed.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut {
            times: &mut self.times,
            lens: &self.lens,
            hashes: &mut self.hashes,
            ports: &mut self.ports,
            flags: &mut self.flags,
        }
    }
}

impl Extend<Desc> for Columns {
    fn extend<I: IntoIterator<Item = Desc>>(&mut self, descs: I) {
        descs.into_iter().for_each(|desc| self.push(desc));
    }
}

impl FromIterator<Desc> for Columns {
    fn from_iter<I: IntoIterator<Item = Desc>>(descs: I) -> Columns {
        let descs = descs.into_iter();
        let mut columns = Columns::with_capacity(descs.size_hint().0);
        columns.extend(descs);
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn desc() -> impl Strategy<Value = Desc> {
        let numbers = (any::<u64>(), 0..=Desc::MAX_LEN, 0..Desc::MAX_SLOTS);
        (numbers, any::<(u8, u8, u8, u16)>()).prop_map(
            |((time_ns, len, slot), (pool, port, flags, hash))| {
                let flags = Flags(flags);
                Desc::new(&Facts {
                    time_ns,
                    len,
                    slot,
                    pool,
                    port,
                    flags,
                    hash,
                })
                .unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn columns_return_the_descriptions_that_were_pushed(descs in prop::collection::vec(desc(), 0..40)) {
            let mut columns: Columns = descs.iter().copied().collect();
            let back: Vec<_> = (0..).map_while(|index| columns.get(index)).collect();
            prop_assert_eq!(&back, &descs);
            prop_assert_eq!((columns.len(), columns.is_empty()), (descs.len(), descs.is_empty()));
            columns.clear();
            prop_assert!(columns.is_empty() && columns.get(0).is_none());
        }

        #[test]
        fn columns_and_descriptions_are_set_alike(before in desc(), after in desc()) {
            let mut columns: Columns = [before].into_iter().collect();
            let set = columns.view_mut();
            set.times[0] = after.time_ns() | 0xabcd << 48;
            set.ports[0] = after.port();
            set.flags[0] = after.flags();
            set.hashes[0] = after.hash();
            let mut expected = before;
            expected.set_time(after.time_ns());
            expected.set_port(after.port());
            expected.set_flags(after.flags());
            expected.set_hash(after.hash());
            prop_assert_eq!(columns.get(0), Some(expected));
        }
    }
}
