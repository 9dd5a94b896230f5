//! Reads one interface with several threads. Each thread has its own port, and the packets of all threads are merged by time.
//!
//! ```text
//!  port 0 ──▶ thread 0: filter, encode ──▶ batches ─┐ ring     the session's thread
//!  port 1 ──▶ thread 1: filter, encode ──▶ batches ─┴───▶ Merged: order ──▶ Session ──▶ file
//! ```
//! The threads receive, filter and encode packets. [`Merged`] is a [`Port`] that hands out these packets in order, so that a session
//! can read from it as from any port, and write them. The session's thread copies the encoded packets.
//!
//! - **Order.** A packet is handed out when no thread can deliver an earlier one any more. Each thread reports, with its packets or
//!   after a poll that found none, up to which time this is so.
//! - **Late packets.** A port may hold packets that cannot be read yet, for example in a block that the kernel still fills. The other
//!   threads' packets wait for them for up to a second, while the memory for waiting packets lasts ([`ThreadsConfig::hold_bytes`]). A
//!   packet that arrives after that is handed out when it arrives, out of order. It has the mark
//!   [`Marks::LATE`](crate::port::Marks::LATE) and a comment.
//! - **Accounting.** Each count is the sum over all ports. [`PortReport::threads`](crate::port::PortReport::threads) returns the counts of each thread.
//!
//! With [`run_each`], each thread writes its own file instead.

mod burst;
mod each;
mod member;
mod order;
#[cfg(test)]
mod tests;

pub use each::{Beside, run_each};

