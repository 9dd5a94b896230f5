//! Whatever a file in pcap claims: see `decoding`.
#![cfg_attr(fuzzing, no_main)]

mod decoding;

forebay_fuzz::target!(decoding::check);
