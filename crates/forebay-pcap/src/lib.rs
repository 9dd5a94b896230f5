//! libpcap's C interface over Forebay's ports, files and filters, as a shared library.
//!
//! ```text
//!  a program ──▶ exports/ ──▶ handle ──▶ savefile ──▶ forebay_net::format
//!                (C types)       │  └───▶ live ─────▶ forebay_net::open
//!                                └──────▶ filter ───▶ forebay_net::filter
//! ```
//! The library lives in a foreign process. It prints nothing, and installs no signal handler. It starts a thread only when a program asks for
//! the descriptor of a device that needs one (`watcher`), and for a moment to close a share, each without signals. A panic does not cross an exported function: the function then returns its documented
//! error. `border` and `stdio` have what needs `unsafe`; files in `exports` have the attribute that exports a name, and little else.

mod abi;
mod border;
mod cooked;
mod counts;
mod device_name;
mod devices;
mod dumper;
mod exports;
mod failure;
mod filling;
mod filter;
mod handle;
mod intake;
mod linktypes;
mod live;
mod lock;
mod opened;
mod packed;
mod registry;
mod savefile;
mod selectable;
mod sending;
mod settings;
mod stdio;
mod timestamps;
mod waiting;
mod watcher;
