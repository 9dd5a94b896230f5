//! The C interface: its header and layouts, and programs in C that use it. Without a C compiler, what needs one skips.

#![cfg(not(loom))]

mod header;
mod installed;
mod lanes;
mod languages;
mod peers;
mod programs;
mod support;
