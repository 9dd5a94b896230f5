//! Several sessions at once, each on its own thread with its own output, that count as one capture.

use super::{pin, spawn};
use crate::{
    port::ThreadCounts,
    session::{Control, Event, Progress, Session, Summary},
};
use forebay::{Error, Result};
use std::{
    panic::resume_unwind,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// A session that runs beside others.
pub struct Beside {
    /// The session, with its own output.
    pub session: Session,
    /// The handle with which it was opened; no other session has it.
    pub control: Control,
    /// The processor to which its thread is pinned.
    pub cpu: Option<u32>,
    /// The output's name, for [`ThreadCounts::file`].
    pub file: Option<String>,
}

/// An event of a session, on its way to the observer.
type Sent = Box<dyn FnOnce(&mut dyn FnMut(Event<'_>)) + Send>;

/// How long a request or an event may wait.
const TURN: Duration = Duration::from_millis(50);

/// Runs sessions at once, each on its own thread, until all have ended, and returns the sums of their counts. If one ends before its
/// sources do, all end.
///
/// Requests through `control` reach every session. `observe` runs on the calling thread; its [`Event::Progress`] carries the sums
/// of all sessions, too. The sessions read ports of one interface, such as those of
/// [`AfPacket::open_fanout`](crate::af_packet::AfPacket::open_fanout): the summary has one source, with an entry in
/// [`Source::threads`](crate::session::Source::threads) for each.
///
/// ```
/// use forebay::time::Clock;
/// use forebay_net::{port::Port, session::{SessionConfig, Control, Output, Session}, sim::{Sim, Spec}};
/// use forebay_net::threads::{Beside, run_each};
///
/// let clock = Clock::real();
/// let mut beside = Vec::new();
/// for card in Sim::members(Spec { count: Some(5000), ..Spec::default() }, &clock, 2) {
///     let (control, config) = (Control::new()?, SessionConfig::default());
///     let ports: Vec<Box<dyn Port>> = vec![Box::new(card)];
///     let session = Session::open(ports, Output::Count, config, clock.clone(), control.clone())?;
///     beside.push(Beside { session, control, cpu: None, file: None });
/// }
/// let summary = run_each(beside, &Control::new()?, &mut |_| {})?;
/// assert_eq!(summary.ledger.counted, 5000);
/// assert!(summary.is_fine());
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// There is no session, or no thread can be started and moved to its processor. If only some can, they end, and the error is in
/// [`Summary::port_error`].
///
/// # Panics
/// If a session does.
pub fn run_each(
    sessions: Vec<Beside>,
    control: &Control,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Summary> {
    let (sender, events) = channel();
    let latest = Arc::new(Mutex::new(vec![Progress::default(); sessions.len()]));
    let first = Arc::new(AtomicUsize::new(0));
    let mut running = Vec::new();
    let mut failed = None;
    let mut panicked = None;
    for (number, one) in sessions.into_iter().enumerate() {
        let observer = Observer {
            number,
            latest: latest.clone(),
            first: first.clone(),
            sender: sender.clone(),
        };
        let (session, cpu) = (one.session, one.cpu);
        let started = spawn(number, move || {
            pin(cpu)?;
            Ok(session.run(&mut |event| observer.observe(event)))
        });
        match started {
            Ok(thread) => running.push(Running {
                thread: Some(thread),
                control: one.control,
                cpu,
                file: one.file,
                summary: None,
            }),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    drop(sender);
    let mut requests = Requests::default();
    loop {
        requests.pass(control, &running);
        for event in events.try_iter() {
            event(observe);
        }
        for one in &mut running {
            match one.join() {
                Ok(error) => failed = failed.or(error),
                Err(panic) => panicked = Some(panic),
            }
        }
        let runs = running.iter().position(|one| one.thread.is_some());
        first.store(runs.unwrap_or(0), Relaxed);
        let has_stopped = |it: &Summary| !it.sources_ended || it.port_error.is_some();
        let has_ended_early = |one: &Running| one.summary.as_ref().is_some_and(has_stopped);
        if failed.is_some() || panicked.is_some() || running.iter().any(has_ended_early) {
            running.iter().for_each(|one| one.control.finish());
            control.finish();
        }
        if running.iter().all(|one| one.thread.is_none()) {
            break;
        }
        if let Err(error) = control.sleep(None, TURN) {
            failed = failed.or(Some(error));
        }
    }
    for event in events.try_iter() {
        event(observe);
    }
    if let Some(panic) = panicked {
        resume_unwind(panic);
    }
    running.retain(|one| one.summary.is_some());
    match failed {
        Some(error) if running.is_empty() => Err(error),
        // The others have counts, which must not be lost.
        error => sum(running).map(|mut summary| {
            summary.port_error = summary.port_error.or(error);
            summary
        }),
    }
}

struct Running {
    thread: Option<JoinHandle<Result<Summary>>>,
    control: Control,
    cpu: Option<u32>,
    file: Option<String>,
    summary: Option<Summary>,
}

impl Running {
    /// Joins the thread if it has ended, and returns the error with which it could not run, or its panic.
    fn join(&mut self) -> thread::Result<Option<Error>> {
        let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) else {
            return Ok(None);
        };
        Ok(match thread.join()? {
            Err(error) => Some(error),
            Ok(summary) => {
                self.summary = Some(summary);
                None
            }
        })
    }
}

/// Requests that were passed on to the sessions.
#[derive(Default)]
struct Requests {
    stops: u32,
}

impl Requests {
    fn pass(&mut self, control: &Control, running: &[Running]) {
        let stops = control.stops();
        let (rotate, flush) = (control.take_rotate(), control.take_flush());
        for one in running {
            // The first stop may also come from here, because one of them has ended; it must not count twice.
            if stops > 0 {
                one.control.finish();
            }
            for _ in self.stops.max(1)..stops {
                one.control.stop();
            }
            if rotate {
                one.control.rotate();
            }
            if flush {
                one.control.flush();
            }
        }
        self.stops = stops;
        // One report carries the sums of all.
        if control.take_report()
            && let Some(first) = running.iter().find(|one| one.thread.is_some())
        {
            first.control.report();
        }
    }
}

/// Passes the events of one session on.
struct Observer {
    number: usize,
    latest: Arc<Mutex<Vec<Progress>>>,
    /// The first session that still runs, whose progress and outages are passed on.
    first: Arc<AtomicUsize>,
    sender: Sender<Sent>,
}

impl Observer {
    fn observe(&self, event: Event<'_>) {
        // Relaxed: it orders nothing.
        let is_first = self.number == self.first.load(Relaxed);
        let event: Sent = match event {
            Event::Progress(progress) => {
                let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
                latest[self.number] = progress.clone();
                if !is_first {
                    return;
                }
                let mut sum = latest[0].clone();
                for one in &latest[1..] {
                    sum.add_thread(one);
                }
                drop(latest);
                Box::new(move |observe| observe(Event::Progress(&sum)))
            }
            Event::Outage { source, outages } if is_first => {
                let source = source.to_owned();
                Box::new(move |observe| {
                    observe(Event::Outage {
                        source: &source,
                        outages,
                    });
                })
            }
            Event::Behind(behind) => {
                let behind = behind.clone();
                Box::new(move |observe| observe(Event::Behind(&behind)))
            }
            Event::Finishing(totals) => {
                let totals = *totals;
                Box::new(move |observe| observe(Event::Finishing(&totals)))
            }
            Event::Compressing { files } => {
                Box::new(move |observe| observe(Event::Compressing { files }))
            }
            Event::Recovering => Box::new(|observe| observe(Event::Recovering)),
            Event::Recovered(recovered) => {
                let recovered = recovered.clone();
                Box::new(move |observe| observe(Event::Recovered(&recovered)))
            }
            Event::Finished { path } => {
                let path = path.to_owned();
                Box::new(move |observe| observe(Event::Finished { path: &path }))
            }
            // All ports have the same interface, and no recorder is beside others.
            Event::Outage { .. } | Event::Triggered => return,
        };
        // It fails only after a panic of the observer.
        let _ = self.sender.send(event);
    }
}

/// One summary of all, with a row for each.
fn sum(running: Vec<Running>) -> Result<Summary> {
    let mut rows = Vec::new();
    let mut all: Option<Summary> = None;
    for one in running {
        let Some(summary) = one.summary else { continue };
        let ledger = &summary.ledger;
        let refused = ledger.dropped.writer + ledger.dropped.disk;
        rows.push(ThreadCounts {
            cpu: one.cpu,
            received: ledger.received,
            taken: ledger.written + ledger.counted + refused,
            filtered: Some(ledger.filtered).filter(|_| !summary.filters_uncounted),
            unread: ledger.unread,
            dropped: ledger.dropped.in_sources(),
            file: one.file,
        });
        match &mut all {
            None => all = Some(summary),
            Some(all) => all.add_thread(summary),
        }
    }
    let mut all = all.ok_or_else(|| Error::invalid("threads", "there is no session to run"))?;
    all.sources.truncate(1);
    for source in &mut all.sources {
        source.threads = std::mem::take(&mut rows);
    }
    Ok(all)
}
