//! Programs that were built for Debian's libpcap run on this library, unchanged, and see the same.

mod dumps;
mod engines;
mod filters;
mod fuzzed;
mod live;
mod misuse;
mod names;
mod offline;
mod process;
mod programs;
mod shares;
mod support;
mod tools;
mod waits;

// Linked, so that cargo builds the library before it runs the tests.
use pcap as _;
