//! Whatever a record file holds: see `recovering`.
#![cfg_attr(fuzzing, no_main)]

mod recovering;

forebay_fuzz::target!(recovering::check);