use crate::{
    filter::Filter,
    format::Format,
    ledger::{Ledger, add_thread},
    port::{Burst, Counts, Interface, Outages, Port, PortInfo, PortReport, ThreadCounts, Wake},
    session::{Control, Event, Output, Session, SessionConfig, Summary},
};
use burst::Bursting;
use forebay::{Error, Result, ring::spsc, sync::Signal, time::Clock};
use member::{BATCH_BYTES, Composer};
use order::{Lane, Merging};
use std::{
    os::fd::AsFd,
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Settings of several threads.
#[derive(Clone, Debug)]
pub struct ThreadsConfig {
    /// The processors to which the threads are pinned, one a thread; empty: none is pinned.
    pub cpus: Vec<u32>,
    /// The filter, for ports that do not filter for themselves.
    pub filter: Option<Filter>,
    /// Bytes kept of a packet, as in [`SessionConfig::snaplen`].
    pub snaplen: u32,
    /// Memory for the bytes of packets that wait for those of other threads, of all threads together. At least 64 batches of 64 KiB
    /// per thread are used, and 40 bytes for each packet besides. Default 256 MiB; allocated when it is needed.
    pub hold_bytes: usize,
}

impl Default for ThreadsConfig {
    fn default() -> Self {
        ThreadsConfig {
            cpus: Vec::new(),
            filter: None,
            snaplen: SessionConfig::default().snaplen,
            hold_bytes: 256 << 20,
        }
    }
}

impl ThreadsConfig {
    fn validate(&self, threads: usize) -> Result<()> {
        if self.cpus.is_empty() || self.cpus.len() == threads {
            return Ok(());
        }
        let what = format!("{} processors for {threads} threads", self.cpus.len());
        Err(Error::invalid("threads", what).advise("Name one for each thread"))
    }
}

/// Threads report their counts this often, and look whether they have packets.
const REPORT_EVERY: Duration = Duration::from_millis(20);
/// The fewest batches of a thread.
const MIN_BATCHES: usize = 64;

/// The counts of a thread, as it last reported them.
#[derive(Clone, Default)]
struct Report {
    /// The thread does nothing more.
    is_done: bool,
    ledger: Ledger,
    filters_uncounted: bool,
    ring_fill: Option<f64>,
    outages: Outages,
}

/// A thread, before and while it runs.
struct Member {
    cpu: Option<u32>,
    control: Control,
    waiting: Option<Session>,
    running: Option<JoinHandle<Result<Summary>>>,
    report: Arc<Mutex<Report>>,
}

impl Member {
    fn report(&self) -> Report {
        let report = self.report.lock();
        report.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts the thread, if that is not done.
    fn start(&mut self, number: usize, signal: &Arc<Signal>) -> Result<()> {
        let Some(session) = self.waiting.take() else {
            return Ok(());
        };
        let (cpu, report, signal) = (self.cpu, self.report.clone(), signal.clone());
        let run = move || {
            let _end = End(report.clone(), signal);
            pin(cpu)?;
            let publish = |change: &dyn Fn(&mut Report)| {
                change(&mut report.lock().unwrap_or_else(PoisonError::into_inner));
            };
            Ok(session.run(&mut |event| match event {
                Event::Progress(progress) => publish(&|report| {
                    report.ledger = progress.ledger;
                    report.filters_uncounted = progress.filters_uncounted;
                    report.ring_fill = progress.ring_fill;
                }),
                Event::Outage { outages, .. } => publish(&|report| report.outages = outages),
                _ => {}
            }))
        };
        self.running = Some(spawn(number, run)?);
        Ok(())
    }

    /// Joins a thread that has ended, and takes its last report. Returns its error.
    fn join(&mut self) -> Option<Error> {
        let is_done = self.report().is_done;
        match self.running.take_if(|_| is_done)?.join() {
            Err(panic) => resume_unwind(panic),
            Ok(Err(error)) => Some(error),
            Ok(Ok(summary)) => {
                let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
                report.ledger = summary.ledger;
                report.filters_uncounted = summary.filters_uncounted;
                report.ring_fill = None;
                if let Some(source) = summary.sources.first() {
                    report.outages = source.outages;
                }
                summary.port_error
            }
        }
    }
}

/// Reports the end of a thread, also after a panic.
struct End(Arc<Mutex<Report>>, Arc<Signal>);

impl Drop for End {
    fn drop(&mut self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_done = true;
        self.1.raise();
    }
}

/// Starts the thread with this number.
fn spawn<T: Send + 'static>(
    number: usize,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let named = thread::Builder::new().name(format!("receive {number}"));
    named
        .spawn(run)
        .map_err(|cause| Error::new("threads", "starting a thread").because(cause))
}

/// Moves this thread to a processor.
fn pin(cpu: Option<u32>) -> Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    let failed = Error::new("threads", format!("moving a thread to processor {cpu}"));
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(failed.advise("There is no such processor"));
    }
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(|cause| {
        failed
            .because(cause)
            .advise("nproc and taskset -p $$ show the processors that may be used")
    })
}

/// Ports of one interface that several threads read, as one port that hands out their packets in the order of time.
///
/// The threads start at the first [`receive`](Port::receive), so that they inherit what the process has given up by then.
///
/// ```
/// use forebay::time::Clock;
/// use forebay_net::{session::{SessionConfig, Control, Output, Session}, sim::{Sim, Spec}};
/// use forebay_net::{port::Port, threads::{Merged, ThreadsConfig}};
///
/// let clock = Clock::real();
/// let spec = Spec { count: Some(10_000), ..Spec::default() };
/// let cards = Sim::members(spec, &clock, 2).into_iter();
/// let cards = cards.map(|card| Box::new(card) as Box<dyn Port>).collect();
/// let merged = Merged::new(cards, &ThreadsConfig::default(), &clock)?;
/// let config = SessionConfig::default();
/// let session = Session::open(vec![Box::new(merged)], Output::Count, config, clock, Control::new()?)?;
/// let summary = session.run(&mut |_| {});
/// assert_eq!(summary.ledger.received, 10_000);
/// let threads = &summary.sources[0].threads;
/// assert_eq!(threads[0].received + threads[1].received, 10_000);
/// assert!(summary.is_fine());
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Merged {
    interfaces: [Interface; 1],
    info: PortInfo,
    members: Vec<Member>,
    lanes: Vec<Lane>,
    signal: Arc<Signal>,
    burst: Bursting,
    /// The number of waiting batches of a thread at which the others are no longer waited for.
    high: usize,
    /// The first error of a thread, until it is returned.
    error: Option<Error>,
}

