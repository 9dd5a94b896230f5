//! Whatever an expression claims: see `filtering`.
#![cfg_attr(fuzzing, no_main)]

mod filtering;

forebay_fuzz::target!(filtering::check);
