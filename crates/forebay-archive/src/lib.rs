//! Finished captures in an object store, with an index as a Delta table, which DuckDB, Spark, Trino and others query in SQL, and which
//! leads back to the packets.
//!
//! ```text
//!  spool: finished files ─▶ segment: packed blocks ─▶ archive: objects        find ─▶ table ─▶ blocks ─▶ packets
//!                              └─▶ index: a row for each flow and block ─▶ table: Delta Lake
//! ```
//! This is the library of the command `forebay-archive`. [`segment`] and [`index`] are plain code without I/O to the network;
//! [`archive`] and [`table`] talk to the object store.
#![forbid(unsafe_code)]

pub mod announce;
pub mod archive;
pub mod clock;
pub mod compact;
pub mod expire;
pub mod find;
pub mod gather;
pub mod hold;
pub mod index;
pub mod ledger;
pub mod rebuild;
pub mod schema;
pub mod segment;
pub mod ship;
pub mod status;
pub mod table;
pub mod verify;