impl Merged {
    /// Prepares a thread for each port. All ports have the same single interface, and their times the same clock.
    ///
    /// # Errors
    /// A port has several interfaces, such as `any`; the number of processors in `config` is not the number of ports; or memory for
    /// the rings between the threads is missing.
    pub fn new(ports: Vec<Box<dyn Port>>, config: &ThreadsConfig, clock: &Clock) -> Result<Self> {
        config.validate(ports.len())?;
        let Some(first) = ports.first() else {
            return Err(Error::invalid("threads", "there is no interface to read"));
        };
        let [interface] = first.interfaces() else {
            let what = "packets of several interfaces cannot be merged";
            return Err(Error::invalid(first.name(), what).advise("Capture from one interface"));
        };
        let (interface, one) = (interface.clone(), first.info());
        let all = ports.iter().map(|port| port.info());
        let info = PortInfo {
            copy: "encoded by several threads",
            ring_bytes: all.clone().map(|it| it.ring_bytes).sum(),
            ring_frames: all.clone().map(|it| it.ring_frames).sum(),
            filters: config.filter.is_some(),
            // It wakes its reader itself.
            clock: None,
            ..one.clone()
        };
        let signal = Arc::new(Signal::new()?);
        let batches = (config.hold_bytes / ports.len() / BATCH_BYTES).max(MIN_BATCHES);
        let (mut members, mut lanes) = (Vec::new(), Vec::new());
        for (number, port) in ports.into_iter().enumerate() {
            // Room for all batches and as many that carry only a time.
            let (full, theirs) = spsc::ring(2 * batches)?;
            let (returned, empty) = spsc::ring(batches)?;
            let composer = Composer {
                full,
                empty,
                signal: signal.clone(),
                clock: clock.clone(),
                has_system_time: one.has_system_time(),
                described: Format::Pcapng.describe(&interface, 0),
                snaplen: config.snaplen,
                max_batches: batches,
                batches: 0,
                batch: None,
                looked_ns: 0,
                last_ns: 0,
                safe_ns: 0,
                sent_ns: 0,
            };
            let counting = SessionConfig {
                snaplen: config.snaplen,
                filter: config.filter.clone(),
                progress_every: REPORT_EVERY,
                ..SessionConfig::default()
            };
            let control = Control::new()?;
            let session = Session::open(
                vec![port],
                Output::Count,
                counting,
                clock.clone(),
                control.clone(),
            )?;
            members.push(Member {
                cpu: config.cpus.get(number).copied(),
                control,
                waiting: Some(session.each_by(Box::new(composer))),
                running: None,
                report: Arc::default(),
            });
            lanes.push(Lane::new(theirs, returned));
        }
        Ok(Merged {
            interfaces: [interface],
            info,
            members,
            lanes,
            signal,
            burst: Bursting::default(),
            high: batches * 3 / 4,
            error: None,
        })
    }

    /// Starts all threads. If one cannot be started, all end, and the error is returned when they have.
    fn start(&mut self) {
        let mut members = self.members.iter_mut().enumerate();
        let started = members.try_for_each(|(number, member)| member.start(number, &self.signal));
        if let Err(error) = started {
            self.error.get_or_insert(error);
            self.end();
        }
    }

    /// Requests the end of all threads. Those that were never started stay so.
    fn end(&mut self) {
        for member in &mut self.members {
            member.waiting = None;
            member.control.finish();
        }
    }

