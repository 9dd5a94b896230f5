//! Packets of another machine: a capture runs there, started with ssh, and its output is read here.
//!
//! ```text
//!  another machine                                              here
//!  forebay capture -i eth0 -w - ──▶ sshd ── encrypted ──▶ ssh ──▶ pipe ──▶ File ──▶ Burst
//!          ▲ ends when its input does ◀──────────────────────────── input, open until the port is stopped
//! ```
//! The capture there has the filter and the length of packets that are asked for here, and leaves out the packets of the
//! connection to it. What it loses, it records in its file: the port counts that as lost.
//!
//! Nothing that a user typed is a flag of ssh or a word of the other machine's shell: [`Target`] refuses what could be, and `command`
//! quotes the rest.

mod command;
mod port;
mod target;

pub use command::Asked;
pub use port::{Connection, Remote};
pub use target::{Program, Target};
