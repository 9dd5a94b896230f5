//! Runs a whole capture with one call: ports → poller → format → store → summary.
//!
//! ```text
//!  run:  ┌─▶ poll the ports ─▶ take frames from each port's burst, encode them in a buffer of the store ─┐
//!        └── flush, report or stop, if it is time for that ◀─────────────────────────────────────────────┘
//!  then: stop the ports ─▶ take the frames that they still hold ─▶ counts ─▶ trailer ─▶ close ─▶ accounting check
//! ```
//!
//! One thread does everything except writing the file. It takes a packet from the memory of its source ([`crate::port`]), encodes it
//! ([`crate::format`]) into a buffer of the store ([`forebay::store`]), and counts it ([`crate::ledger`]).

mod classic;
mod compress;
mod config;
mod counts;
mod disk_space;
#[cfg(test)]
mod each_tests;
mod feed;
mod intake;
mod metadata;
mod order;
#[cfg(test)]
mod order_tests;
mod output;
mod output_index;
mod output_reader;
mod packet_times;
mod paths;
mod reports;
mod retention;
mod rotation;
mod rotator;
mod sleeper;
mod stages;
mod summary;
mod taking;
#[cfg(test)]
pub(crate) mod tests;
mod watch;

pub use crate::control::Control;
pub use compress::{Compression, FrameEncoder};
pub use config::SessionConfig;
pub use disk_space::KeepFree;
pub(crate) use order::{IN_FLIGHT_NS, WINDOW_NS};
pub use output::Output;
pub use reports::{Compressed, Files, Recovered};
pub(crate) use rotation::numbered_names;
pub use rotation::{Names, Rotation};
pub(crate) use stages::Each;
pub use summary::{Behind, Event, Progress, Source, Summary};

use crate::{
    filter::Filter,
    format::Format,
    port::{Frame, Interface, Left, Port},
    share::Publisher,
};
use feed::Feed;
use forebay::{
    Error, Result,
    poll::Poller,
    store::{self, Closing},
    time::Clock,
};
use intake::{Broken, Discard, Intake};
use output::Writing;
use reports::Reports;
use std::time::Duration;
use watch::Watch;

/// A capture that is ready to run: ports are open, the output exists, the header is composed.
///
/// ```
/// use forebay::time::Clock;
/// use forebay_net::{session::{SessionConfig, Control, Output, Session}, sim::{Sim, Spec}};
///
/// let clock = Clock::virtual_time();
/// let sim = Sim::new(Spec::default(), clock.clone());
/// let config = SessionConfig { count: Some(10_000), ..SessionConfig::default() };
/// let session = Session::open(vec![Box::new(sim)], Output::Count, config, clock, Control::new()?)?;
/// let summary = session.run(&mut |_| {});
/// assert_eq!(summary.ledger.counted, 10_000);
/// assert!(summary.is_fine());
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Session {
    intake: Intake,
    config: SessionConfig,
    clock: Clock,
    control: Control,
    output: String,
    warning: Option<String>,
}

impl Session {
    /// Creates the output and composes its header. The ports are already open, so privileges may have been dropped.
    ///
    /// # Errors
    /// The configuration is out of range, the filter is not valid for the link type of any interface, a port was made with another
    /// clock, or the output cannot be created.
    pub fn open(
        ports: Vec<Box<dyn Port>>,
        output: Output,
        config: SessionConfig,
        clock: Clock,
        control: Control,
    ) -> Result<Self> {
        Session::open_with(ports, output, config, (clock, control), None)
    }

    /// As [`open`](Session::open), and publishes every packet to the readers of a share: beside writing it, or instead if the output is
    /// [`Output::Count`].
    ///
    /// The packets are those that pass the filter, with at most [`SessionConfig::snaplen`] bytes, and only those that the closure
    /// of [`each`](Session::each) takes, if there is one. Publishing never waits for readers. [`run`](Session::run) ends the share
    /// after the last packet, before it waits for the output to be written; if packets are shared in buffers, after the end of the file is
    /// composed. [`Publisher`] has examples.
    ///
    /// # Errors
    /// Those of [`open`](Session::open). If the publisher shares packets [in buffers](Publisher::in_buffers): the output is not pcapng, the
    /// packets are read from files, or its buffers were made for other settings.
    pub fn open_shared(
        ports: Vec<Box<dyn Port>>,
        output: Output,
        config: SessionConfig,
        clock: Clock,
        control: Control,
        publisher: Publisher,
    ) -> Result<Self> {
        Session::open_with(ports, output, config, (clock, control), Some(publisher))
    }

