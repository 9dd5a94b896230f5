//! What a port reads: sockets that take frames, or a ring buffer with copies of them.

use super::super::socket::Losses;
use crate::port::{Frames, PortInfo};
use std::fmt::Debug;

/// The part of a port that a burst borrows.
pub(super) trait Source: Frames + Debug + Send {
    /// Begins a burst of up to `budget` frames. Returns whether there is a frame, or soon will be.
    fn look(&mut self, budget: usize) -> bool;

    /// Calls the kernel if it waits for that.
    fn kick(&mut self) {}

    /// Has the kernel wake the reader for the next frame. A look follows before it sleeps. Otherwise returns the time of the port's clock at
    /// which the source is to be polled again.
    fn before_sleep(&mut self) -> Option<u64> {
        None
    }

    /// Nothing arrives any more.
    fn stop(&mut self) {}

    /// What is wrong with the kernel's side, if something is. Reports it once.
    fn take_damage(&mut self) -> Option<String>;

    /// Reads what was lost. What the kernel does not report now stays as it was.
    fn read_losses(&mut self);

    /// What was lost, as read last.
    fn losses(&self) -> Losses;

    /// Frames that have arrived, without lost ones. Those that are still to be read may count only after `stop`.
    fn arrived(&self) -> u64;

    /// The share of the ring that is filled now.
    fn fill_level(&self) -> Option<f64>;

    /// The backend, the size of its rings, and its time stamps.
    fn info(&self) -> PortInfo;
}
