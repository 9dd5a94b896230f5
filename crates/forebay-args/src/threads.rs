//! The flags of `capture` about several threads.

use super::values::Parsed;
use clap::Args as ClapArgs;
use forebay_net::port::Fanout;

#[derive(ClapArgs)]
#[command(next_help_heading = "Several threads")]
pub struct Threads {
    /// Receive with N threads, 1 to 64, each with its own receive ring of the size -B. The packets of all threads are written
    /// in the order of their time stamps. If the kernel delivers a packet so
    /// late that packets with later time stamps are already written, it is written out of order; in a pcapng file, a comment marks it
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,

    /// How the kernel chooses a thread for each packet: hash (by flow), lb (the first packet to the first thread, the next one to the next thread), cpu (by the processor
    /// that received the packet), qm (by the receive queue of the interface), rollover (one thread until its ring is nearly
    /// full, then the next) [default: hash]
    #[arg(long, value_name = "MODE", requires = "threads", value_parser = fanout)]
    pub fanout: Option<Fanout>,

    /// Processors on which the threads run, one for each thread; for example 2,3 (two threads) or 4-7 (four threads)
    #[arg(long, value_name = "LIST", requires = "threads", value_parser = cpus)]
    pub cpus: Option<Cpus>,

    /// Write one file for each thread (NAME-0.pcapng, NAME-1.pcapng, …) instead of a single file
    #[arg(long, requires = "threads")]
    pub per_thread: bool,
}

/// The value of `--cpus`.
#[derive(Clone, Debug)]
pub struct Cpus(pub Vec<u32>);

fn threads(text: &str) -> Parsed<usize> {
    match text.parse() {
        Ok(threads @ 1..=64) => Ok(threads),
        _ => Err(format!("'{text}' is not a number of threads. Use 1 to 64")),
    }
}

fn fanout(text: &str) -> Parsed<Fanout> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a mode. Use hash, lb, cpu, qm or rollover"))
}

/// `0,2-3`. Numbers up to 1023, as many as a set of processors has.
fn cpus(text: &str) -> Parsed<Cpus> {
    let number = |text: &str| text.parse().ok().filter(|&cpu: &u32| cpu < 1024);
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(part).map(|cpu| cpu..=cpu),
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    let cpus: Vec<_> = ranges.into_iter().flatten().flatten().collect();
    match cpus.is_empty() {
        true => Err(format!(
            "'{text}' is not a list of processors. Use a value such as 2,3 or 4-7"
        )),
        false => Ok(Cpus(cpus)),
    }
}
