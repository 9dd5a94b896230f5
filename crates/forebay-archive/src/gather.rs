//! `index`: brings the rows of announced segments into the index.
//!
//! ```text
//!  messages ─▶ read each segment, build its rows ─▶ one commit for all of them ─▶ acknowledge
//!                  └─ the segment or the message is at fault: again after a while, then set aside
//!                  └─ the store is at fault: again after a while, as long as that lasts
//! ```
//! A message is acknowledged only after the rows of its segment are committed. So an indexer that is killed anywhere loses
//! nothing: the server delivers its messages to another one, and a commit adds no segment twice.

#[cfg(test)]
mod tests;

use crate::{
    announce::{Announcement, Queue, Taken},
    archive::{Archive, StoreFault},
    clock, ledger, rebuild, segment,
    table::{Rows, Table},
};
use anyhow::{Error, Result, ensure};
use futures::{
    FutureExt, StreamExt,
    future::{FusedFuture, join_all},
    stream,
};
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    future::Future,
    pin::Pin,
    time::Duration,
};

/// The longest wait before the store or the server is tried again.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The longest wait for the server after a signal.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// Segments that are read at the same time.
const MAX_AT_ONCE: usize = 4;
/// Messages whose failed tries are remembered.
const MAX_FAILED: usize = 10_000;
/// Other archives that are reported.
const MAX_WARNED: usize = 100;
/// How long messages about another archive are given back for.
const OTHER_ARCHIVE: Duration = Duration::from_secs(10);
/// Rows are committed when their files have this length, also before the batch is complete.
const MAX_BUILT_BYTES: usize = 64 << 20;

/// How announced segments are indexed.
#[derive(Debug)]
pub struct GatherConfig {
    /// The archive.
    pub archive: Archive,
    /// Where segments are announced.
    pub queue: Queue,
    /// The number of segments in one commit, at most.
    pub batch: usize,
    /// How long messages are collected for one commit.
    pub wait: Duration,
    /// The server delivers the messages of an indexer that does not answer to another one after this time.
    pub hold: Duration,
    /// A message is set aside when this indexer has failed to index its segment this number of times.
    pub tries: u64,
    /// Return when no message is left, and at the first failure of the store or the server.
    pub once: bool,
    /// Report [`Event::Progress`], and ask the server how many messages wait.
    pub snapshots: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments whose rows are now in the index.
    pub segments: u64,
    /// Their packets.
    pub packets: u64,
    /// Commits that added them.
    pub commits: u64,
    /// Messages about segments whose rows were in the index already.
    pub repeated: u64,
    /// Messages about segments that `expire` has removed.
    pub expired: u64,
    /// Tries at a message whose segment could not be indexed.
    pub failed_tries: u64,
    /// Messages that were set aside.
    pub set_aside: u64,
    /// Times that a message about a segment of another archive was given back.
    pub other_archive: u64,
    /// Tries that the store or the server failed.
    pub failures: u64,
}

/// What is reported while it runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// The rows of a segment are in the index.
    Indexed(&'a Announcement),
    /// A message was set aside, for this reason.
    SetAside(&'a str, &'a str),
    /// Something a person should know.
    Warning(String),
    /// The counts, the messages that are not acknowledged, if the server answers, and the sensors whose clocks were wrong when they shipped
    /// their last segment here, each with the seconds that it was ahead.
    Progress(Counts, Option<u64>, &'a BTreeMap<String, i64>),
}

/// Indexes announced segments.
pub struct Gather<'a> {
    config: GatherConfig,
    table: Option<Table>,
    /// A segment that could be read.
    readable: Option<String>,
    /// Failed tries of messages, by their number in the stream.
    failed: HashMap<u64, u64>,
    /// Other archives that were reported.
    warned: HashSet<String>,
    /// Sensors whose segments were indexed since the last report.
    shipped: BTreeSet<String>,
    /// Sensors whose clocks are wrong, with the seconds that they are ahead.
    clocks: BTreeMap<String, i64>,
    /// What was done so far.
    pub counts: Counts,
    report: &'a mut (dyn FnMut(Event<'_>) + 'a),
}

/// A message that was taken, and what became of it.
struct Held {
    taken: Taken,
    is_answered: Cell<bool>,
}

impl Held {
    async fn done(&self) -> Result<()> {
        self.is_answered.set(true);
        self.taken.done().await
    }

    async fn give_back(&self, after: Duration) {
        if !self.is_answered.replace(true) {
            self.taken.give_back(after).await;
        }
    }
}

