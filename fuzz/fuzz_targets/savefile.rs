//! Whatever a file claims, through libpcap's interface: see `reading`.
#![cfg_attr(fuzzing, no_main)]

mod reading;

use libpcap as _; // It exports what `reading` calls.

forebay_fuzz::target!(reading::check);
