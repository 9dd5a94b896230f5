//! Counts which [generated](crate::generate) frames were lost, duplicated, reordered or corrupted. Each of these frames has a
//! [label](crate::label) with the number of its sender and its own number.
//!
//! ```text
//!  frame ─▶ label::find ─┬─ foreign, corrupted, cut: counted
//!                        └─ whole ─▶ its sender ─▶ window of the last numbers ─▶ received, duplicate, reordered, late
//!  frames = received + duplicates + late + markers + corrupted + cut + foreign + outbound + untracked
//! ```
//! - *Lost* (RFC 7680): an expected number that did not arrive. If the sender's begin marker arrived, numbers are expected from 0. The
//!   end markers of the sender report how many numbers to expect. If no end marker arrived, the highest number that arrived is
//!   the last one expected, so frames that were lost after it are not counted.
//! - *Duplicate* (RFC 5560): a number that has arrived before.
//! - *Reordered* (RFC 4737): a number that is lower than one that arrived earlier, by up to [`VerifyConfig::window`].
//! - *Late*: a number that is lower than that. It is not known any more whether this number has arrived before, so a late frame does
//!   not count as received, and its number stays lost.
//! - *Corrupted*: a frame that has a label, but also an error: in the label, in the IPv4 or UDP checksum, or in a length; or whose number
//!   is further ahead than any sender could have come since its last frame. Its number is not trusted, so the original frame counts as
//!   lost, too.
//! - Not checked are frames without a label (*foreign*), frames that the capture cut before the end of the label (*cut*), frames that
//!   this machine sent (*outbound*), and frames of senders beyond the largest number of senders (*untracked*).
//!
//! Memory is bounded by [`VerifyConfig::senders`], and by one bit for each number of the window of each sender. Labels are not signed:
//! anyone who can send frames to the interface can send labels, too.

mod sender;
#[cfg(test)]
mod tests;
mod window;

pub use sender::{FlowReport, SenderReport};

use crate::{
    label::{Found, Label, find},
    ledger::{Violation, balanced},
    port::{Direction, Frame, Interface},
};
use sender::{Key, Sender};

/// Numbers in the windows of all senders together, one bit each. Anyone can send labels with further sender numbers.
const MAX_BITS: u64 = 512 << 23;

/// The highest number of a frame. At a frame in each nanosecond, a sender needs 208 days to reach it.
const MAX_NUMBER: u64 = 1 << 54;

/// Settings of a [`Verifier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyConfig {
    /// How far below the highest number a number is still recognized as reordered or duplicate: 64 to 2³⁰ numbers, rounded up to a
    /// power of two. Each sender takes one bit for each. Above 2²⁴, fewer senders are tracked, so that all together take at most 512 MiB.
    pub window: u64,
    /// The largest number of senders that are tracked, 1 or more. Equal sender numbers at different interfaces are different
    /// senders.
    pub senders: usize,
    /// Also verify frames that this machine sent. A file may be a capture made at the sender.
    pub outbound: bool,
}

impl Default for VerifyConfig {
    /// 65,536 numbers, 256 senders, and no outbound frames.
    fn default() -> Self {
        VerifyConfig {
            window: 1 << 16,
            senders: 256,
            outbound: false,
        }
    }
}

/// Counts of all frames that a [`Verifier`] has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// All frames.
    pub frames: u64,
    /// Frames without a label.
    pub foreign: u64,
    /// Frames with a label, and something wrong: the label, a checksum or a length.
    pub corrupted: u64,
    /// Frames that may have a label, but were cut before its end by the capture.
    pub cut: u64,
    /// Frames that this machine sent, if these are not verified.
    pub outbound: u64,
    /// Frames of senders that were not tracked, because there were too many.
    pub untracked: u64,
    /// Each sender, by interface and number.
    pub senders: Vec<SenderReport>,
}