/// What reading an announced segment gave.
enum Outcome {
    Rows(Rows),
    Expired,
    /// It is missing here, and its archive is another one.
    OtherArchive(String),
    /// It is missing or damaged.
    Bad(Error),
    /// The store refuses to return it.
    Refused(Error),
    /// The store is at fault.
    Store(Error),
}

impl<'a> Gather<'a> {
    /// Nothing is done yet.
    pub fn new(config: GatherConfig, report: &'a mut (dyn FnMut(Event<'_>) + 'a)) -> Gather<'a> {
        Gather {
            config,
            table: None,
            readable: None,
            failed: HashMap::new(),
            warned: HashSet::new(),
            shipped: BTreeSet::new(),
            clocks: BTreeMap::new(),
            counts: Counts::default(),
            report,
        }
    }

    /// Indexes until no message is left (`once`), or until `stop` completes. Rows that are built by then are committed, and other messages
    /// are given back. The future may also be dropped at any point: the server delivers again what was not acknowledged.
    ///
    /// # Errors
    /// With `once`: the store or the server failed, or the table is of a newer version.
    pub async fn run(&mut self, stop: impl Future<Output = ()>) -> Result<()> {
        let mut stop = std::pin::pin!(stop.fuse());
        let mut wait = Duration::from_secs(1);
        let mut is_over = false;
        loop {
            let passed = self.pass(stop.as_mut(), &mut is_over).await;
            if !stop.is_terminated() {
                // The server or the store may not answer.
                tokio::select! {
                    biased;
                    () = stop.as_mut() => {}
                    () = self.after_pass(is_over || passed.is_err()) => {}
                }
            }
            if stop.is_terminated() {
                self.after_signal().await;
            }
            match passed {
                Ok(()) if is_over => return Ok(()),
                Ok(()) => wait = Duration::from_secs(1),
                Err(error) if self.config.once || is_over => return Err(error),
                Err(_) if stop.is_terminated() => {}
                Err(error) => {
                    self.counts.failures += 1;
                    self.config.queue.disconnect();
                    let seconds = wait.as_secs();
                    let again = format!("{error:#}. Trying again in {seconds} s");
                    (self.report)(Event::Warning(again));
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = stop.as_mut() => {}
                    }
                    wait = (wait * 2).min(MAX_WAIT);
                }
            }
            if stop.is_terminated() {
                return Ok(());
            }
        }
    }

    /// Sends what was given back, if it may have to wait otherwise, and reports.
    async fn after_pass(&mut self, flush: bool) {
        if flush {
            self.config.queue.flush().await;
        }
        if !self.config.snapshots {
            return;
        }
        let left = self.config.queue.left(self.config.hold).await.ok();
        // If the store fails, the next report asks again.
        if let Ok(wrong) = clock::wrong(&self.config.archive, self.shipped.iter()).await {
            self.clocks.retain(|it, _| !self.shipped.contains(it));
            let wrong = wrong.into_iter().map(|it| (it.0.to_owned(), it.1));
            self.clocks.extend(wrong);
            self.shipped.clear();
        }
        (self.report)(Event::Progress(self.counts, left, &self.clocks));
    }

    /// As [`after_pass`](Gather::after_pass) after a signal, which should end it at once: asks a server only that is connected, and not for
    /// long, and no store.
    async fn after_signal(&mut self) {
        let (queue, hold) = (&mut self.config.queue, self.config.hold);
        let _ = tokio::time::timeout(LAST_WAIT, queue.flush()).await;
        if self.config.snapshots {
            let left = match queue.is_connected() {
                true => tokio::time::timeout(LAST_WAIT, queue.left(hold)).await.ok(),
                false => None,
            };
            let left = left.and_then(Result::ok);
            (self.report)(Event::Progress(self.counts, left, &self.clocks));
        }
    }

    /// Takes messages and deals with them. Sets `is_over` at the end.
    async fn pass(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        is_over: &mut bool,
    ) -> Result<()> {
        let (hold, once) = (self.config.hold, self.config.once);
        let mut taken = Vec::new();
        let queue = &mut self.config.queue;
        let received = tokio::select! {
            biased; // a signal ends it, also if taking fails at once
            () = stop.as_mut() => {
                *is_over = true;
                Ok(())
            }
            received = queue.take(self.config.batch, self.config.wait, hold, &mut taken) => received,
        };
        let held: Vec<Held> = taken
            .into_iter()
            .map(|taken| Held {
                taken,
                is_answered: Cell::new(false),
            })
            .collect();
        if held.is_empty() {
            received?;
            // Others may hold messages, or have given them back for later.
            *is_over = *is_over || once && queue.left(hold).await? == 0;
            return Ok(());
        }
        let alive = async {
            loop {
                tokio::time::sleep(hold / 3).await;
                for it in held.iter().filter(|it| !it.is_answered.get()) {
                    it.taken.working().await;
                }
            }
        };
        let worked = tokio::select! {
            worked = self.work(&held, stop, is_over) => worked,
            never = alive => never,
        };
        // After a failure, not at once.
        let after = match *is_over {
            true => Duration::ZERO,
            false => Duration::from_secs(1),
        };
        for it in &held {
            it.give_back(after).await;
        }
        worked.and(received)
    }

    /// Reads the segments of these messages, commits their rows, and answers. Messages that are not answered stay unanswered.
    async fn work(
        &mut self,
        held: &[Held],
        stop: Pin<&mut impl Future<Output = ()>>,
        is_over: &mut bool,
    ) -> Result<()> {
        let archive = self.config.archive.clone();
        let mut table = match self.table.take() {
            Some(table) => table,
            None => Table::open_or_create(&archive).await?,
        };
        table.refresh().await?;
        let (mut bad, mut repeated, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        for it in held {
            match Announcement::decode(it.taken.payload()) {
                Err(error) => bad.push((it, error)),
                Ok(announced) if table.has(&announced.segment).await? => {
                    table.remove_expired(&[&announced.segment]).await?;
                    repeated.push(it);
                }
                Ok(announced) => wanted.push((it, announced)),
            }
        }
        let mut read = read_all(&archive, wanted, stop, is_over).await;
        let mut done = Vec::new();
        if !read.rows.is_empty() {
            let added = table.append_new(&read.rows).await?;
            self.counts.commits += u64::from(added.contains(&true));
            for ((it, announced), is_new) in read.built.iter().zip(added) {
                done.push(*it);
                let sensor = segment::parse_key(&announced.segment).map(|it| it.0.to_owned());
                self.shipped.extend(sensor);
                if !is_new {
                    self.counts.repeated += 1;
                    continue;
                }
                self.counts.segments += 1;
                self.counts.packets += announced.packets;
                (self.report)(Event::Indexed(announced));
            }
        }
        self.table = Some(table);
        self.counts.repeated += repeated.len() as u64;
        self.counts.expired += read.expired.len() as u64;
        done.extend(repeated.into_iter().chain(read.expired));
        let answers = join_all(done.iter().map(|it| it.done())).await;
        for it in done {
            self.failed.remove(&it.taken.number);
        }
        let last = read.built.last().map(|(_, it)| it.segment.clone());
        if !read.refused.is_empty() {
            // Either these objects are refused, or all of them.
            if last.is_some() || self.can_read().await {
                bad.append(&mut read.refused);
            } else {
                let refused = read.refused.into_iter().map(|(_, error)| error);
                read.failed.extend(refused);
            }
        }
        self.readable = last.or(self.readable.take());
        bad.append(&mut read.bad);
        for (it, error) in bad {
            self.refuse(it, &error).await?;
        }
        self.leave(held, &read.other_archive).await?;
        answers.into_iter().collect::<Result<()>>()?;
        read.failed.into_iter().next().map_or(Ok(()), Err)
    }

    /// Whether a segment that could be read before still can.
    async fn can_read(&self) -> bool {
        let archive = &self.config.archive;
        match &self.readable {
            Some(key) => archive.range(key, 0..1).await.is_ok(),
            None => false,
        }
    }

    /// Leaves messages about another archive to its indexers.
    async fn leave(&mut self, held: &[Held], others: &[(&Held, String)]) -> Result<()> {
        for (it, other) in others {
            self.counts.other_archive += 1;
            it.give_back(OTHER_ARCHIVE).await;
            if self.warned.len() < MAX_WARNED && self.warned.insert(other.clone()) {
                (self.report)(Event::Warning(format!(
                    "{}: messages are about another archive, {other}, and stay in the queue for its indexers. Use a stream for each archive",
                    self.config.archive.name()
                )));
            }
        }
        ensure!(
            !self.config.once || others.is_empty() || others.len() < held.len(),
            "the messages that are left are about another archive"
        );
        Ok(())
    }

    /// Gives a message back for a later try, or sets it aside after the last one.
    async fn refuse(&mut self, it: &Held, error: &Error) -> Result<()> {
        self.counts.failed_tries += 1;
        // Other indexers may have dealt with most of them.
        if self.failed.len() >= MAX_FAILED {
            self.failed.clear();
        }
        let failed = self.failed.entry(it.taken.number).or_insert(0);
        *failed += 1;
        let (failed, tries) = (*failed, self.config.tries);
        if failed < tries {
            let after = Duration::from_secs(1 << (failed - 1).min(6)).min(MAX_WAIT);
            it.give_back(after).await;
            let seconds = after.as_secs();
            (self.report)(Event::Warning(format!(
                "{error:#}. Trying this message again in {seconds} s (try {failed} of {tries})"
            )));
            return Ok(());
        }
        let reason = format!("{error:#}");
        self.config.queue.set_aside(&it.taken, &reason).await?;
        it.is_answered.set(true);
        self.failed.remove(&it.taken.number);
        self.counts.set_aside += 1;
        let message = String::from_utf8_lossy(it.taken.payload());
        (self.report)(Event::SetAside(&message, &reason));
        Ok(())
    }
}

