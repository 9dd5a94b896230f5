//! Tests of the subcommands, a file for each, and of what several of them share. They are one program, since each further program would compile
//! and link the helpers again. `cargo test -p forebay-cli --test commands get::` runs those of `get.rs`.

#[path = "../support/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

mod capture;
mod completion;
mod compressed;
mod escapes;
mod extcap;
mod flows;
mod get;
mod get_output;
mod get_resume;
mod get_tls;
mod habits;
mod info;
mod long_run;
mod operate;
mod pages;
mod pipe;
mod print;
mod queue;
mod read;
mod records;
mod repair;
mod rotation;
mod sandbox;
mod screens;
mod service;
mod share;
mod ssh;
mod verify;
mod wire;
mod with;
