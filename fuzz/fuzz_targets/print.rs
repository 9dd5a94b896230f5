//! Whatever a packet holds: see `printing`.
#![cfg_attr(fuzzing, no_main)]

#[allow(dead_code)]
#[path = "../../crates/forebay-cli/src/print/mod.rs"]
mod print;
mod printing;

forebay_fuzz::target!(printing::check);