    fn open_with(
        ports: Vec<Box<dyn Port>>,
        output: Output,
        mut config: SessionConfig,
        (clock, control): (Clock, Control),
        mut publisher: Option<Publisher>,
    ) -> Result<Self> {
        config.validate()?;
        config.store.thread &= !clock.is_virtual();
        config.store.abandon = control.abandon();
        let filter = config.filter.as_ref();
        let feeds = ports.into_iter().map(|port| Feed::new(port, filter));
        let mut feeds: Vec<_> = feeds.collect();
        for feed in &feeds {
            feed.port.info().runs_on(&clock, feed.port.name())?;
        }
        let warning = filter.map_or(Ok(None), |filter| check(filter, &feeds))?;
        if let Output::Series(rotation) = &output {
            rotation.validate()?;
        }
        let name = output.name();
        if output.format(&config) == Format::Pcap {
            refuse_other_links(&feeds).map_err(|error| error.about(&name))?;
        }
        let only_reads = feeds.iter().all(|feed| feed.in_turn);
        let (begins_ns, blocks) = match (&output, feeds.first_mut()) {
            (Output::Series(_), Some(first)) if only_reads => {
                first.look_ahead().unwrap_or_else(|error| {
                    // Reported with the counts.
                    first.unreadable = Some(error);
                    Default::default()
                })
            }
            _ => Default::default(),
        };
        let interfaces: Vec<_> = feeds.iter().flat_map(|f| f.port.interfaces()).collect();
        let reads_ahead = feeds.iter().all(|feed| feed.port.info().reads_ahead);
        let writing = Writing::open(
            output,
            &interfaces,
            &config,
            &clock,
            (only_reads, reads_ahead, begins_ns),
            publisher.as_mut().and_then(Publisher::take_buffers),
        )?;
        let mut intake = Intake::new(feeds, writing, &config, clock.clone(), control.clone());
        if let Some(publisher) = publisher {
            intake.share(publisher);
        }
        if intake.is_all_there() {
            // The times of the packets decide, and none comes late.
            config.stop_after = None;
        }
        intake.introduce_all()?;
        if let Some(writing) = &mut intake.writing {
            writing.begin_classic()?;
            writing.metadata.blocks.extend(blocks);
        }
        Ok(Session {
            intake,
            config,
            clock,
            control,
            output: name,
            warning,
        })
    }

    /// A permitted but doubtful setting: a filter that no packet can match.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The properties of each port, without counts, and of the store if there is an output.
    pub fn info(&self) -> (Vec<Source>, Option<store::StoreInfo>) {
        (self.intake.sources(), self.intake.store_info())
    }

