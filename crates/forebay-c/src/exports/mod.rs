//! The exported functions. A file has one kind of object.

#![allow(dead_code)] // Numbers that only the header needs.

mod broadcast;
mod capture;
mod desc;
mod lanes;
mod pool;
mod queue;
mod receiver;
mod records;
mod ring;
mod sender;
mod shared;
mod status;
mod stream;
mod views;
mod watch;
mod writer;
