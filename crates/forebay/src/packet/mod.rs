//! Packets by description: [`Desc`], 16 bytes that say what is looked at for every packet, and other [`layouts`].
//!
//! Plain data and arithmetic; it imports the error only. Read [`Desc`] first, then [`layouts`].
//!
//! ```text
//!  word 0 │ flags 8 │ port 8 │                time 48 │
//!  word 1 │ hash 16 │ pool 8 │ slot 20 │    length 20 │
//! ```

mod desc;
pub mod layouts;
mod unfit;
pub use desc::{Desc, Facts, Flags};
pub use unfit::{Bound, Unfit};