    /// Shows every packet to `each`: beside writing it, or instead if the output is [`Output::Count`].
    ///
    /// `each` runs on the thread of the session, for each packet that passed the filter, in order. It gets the packet where it
    /// lies, with at most [`SessionConfig::snaplen`] bytes, and the interface that received it. It returns whether it took the
    /// packet:
    ///
    /// - `true`: the packet counts as taken, and is written if there is an output.
    /// - `false`: the packet stays in the source, and `each` gets it again after at most a millisecond. Files wait; a live source
    ///   drops packets when it is full, and counts them.
    ///
    /// So no packet is in the output that `each` did not take. `each` does not see packets that are only counted after the
    /// output failed or the drain was given up. It must not block for long, because packets wait in the sources meanwhile. If it
    /// panics, so does [`run`](Session::run), and the output ends without its trailer.
    ///
    /// ```
    /// use forebay_net::{open, session::{Control, Output, Session, SessionConfig}};
    /// use std::sync::mpsc;
    ///
    /// let names = ["sim:clock=virtual,count=1000".parse()?];
    /// let clock = open::clock(&names)?;
    /// let ports = open::ports(&names, &Default::default(), &clock)?;
    /// let config = SessionConfig { filter: Some("udp".parse().unwrap()), ..SessionConfig::default() };
    /// let session = Session::open(ports, Output::Count, config, clock, Control::new()?)?;
    /// let (sender, receiver) = mpsc::channel();
    /// let summary = session
    ///     .each(move |frame, interface| {
    ///         sender.send((interface.name.clone(), frame.time_ns, frame.wire_len)).is_ok()
    ///     })
    ///     .run(&mut |_| {});
    /// assert_eq!(receiver.iter().count() as u64, summary.ledger.counted);
    /// assert!(summary.is_fine());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[must_use]
    pub fn each(self, each: impl FnMut(&Frame<'_>, &Interface) -> bool + Send + 'static) -> Self {
        self.each_by(Box::new(each))
    }

    /// As [`each`](Session::each), also with calls around the polls of the only source.
    pub(crate) fn each_by(mut self, each: Box<dyn Each>) -> Self {
        self.intake.each = Some(each);
        self
    }

    /// Captures until the packet limit is reached, the sources end, something fails or [`Control::stop`] is called. Then drains
    /// the ports, closes the output and accounts for every packet. `observe` receives the events meanwhile.
    pub fn run(self, observe: &mut dyn FnMut(Event<'_>)) -> Summary {
        let mut running = self.start();
        while running.step(Duration::MAX, observe) {}
        running.finish(observe)
    }

    /// Begins to capture, to be continued in steps: for a caller that has to do something else in between, such as handling signals.
    ///
    /// ```
    /// # use forebay_net::{open, session::{Control, Output, Session, SessionConfig}};
    /// # use std::time::Duration;
    /// # let names = ["sim:clock=virtual,rate=10pps".parse()?];
    /// # let clock = open::clock(&names)?;
    /// # let ports = open::ports(&names, &Default::default(), &clock)?;
    /// # let config = SessionConfig::default();
    /// let session = Session::open(ports, Output::Count, config, clock, Control::new()?)?;
    /// let mut running = session.start();
    /// let mut seconds = 0;
    /// while running.step(Duration::from_secs(1), &mut |_| {}) {
    ///     seconds += 1;
    ///     if seconds == 5 {
    ///         break;
    ///     }
    /// }
    /// let summary = running.finish(&mut |_| {});
    /// assert!(summary.ledger.counted >= 49 && summary.is_fine());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn start(mut self) -> SessionRun {
        let cpu_began = cpu_time();
        let began = self.clock.now();
        let mut troubles = Troubles::default();
        if let Err(broken) = self.intake.begin(began) {
            troubles.note(broken);
        }
        SessionRun {
            poller: Poller::new(self.config.budget, self.clock.clone()),
            watch: Watch::new(began, &self.config),
            session: self,
            troubles,
            has_broken: false,
            began,
            left_at: began,
            cpu_began,
        }
    }

    /// Periodic work, independent of arriving packets.
    fn housekeeping(
        &mut self,
        poller: &Poller,
        watch: &mut Watch,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> std::result::Result<(), Broken> {
        let now = self.clock.now();
        if self.control.take_flush() {
            self.intake.flush()?;
        }
        if self.control.take_trigger() {
            observe(Event::Triggered);
        }
        let asked = self.control.take_report();
        if asked || now >= watch.next {
            let mut progress = self
                .intake
                .progress(now - watch.began, asked, poller.modes());
            progress.filters_uncounted &= self.config.filter.is_some();
            if let Some(behind) = watch.measure(now, &mut progress)
                && !self.intake.all_wait()
            {
                observe(Event::Behind(&behind));
            }
            self.intake.report_outages(&mut |source, outages| {
                observe(Event::Outage { source, outages });
            });
            observe(Event::Progress(&progress));
            if let Some(writing) = &self.intake.writing {
                announce(&writing.reports, observe);
            }
            watch.next = now + watch.every;
        }
        self.intake.keep_space_free();
        watch.is_time_up |= now >= watch.stop_at;
        let is_asked = self.control.take_rotate();
        if !watch.is_time_up {
            self.intake.keep_rotation(now, is_asked)?;
        }
        self.intake.tick(now, watch.next_look())
    }

    /// Writes the descriptions of interfaces that delivered no packet.
    fn introduce_the_rest(&mut self, has_failed: bool, observe: &mut dyn FnMut(Event<'_>)) {
        while !has_failed && !self.control.is_abandoned() {
            match self.intake.introduce_all() {
                Ok(false) => self.intake.wait_empty(observe),
                // An error here affects no packet.
                Ok(true) | Err(_) => break,
            }
        }
    }

    /// After every packet is taken or counted: writes the trailer, closes the output and computes the summary.
    fn account(
        mut self,
        mut troubles: Troubles,
        poller: Poller,
        (began, ended): (u64, u64),
        cpu_began: Duration,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Summary {
        let modes = poller.modes();
        self.introduce_the_rest(troubles.store.is_some(), observe);
        let statistics = self.intake.statistics(self.clock.wall(ended));
        let (mut ledger, is_uncounted) = self.intake.ledger();
        let mut refused = self.intake.refused();
        let missed = if self.intake.is_satisfied() {
            0
        } else {
            ledger.unread
        };
        // What came after the output had failed was not shared either.
        let lost = counts::lost_in_sources(&ledger).saturating_add(refused);
        let port_error = troubles.port.or_else(|| self.intake.deferred_error());
        let is_failure = |error: &Error| error.raw_os_error() != Some(libc::EPIPE);
        let has_failed = port_error.is_some() || troubles.store.as_ref().is_some_and(is_failure);
        let shared = self.intake.end_share(lost, has_failed);
        let filters_uncounted = is_uncounted && self.config.filter.is_some();
        let (gaps, sources) = (self.intake.gaps(), self.intake.counted_sources());
        let odd = self.intake.odd();
        let mut left = Left::default();
        let (wire_bytes, cut) = (self.intake.wire_bytes, self.intake.cut);
        let store = self.intake.store_info();
        let (mut durable, mut totals) = (false, store::Totals::default());
        let mut sync_abandoned = false;
        let mut is_out_of_room = false;
        let mut files = Files::default();
        let mut abandoned = self.control.is_abandoned();
        if let Some(mut writing) = self.intake.writing {
            let has_failed = troubles.store.is_some();
            let (reports, compressor) = (writing.reports.clone(), writing.compressor.take());
            let (finisher, space) = (writing.finisher.take(), writing.space.take());
            let (single, space_watch) = (writing.single.take(), writing.space_watch.take());
            left = writing.left();
            let (closing, error) = writing.finish(&statistics, has_failed, &self.control, observe);
            let finished;
            (finished, sync_abandoned) = wait(closing, &self.control, observe);
            refused += finished.totals.accepted - finished.totals.written;
            ledger.written = finished.totals.written;
            (durable, totals) = (finished.durable, finished.totals);
            // Later interrupts give up the compression, not packets.
            abandoned = self.control.is_abandoned();
            if let Some(finisher) = finisher {
                finisher.finish(&self.control, || observe(Event::Recovering));
            }
            if let Some(watch) = space_watch {
                watch.finish(&self.control);
            }
            if let Some(compressor) = compressor {
                let tell = |files| observe(Event::Compressing { files });
                compressor.finish(&self.control, tell);
            }
            if let Some(path) = single.filter(|_| finished.totals.written_bytes > 0) {
                reports.announce(&path);
            }
            announce(&reports, observe);
            is_out_of_room = space.is_some_and(|space| space.is_short());
            files = reports.files();
            troubles.store = troubles.store.or(error).or(finished.error);
        }
        let store_error = troubles.store.map(|error| error.about(self.output));
        match &store_error {
            Some(error) if is_failure(error) => {
                ledger.dropped.disk = refused;
            }
            _ => ledger.dropped.writer = refused,
        }
        Summary {
            sources_ended: false,
            abandoned: if abandoned {
                missed + ledger.dropped.writer
            } else {
                0
            },
            sync_abandoned,
            is_out_of_room,
            ledger,
            filters_uncounted,
            durable,
            bytes: totals.written_bytes,
            wire_bytes,
            cut,
            totals,
            files,
            elapsed: Duration::from_nanos(ended - began),
            cpu: cpu_time().saturating_sub(cpu_began),
            modes,
            gaps,
            odd,
            left,
            sources,
            shared,
            store,
            port_error,
            store_error,
        }
    }
}

/// A [`Session`] that captures in steps ([`Session::start`]). Between them packets stay in their sources.
///
/// Call [`finish`](SessionRun::finish) at the end. If it is dropped without that, its file has no trailer and its packets are not accounted
/// for.
#[must_use = "its file is complete only after `finish`"]
pub struct SessionRun {
    session: Session,
    poller: Poller,
    watch: Watch,
    troubles: Troubles,
    has_broken: bool,
    began: u64,
    /// When the last step ended.
    left_at: u64,
    cpu_began: Duration,
}

impl SessionRun {
    /// Captures for up to `timeout`, and returns whether the capture goes on: not when the packet limit is reached, the sources have ended,
    /// something has failed or [`Control::stop`] was called. `observe` receives the events meanwhile. A timeout of 0 does not wait.
    pub fn step(&mut self, timeout: Duration, observe: &mut dyn FnMut(Event<'_>)) -> bool {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let now = self.session.clock.now();
        self.poller.leave_out(self.left_at, now);
        self.session.intake.pause_at = now.saturating_add(timeout);
        let ticked = self.session.intake.tick(now, self.watch.next_look());
        let captured = ticked.and_then(|()| self.capture(observe));
        self.left_at = self.session.clock.now();
        captured.unwrap_or_else(|broken| {
            self.troubles.note(broken);
            self.has_broken = true;
            false
        })
    }

    fn capture(&mut self, observe: &mut dyn FnMut(Event<'_>)) -> std::result::Result<bool, Broken> {
        let session = &mut self.session;
        while !self.has_broken
            && !session.control.is_stopping()
            && !session.intake.is_satisfied()
            && !session.intake.is_ended()
            && !session.intake.is_time_up()
            && !self.watch.is_time_up
        {
            self.poller.turn(&mut session.intake)?;
            session.housekeeping(&self.poller, &mut self.watch, observe)?;
            if session.clock.now() >= session.intake.pause_at {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stops the sources, drains them, closes the output and accounts for every packet.
    pub fn finish(self, observe: &mut dyn FnMut(Event<'_>)) -> Summary {
        let SessionRun {
            mut session,
            mut poller,
            mut watch,
            mut troubles,
            began,
            left_at,
            cpu_began,
            ..
        } = self;
        session.intake.pause_at = u64::MAX;
        poller.leave_out(left_at, session.clock.now());
        let sources_ended = session.intake.is_ended();
        session.control.finish();
        for error in session.intake.stop_ports() {
            troubles.note(Broken::Port(error));
        }
        while !session.intake.is_ended() {
            if session.intake.is_satisfied() || session.control.is_abandoned() {
                session.intake.take_nothing_more(Discard::Unread);
            } else if troubles.store.is_some() {
                session.intake.take_nothing_more(Discard::Refused);
            }
            let turned = poller.turn(&mut session.intake);
            let kept = turned.and_then(|_| session.housekeeping(&poller, &mut watch, observe));
            if let Err(broken) = kept {
                troubles.note(broken);
            }
        }
        let ended = session.clock.now();
        let mut summary = session.account(troubles, poller, (began, ended), cpu_began, observe);
        summary.sources_ended = sources_ended;
        summary
    }
}

/// Returns a warning if `filter` is valid, but no packet of any port can match it.
///
/// # Errors
/// The filter is not valid for any of the interfaces.
fn check(filter: &Filter, feeds: &[Feed]) -> Result<Option<String>> {
    let mut errors = Vec::new();
    for feed in feeds {
        match feed.check(filter) {
            Ok(()) => return Ok(None),
            Err(error) => errors.push((feed.port.name(), error)),
        }
    }
    let odd = errors.iter().find(|(_, error)| error.matches_nothing());
    match (odd, errors.first()) {
        (Some((_, error)), _) => Ok(Some(error.what().to_owned())),
        (None, Some((name, error))) => Err(error.clone().refused_by(*name)),
        (None, None) => Ok(None),
    }
}

/// Checks that a classic file can hold packets of all live sources. What files and shares hold is known from their packets.
///
/// # Errors
/// The link types of two sources differ.
fn refuse_other_links(feeds: &[Feed]) -> Result<()> {
    let live = feeds.iter().filter(|feed| !feed.in_turn);
    let mut firsts = live.filter_map(|feed| feed.port.interfaces().first());
    let first = firsts.next();
    first.map_or(Ok(()), |first| {
        firsts.try_for_each(|other| classic::refuse_other_link(first, other))
    })
}

/// The first error of either side.
#[derive(Default)]
struct Troubles {
    port: Option<Error>,
    store: Option<Error>,
}

impl Troubles {
    fn note(&mut self, broken: Broken) {
        match broken {
            Broken::Port(error) => self.port.get_or_insert(error),
            Broken::Store(error) => self.store.get_or_insert(error),
        };
    }
}

/// Waits for the store to end, gives it up when requested, and reports the remaining data meanwhile. Also returns whether the
/// last sync was given up.
fn wait(
    mut closing: Closing,
    control: &Control,
    observe: &mut dyn FnMut(Event<'_>),
) -> (store::Finished, bool) {
    const STEPS: u32 = 5;
    let mut gave_up_sync = false;
    loop {
        for _ in 0..STEPS {
            let syncs = closing.totals().is_syncing;
            if control.is_abandoned() || control.gives_up() && syncs {
                gave_up_sync |= syncs && closing.totals().unsynced_bytes > 0;
                closing.abandon();
            }
            match closing.wait(Duration::from_millis(20)) {
                Ok(finished) => {
                    let is_doubtful = gave_up_sync && !finished.durable;
                    return (finished, is_doubtful);
                }
                Err(again) => closing = again,
            }
        }
        observe(Event::Finishing(&closing.totals()));
    }
}

/// Reports the files that are complete by now.
fn announce(reports: &Reports, observe: &mut dyn FnMut(Event<'_>)) {
    for recovered in reports.take_recovered() {
        observe(Event::Recovered(&recovered));
    }
    for path in reports.take_announced() {
        observe(Event::Finished { path: &path });
    }
}

/// The processor time of all threads so far.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
