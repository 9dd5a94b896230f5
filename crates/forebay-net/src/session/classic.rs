//! What the header of a classic file describes. It has one link type and one time unit for all packets.
//!
//! The first packet determines the link type, so interfaces of other types do no harm while none of their packets is kept.

use crate::{
    format::{Described, Format},
    port::{Interface, Resolution},
};
use forebay::{Error, Result};

#[derive(Default)]
pub(super) struct Classic {
    /// Times are in nanoseconds, whatever the sources have.
    nanoseconds: bool,
    /// The interfaces of the sources, by number.
    interfaces: Vec<Interface>,
    /// What the header describes, once it is written.
    header: Option<(Interface, Described)>,
    /// By number: packets of the interface were checked.
    admitted: Vec<bool>,
}

impl Classic {
    /// Without a header yet. `nanoseconds`: times are in nanoseconds, whatever the sources have.
    pub fn new(nanoseconds: bool) -> Self {
        Classic {
            nanoseconds,
            ..Classic::default()
        }
    }

    /// Adds an interface. Its packets may never arrive.
    pub fn introduce(&mut self, interface: &Interface) {
        self.interfaces.push(interface.clone());
        self.admitted.push(false);
    }

    /// Whether there are interfaces, all of the same link type.
    pub fn is_uniform(&self) -> bool {
        let first = self.interfaces.first();
        first.is_some_and(|first| self.interfaces.iter().all(|it| it.link == first.link))
    }

    /// The encoding of all packets, once the header is written.
    #[inline]
    pub fn described(&self) -> Option<Described> {
        self.header.as_ref().map(|(_, described)| *described)
    }

    /// Whether packets of this interface were checked.
    #[inline]
    pub fn admits(&self, number: u32) -> bool {
        self.admitted.get(number as usize) == Some(&true)
    }

    /// For a file that begins with a packet of this interface: the first interface of its link type, and the same with the finest
    /// resolution of all interfaces of that type. Without interfaces, these are defaults.
    pub fn decide(&self, number: u32) -> (Interface, Interface) {
        let Some(begins) = self.interfaces.get(number as usize) else {
            return Default::default();
        };
        let mut same = self.interfaces.iter().filter(|it| it.link == begins.link);
        let first = same.next().unwrap_or(begins);
        let mut decides = first.clone();
        for interface in same {
            if refuse_finer_times(&decides, interface).is_err() {
                decides.resolution = interface.resolution;
            }
            decides.snaplen = decides.snaplen.max(interface.snaplen);
            // If the interfaces come from different kinds of files, no file's header applies to all.
            let is_classic =
                |of: &Interface| of.in_file.as_ref().is_some_and(|it| it.classic.is_some());
            if is_classic(&decides) != is_classic(interface) {
                decides.in_file = None;
            }
        }
        if self.nanoseconds {
            decides.resolution = Resolution::NANOSECONDS;
        }
        (first.clone(), decides)
    }

    /// Records that the header is written.
    pub fn begin(&mut self, decides: Interface, described: Described) {
        self.header = Some((decides, described));
    }

    /// The interfaces whose link type the file does not have.
    pub fn left_out(&self) -> u64 {
        let header = self.header.as_ref().map(|(header, _)| header);
        let Some(header) = header.or(self.interfaces.first()) else {
            return 0;
        };
        let others = self.interfaces.iter().filter(|it| it.link != header.link);
        others.count() as u64
    }

    /// Admits packets of this interface.
    ///
    /// # Errors
    /// It differs in link type or, unless the file has `microseconds`, in resolution from what the header describes.
    pub fn admit(&mut self, number: u32, microseconds: bool) -> Result<()> {
        let interface = self.interfaces.get(number as usize);
        if let (Some((header, _)), Some(interface)) = (&self.header, interface) {
            refuse_other_link(header, interface)?;
            if !microseconds {
                refuse_finer_times(header, interface)?;
            }
            self.admitted[number as usize] = true;
        }
        Ok(())
    }
}

/// Checks that a classic file can hold packets of both.
///
/// # Errors
/// Their link types differ.
pub(super) fn refuse_other_link(first: &Interface, other: &Interface) -> Result<()> {
    let named = |it: &Interface| match it.name.as_str() {
        "" => it.link.to_string(),
        name => format!("{} of {name}", it.link),
    };
    refuse_unless(first.link == other.link, || {
        let (first, other) = (named(first), named(other));
        format!("{first}, {other}: a .pcap file cannot hold packets of different link types")
    })
}

fn refuse_finer_times(first: &Interface, other: &Interface) -> Result<()> {
    let [one, two] = [first, other].map(|interface| Format::Pcap.describe(interface, 0));
    refuse_unless(!two.is_finer_than(one), || {
        "a .pcap file that began with microseconds cannot hold nanoseconds".into()
    })
}

fn refuse_unless(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::invalid("", what()).advise("Name it .pcapng"))
}