    /// Takes what the threads have handed over, and notes those that have ended. If one fails, all end.
    fn collect(&mut self) {
        for (member, lane) in self.members.iter_mut().zip(&mut self.lanes) {
            let error = member.join();
            self.error = self.error.take().or(error);
            // Before its ring is emptied for the last time.
            lane.has_ended = member.waiting.is_none() && member.running.is_none();
        }
        Merging::collect(&mut self.lanes);
        if self.error.is_some() {
            self.members.iter().for_each(|it| it.control.finish());
        }
    }
}

impl Merged {
    /// The counts of each thread.
    fn threads(&self) -> Vec<ThreadCounts> {
        let each = self.members.iter().zip(&self.lanes);
        each.map(|(member, lane)| {
            let report = member.report();
            let ledger = report.ledger;
            let dropped = ledger.dropped.in_sources();
            // The last report may be older than the last packet.
            let known = lane.taken + ledger.filtered + ledger.unread + dropped.unwrap_or(0);
            ThreadCounts {
                cpu: member.cpu,
                received: ledger.received.max(known),
                taken: lane.taken,
                filtered: Some(ledger.filtered).filter(|_| !report.filters_uncounted),
                unread: ledger.unread,
                dropped,
                file: None,
            }
        })
        .collect()
    }
}

impl Port for Merged {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.start();
        if self.burst.is_done() {
            self.collect();
            (self.burst.merging).fill(&mut self.lanes, self.high, budget);
            self.burst.next = 0;
        }
        self.burst.end = self.burst.merging.packets.len();
        self.burst.end = self.burst.end.min(self.burst.next.saturating_add(budget));
        Ok(Burst::new(&mut self.burst))
    }

    fn arm(&mut self) -> Result<Wake<'_>> {
        self.start();
        self.signal.clear();
        self.collect();
        if !self.burst.is_done() || Merging::is_ready(&self.lanes, self.high) {
            return Ok(Wake::Ready);
        }
        if self.lanes.iter().all(|lane| lane.has_ended) {
            return match self.error.take() {
                Some(error) => Err(error),
                None => Ok(Wake::End),
            };
        }
        Ok(Wake::Fd(self.signal.as_fd()))
    }

    /// Requests the end of all threads; each detaches its port.
    fn stop(&mut self) -> Result<()> {
        // A capture that ends before its first poll also counts what has arrived.
        self.start();
        self.members.iter().for_each(|it| it.control.finish());
        Ok(())
    }

    fn counts(&mut self) -> Counts {
        let mut counts = Counts {
            dropped: Some(0),
            filtered: Some(0),
            ..Counts::default()
        };
        for thread in self.threads() {
            let one = Counts {
                received: thread.received,
                dropped: thread.dropped,
                filtered: thread.filtered,
                interface_dropped: None,
            };
            add_thread(&mut counts, &one);
        }
        // Each port reports the losses of the whole interface.
        let interface = |member: &Member| member.report().ledger.interface_dropped;
        let known: Option<Vec<_>> = self.members.iter().map(interface).collect();
        counts.interface_dropped = known.and_then(|known| known.into_iter().max());
        counts
    }

    fn report(&self) -> PortReport<'_> {
        let fills = self.members.iter().filter_map(|it| it.report().ring_fill);
        let outages = self.members.iter().map(|it| it.report().outages);
        PortReport {
            ring_fill: fills.reduce(f64::max),
            outages: outages
                .max_by_key(|it| (it.count, it.total))
                .unwrap_or_default(),
            threads: self.threads(),
            ..PortReport::default()
        }
    }

    fn info(&self) -> PortInfo {
        self.info.clone()
    }
}

impl Drop for Merged {
    fn drop(&mut self) {
        // With their other ends gone, threads count the rest of their packets without waiting.
        self.members.iter().for_each(|it| it.control.finish());
        self.lanes.clear();
        for running in self.members.iter_mut().filter_map(|it| it.running.take()) {
            // Its panic was its message already.
            let _ = running.join();
        }
    }
}
