//! The C interface of Forebay's buffers, as a shared and a static library: `include/forebay.h`.
//!
//! ```text
//!  a program ──▶ exports/ ──▶ handles ──▶ gate          which object a pointer names, and whether a call may use it
//!                   │ └─────▶ border, failure           what crosses the border; panics and errors stop there
//!                   └───────▶ forebay                   the buffers
//! ```
//! The library lives in a foreign process. It prints nothing and installs no signal handler. `exports` has the attribute that exports a
//! name; what needs more `unsafe` is in `border` and `handles`.
#![allow(missing_docs)] // The documentation of the interface is in the header, which has the comments of `exports`.

#[cfg(not(loom))]
mod border;
#[cfg(not(loom))]
mod ends;
#[cfg(not(loom))]
mod exports;
#[cfg(not(loom))]
mod failure;
mod gate;
#[cfg(not(loom))]
mod handles;