/// What reading the segments of several messages gave.
#[derive(Default)]
struct ReadAll<'h> {
    rows: Vec<Rows>,
    /// The messages of `rows`.
    built: Vec<(&'h Held, Announcement)>,
    expired: Vec<&'h Held>,
    other_archive: Vec<(&'h Held, String)>,
    bad: Vec<(&'h Held, Error)>,
    refused: Vec<(&'h Held, Error)>,
    /// The store failed for other segments.
    failed: Vec<Error>,
}

/// Reads until everything is read, memory is full, `stop` completes or the store has failed several times.
async fn read_all<'h>(
    archive: &Archive,
    wanted: Vec<(&'h Held, Announcement)>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
    is_over: &mut bool,
) -> ReadAll<'h> {
    let mut all = ReadAll::default();
    let mut bytes = 0;
    let read = stream::iter(wanted).map(async |(it, announced)| {
        let outcome = read(archive, &announced).await;
        (it, announced, outcome)
    });
    let mut read = std::pin::pin!(read.buffer_unordered(MAX_AT_ONCE));
    while !*is_over && bytes < MAX_BUILT_BYTES && all.failed.len() < MAX_AT_ONCE {
        let next = tokio::select! {
            biased;
            () = stop.as_mut() => {
                *is_over = true;
                break;
            }
            next = read.next() => next,
        };
        let Some((it, announced, outcome)) = next else {
            break;
        };
        match outcome {
            Outcome::Rows(rows) => {
                bytes += rows.files.iter().map(|it| it.bytes.len()).sum::<usize>();
                all.rows.push(rows);
                all.built.push((it, announced));
            }
            Outcome::Expired => all.expired.push(it),
            Outcome::OtherArchive(other) => all.other_archive.push((it, other)),
            Outcome::Bad(error) => all.bad.push((it, error)),
            Outcome::Refused(error) => all.refused.push((it, error)),
            Outcome::Store(error) => all.failed.push(error),
        }
    }
    all
}

/// Reads an announced segment.
async fn read(archive: &Archive, announced: &Announcement) -> Outcome {
    let error = match try_read(archive, announced).await {
        Ok(outcome) => return outcome,
        Err(error) => error,
    };
    match StoreFault::of(&error) {
        Some(fault) if fault.is_refused => Outcome::Refused(error),
        Some(fault) if !fault.is_missing => Outcome::Store(error),
        // A missing object is not the fault of the store.
        _ => Outcome::Bad(error),
    }
}

async fn try_read(archive: &Archive, announced: &Announcement) -> Result<Outcome> {
    let key = &announced.segment;
    if archive.len(key).await?.is_none()
        && let Some(outcome) = missing(archive, announced).await?
    {
        return Ok(outcome);
    }
    let rows = rebuild::rows_of(archive, key).await?;
    let packets: u64 = rows.files.iter().map(|it| it.packets).sum();
    ensure!(
        packets == announced.packets,
        "{}: the segment {key} has {packets} packets, and {} were announced",
        archive.name(),
        announced.packets
    );
    Ok(Outcome::Rows(rows))
}

/// Why a segment is missing, if that is no fault.
async fn missing(archive: &Archive, announced: &Announcement) -> Result<Option<Outcome>> {
    if ledger::has_expired(archive, &announced.segment).await? {
        return Ok(Some(Outcome::Expired));
    }
    let other = match &announced.archive {
        Some(id) if archive.identity().await?.as_ref() != Some(id) => Some(id.clone()),
        _ => None,
    };
    Ok(other.map(Outcome::OtherArchive))
}
