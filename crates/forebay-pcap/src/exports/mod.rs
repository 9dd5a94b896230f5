//! The exported functions, by subject, in the order of `pcap/pcap.h`.

mod bpf;
mod device;
mod dump;
mod link;
mod name;
mod open;
mod read;
mod setting;
mod status;