impl VerifyReport {
    fn sum(&self, of: impl Fn(&SenderReport) -> u64) -> u64 {
        // It is exact, unless a thousand hostile senders lose as much as they can. `check` notices that.
        self.senders.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Frames received once, of all senders.
    pub fn received(&self) -> u64 {
        self.sum(|it| it.received)
    }

    /// Numbers lost, of all senders.
    pub fn lost(&self) -> u64 {
        self.sum(|it| it.lost)
    }

    /// Duplicate frames, of all senders.
    pub fn duplicates(&self) -> u64 {
        self.sum(|it| it.duplicates)
    }

    /// Reordered frames, of all senders.
    pub fn reordered(&self) -> u64 {
        self.sum(|it| it.reordered)
    }

    /// Late frames, of all senders.
    pub fn late(&self) -> u64 {
        self.sum(|it| it.late)
    }

    /// Begin and end markers, of all senders.
    pub fn markers(&self) -> u64 {
        self.sum(|it| it.markers)
    }

    /// Whether there was a sender, no frame of a sender is known to be lost, and nothing was corrupted, cut or untracked. Duplicates
    /// and reordered frames are no losses. Frames that a sender sent after the last one that arrived are unknown until its end
    /// marker arrives.
    pub fn is_lossless(&self) -> bool {
        let has_senders = !self.senders.is_empty();
        has_senders && [self.lost(), self.corrupted, self.cut, self.untracked] == [0; 4]
    }

    /// Checks that every frame is in one column.
    ///
    /// # Errors
    /// [`Violation`] if the columns do not add up to `frames`, or the numbers received and lost of a sender or of all to those expected.
    pub fn check(&self) -> Result<(), Violation> {
        for one in &self.senders {
            balanced(one.expected, one.received.saturating_add(one.lost))?;
        }
        let expected: i128 = self.senders.iter().map(|it| i128::from(it.expected)).sum();
        let missing = expected - i128::from(self.received()) - i128::from(self.lost());
        if missing != 0 {
            let missing = missing.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            return Err(Violation { missing });
        }
        let of_senders = self.received() + self.duplicates() + self.late() + self.markers();
        let others = self.foreign + self.corrupted + self.cut + self.outbound + self.untracked;
        balanced(self.frames, of_senders + others)
    }
}

/// Verifies frames, one after another.
///
/// ```
/// use forebay_net::{open, port::Wake, verify::Verifier};
///
/// // The card takes nothing for half of the time, and its ring holds 64 frames.
/// let names = ["sim:clock=virtual,count=10000,ring=64,host=none,stall=50us@100us".parse()?];
/// let clock = open::clock(&names)?;
/// let mut port = open::ports(&names, &Default::default(), &clock)?.remove(0);
/// let interface = port.interfaces()[0].clone();
/// let mut verifier = Verifier::new(Default::default());
/// loop {
///     let mut burst = port.receive(64)?;
///     while let Some(frame) = burst.next_frame() {
///         verifier.see(&frame, &interface);
///     }
///     drop(burst);
///     match port.arm()? {
///         Wake::At(then) => clock.sleep_until(then),
///         Wake::End => break,
///         _ => {}
///     }
/// }
/// let report = verifier.report();
/// assert_eq!(report.check(), Ok(()));
/// assert_eq!(report.received(), port.counts().received - port.counts().dropped.unwrap());
/// assert!(report.lost() > 1000 && report.senders[0].sent.is_none());
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Verifier {
    config: VerifyConfig,
    /// In order of their keys.
    senders: Vec<Sender>,
    /// The one of the last frame.
    last: usize,
    counts: VerifyReport,
}

impl Verifier {
    /// A verifier that has seen nothing.
    pub fn new(mut config: VerifyConfig) -> Self {
        config.window = config.window.clamp(64, 1 << 30);
        let most = MAX_BITS / config.window.next_power_of_two();
        config.senders = config.senders.min(most as usize);
        Verifier {
            config,
            senders: Vec::new(),
            last: 0,
            counts: VerifyReport::default(),
        }
    }

    /// Counts a frame that arrived at `interface`.
    #[inline]
    pub fn see(&mut self, frame: &Frame<'_>, interface: &Interface) {
        self.counts.frames += 1;
        if frame.direction == Direction::Outbound && !self.config.outbound {
            self.counts.outbound += 1;
            return;
        }
        match find(frame, interface.link) {
            Found::Foreign => self.counts.foreign += 1,
            Found::Corrupted => self.counts.corrupted += 1,
            Found::Cut => self.counts.cut += 1,
            Found::Whole(label) if label.sequence > MAX_NUMBER => self.counts.corrupted += 1,
            Found::Whole(label) => match self.sender(&label, frame.interface, &interface.name) {
                Some(sender) => {
                    let is_possible = sender.see(&label, frame.time_ns);
                    self.counts.corrupted += u64::from(!is_possible);
                }
                None => self.counts.untracked += 1,
            },
        }
    }

    /// The sender of a frame, which is usually that of the frame before.
    #[inline]
    fn sender(&mut self, label: &Label, interface: u32, name: &str) -> Option<&mut Sender> {
        let is_it = |sender: &Sender| {
            let key = &sender.key;
            (key.sender, key.log_flows, key.interface) == (label.sender, label.log_flows, interface)
                && *key.name == *name
        };
        if !self.senders.get(self.last).is_some_and(is_it) {
            self.last = self.find(label, interface, name)?;
        }
        self.senders.get_mut(self.last)
    }

    /// The place of a sender. A new one gets a place, if there is room.
    #[cold]
    fn find(&mut self, label: &Label, interface: u32, name: &str) -> Option<usize> {
        let wanted = (name, interface, label.sender, label.log_flows);
        let found = self.senders.binary_search_by(|sender| {
            let key = &sender.key;
            let its = (&*key.name, key.interface, key.sender, key.log_flows);
            its.cmp(&wanted)
        });
        match found {
            Err(_) if self.senders.len() >= self.config.senders => None,
            Err(at) => {
                let key = Key {
                    sender: label.sender,
                    log_flows: label.log_flows,
                    interface,
                    name: name.into(),
                };
                self.senders
                    .insert(at, Sender::new(key, self.config.window));
                Some(at)
            }
            Ok(at) => Some(at),
        }
    }

    /// Whether there is a sender, and every sender's end marker has arrived.
    pub fn has_ended(&self) -> bool {
        !self.senders.is_empty() && self.senders.iter().all(Sender::has_ended)
    }

    /// Whether every sender has ended, and all of its frames have arrived.
    pub fn is_complete(&self) -> bool {
        self.has_ended() && self.senders.iter().all(Sender::is_complete)
    }

    /// Frames with a label, of all senders.
    pub fn labelled(&self) -> u64 {
        self.senders.iter().map(Sender::frames).sum()
    }

    /// The counts so far. Numbers that are still under way count as lost.
    pub fn report(&self) -> VerifyReport {
        VerifyReport {
            senders: self.senders.iter().map(Sender::report).collect(),
            ..self.counts.clone()
        }
    }
}
