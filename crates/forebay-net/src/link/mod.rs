//! Lists the network interfaces, and queries their drivers. It does not change any setting.
//!
//! - The kernel reports names, states, hardware and drop counters over netlink (`RTM_GETLINK`, `man 7 rtnetlink`), without a
//!   privilege. The list is that of the network namespace of this process. (The list in `/sys/class/net` may be that of another
//!   namespace, the one in which `/sys` was mounted.)
//! - The driver of an interface reports queues, speed, offloads, time stamps and support for XDP (`SIOCETHTOOL`, [`Device`]).
//!
//! ```
//! for link in forebay_net::link::interfaces()? {
//!     println!("{}. {} [{}]", link.index, link.name, if link.is_up() { "up" } else { "down" });
//! }
//! # Ok::<(), forebay::Error>(())
//! ```

mod addresses;
mod device;
mod interface;
mod netdev;
mod netlink;

pub(crate) use device::shell_word;
pub use device::{Device, Offload, Queues, RingSizes, Setting, Stamps};
pub use interface::Link;
pub use netdev::XdpSupport;
pub(crate) use netlink::Netlink;

use forebay::Result;

/// Returns all interfaces of this network namespace, in the kernel's order.
///
/// # Errors
/// A netlink request failed.
pub fn interfaces() -> Result<Vec<Link>> {
    Netlink::open()?.links()
}
