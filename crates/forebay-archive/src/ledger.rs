//! The account of a sensor: which segments it has shipped, kept apart from the segments and from the index.
//!
//! ```text
//!  sensors/S/shipped/DATE/0000.json   up to 100 segments of that date; the newest page is written again for each segment
//!  sensors/S/expired/DATE/HASH.json   segments of that date that `expire` has removed, or is removing; never changed
//!  sensors/S/days/DATE/HASH.json      the pages of a day, merged
//!  sensors/S/days/DATE.json           the sums of a day whose segments have all expired
//!  sensors/S/days/summary             what the objects of each day add up to; any program may write it again
//!  sensors/S/vanished/DATE/HASH.json  segments that are gone, and whose loss was accepted
//!  sensors/S/dropped-NAME.json        a file that left the spool before it was shipped
//!  sensors/S/dropped/DATE/HASH.json   those whose records were stored on that date
//!  sensors/S/expired-SHA256.json, vanished-SHA256.json    one segment, as earlier versions wrote it
//! ```
//! `ship` adds a segment after it was read back, and before its rows are committed or announced, and before its file leaves the spool. So a
//! segment that vanishes afterwards, with its rows or before it had any, is still in the account. Nothing else writes these pages; [`roll_up`]
//! merges them when their day has ended.

mod account;
mod expired;
mod key;
mod missing;
mod page;
mod read;
mod roll;
mod summary;
mod sums;
mod turn;

pub(crate) use account::Ledger;
pub(crate) use expired::forget;
pub use expired::{Expired, dates_with_expired, expired, has_expired, record};
pub use key::{id, sensor_of};
pub use missing::{Missing, accept, missing};
pub use page::Entry;
pub use read::Records;
pub use roll::{RolledUp, plan_roll_up, roll_up};
pub use summary::DaySummary;
pub use sums::{Sum, Sums};
pub use turn::{Change, Turn};
