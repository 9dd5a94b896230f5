//! The C interface: its header and layouts, and programs in C that use it. Without a C compiler, what needs one skips.

mod header;
mod installed;
mod programs;
mod support;
