//! Whatever a server sends: see `answering`.
#![cfg_attr(fuzzing, no_main)]

mod answering;

forebay_fuzz::target!(answering::check);
