//! `index`: brings the rows of announced segments into the index.
//!
//! ```text
//!  messages ─▶ read each segment, build its rows ─▶ one commit for all of them ─▶ acknowledge
//!                  └─ the segment or the message is at fault: again after a while, then set aside
//! ```
//! A message is acknowledged only after the rows of its segment are committed. So an indexer that is killed anywhere loses
//! nothing: the server delivers its messages to another one, and a commit adds no segment twice.

use crate::{
    announce::{Announcement, Queue, Taken},
    archive::{Archive, StoreFault},
    rebuild, segment,
    table::{Rows, Table},
};
use anyhow::{Error, Result, ensure};
use futures::{StreamExt, future::join_all, stream};
use std::{cell::Cell, future::Future, pin::Pin, time::Duration};

/// The longest wait before the store or the server is tried again.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Segments that are read at the same time.
const MAX_AT_ONCE: usize = 4;
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
    /// A message is set aside when its segment could not be indexed this number of times.
    pub tries: u64,
    /// Return when no message is left, and at the first failure of the store or the server.
    pub once: bool,
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
}

/// Indexes announced segments.
pub struct Gather<'a> {
    config: GatherConfig,
    table: Option<Table>,
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

/// What reading the segment of a message gave.
enum Outcome {
    Rows(Announcement, Rows),
    Repeated,
    Expired,
    /// The message or its segment is at fault.
    Bad(Error),
    /// The store is at fault.
    Store(Error),
}

impl<'a> Gather<'a> {
    /// Nothing is done yet.
    pub fn new(config: GatherConfig, report: &'a mut (dyn FnMut(Event<'_>) + 'a)) -> Gather<'a> {
        Gather {
            config,
            table: None,
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
        let mut stop = std::pin::pin!(stop);
        let mut wait = Duration::from_secs(1);
        let mut is_over = false;
        loop {
            match self.pass(stop.as_mut(), &mut is_over).await {
                Ok(()) if is_over => return Ok(()),
                Ok(()) => wait = Duration::from_secs(1),
                Err(error) if self.config.once || is_over => return Err(error),
                Err(error) => {
                    self.counts.failures += 1;
                    self.config.queue.disconnect();
                    let seconds = wait.as_secs();
                    let again = format!("{error:#}. Trying again in {seconds} s");
                    (self.report)(Event::Warning(again));
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = stop.as_mut() => return Ok(()),
                    }
                    wait = (wait * 2).min(MAX_WAIT);
                }
            }
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
            received = queue.take(self.config.batch, self.config.wait, hold, &mut taken) => received,
            () = stop.as_mut() => {
                *is_over = true;
                Ok(())
            }
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
        let read = read_all(&archive, &table, held, stop, is_over).await;
        let mut done = Vec::new();
        if !read.rows.is_empty() {
            let added = table.append_new(&read.rows).await?;
            self.counts.commits += u64::from(added.contains(&true));
            for ((it, announced), is_new) in read.built.iter().zip(added) {
                done.push(*it);
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
        self.counts.repeated += read.repeated.len() as u64;
        self.counts.expired += read.expired.len() as u64;
        done.extend(read.repeated.iter().chain(&read.expired));
        let answers = join_all(done.iter().map(|it| it.done())).await;
        for (it, error) in read.bad {
            self.refuse(it, &error).await?;
        }
        answers.into_iter().collect::<Result<()>>()?;
        read.failed.map_or(Ok(()), Err)
    }

    /// Gives a message back for a later try, or sets it aside after the last one.
    async fn refuse(&mut self, it: &Held, error: &Error) -> Result<()> {
        self.counts.failed_tries += 1;
        let (deliveries, tries) = (it.taken.deliveries, self.config.tries);
        if deliveries < tries {
            let after = Duration::from_secs(1 << (deliveries - 1).min(6)).min(MAX_WAIT);
            it.give_back(after).await;
            let seconds = after.as_secs();
            (self.report)(Event::Warning(format!(
                "{error:#}. Trying this message again in {seconds} s (try {deliveries} of {tries})"
            )));
            return Ok(());
        }
        let reason = format!("{error:#}");
        self.config.queue.set_aside(&it.taken, &reason).await?;
        it.is_answered.set(true);
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
    repeated: Vec<&'h Held>,
    expired: Vec<&'h Held>,
    bad: Vec<(&'h Held, Error)>,
    /// The store failed; the other messages were not read.
    failed: Option<Error>,
}

/// Reads until everything is read, memory is full, `stop` completes or the store fails.
async fn read_all<'h>(
    archive: &Archive,
    table: &Table,
    held: &'h [Held],
    mut stop: Pin<&mut impl Future<Output = ()>>,
    is_over: &mut bool,
) -> ReadAll<'h> {
    let mut all = ReadAll::default();
    let mut bytes = 0;
    let read = stream::iter(held).map(async |it| (it, outcome(archive, table, &it.taken).await));
    let mut read = std::pin::pin!(read.buffer_unordered(MAX_AT_ONCE));
    while !*is_over && bytes < MAX_BUILT_BYTES && all.failed.is_none() {
        let next = tokio::select! {
            biased;
            () = stop.as_mut() => {
                *is_over = true;
                break;
            }
            next = read.next() => next,
        };
        let Some((it, outcome)) = next else {
            break;
        };
        match outcome {
            Outcome::Rows(announced, rows) => {
                bytes += rows.files.iter().map(|it| it.bytes.len()).sum::<usize>();
                all.rows.push(rows);
                all.built.push((it, announced));
            }
            Outcome::Repeated => all.repeated.push(it),
            Outcome::Expired => all.expired.push(it),
            Outcome::Bad(error) => all.bad.push((it, error)),
            Outcome::Store(error) => all.failed = Some(error),
        }
    }
    all
}

async fn outcome(archive: &Archive, table: &Table, taken: &Taken) -> Outcome {
    let announced = match Announcement::decode(taken.payload()) {
        Ok(announced) => announced,
        Err(error) => return Outcome::Bad(error),
    };
    // A message that is delivered again may have been dealt with. Otherwise the commit asks the table, which costs less for a batch.
    let is_repeated = match taken.deliveries > 1 {
        true => table.has(&announced.segment).await,
        false => Ok(false),
    };
    match is_repeated {
        Ok(false) => {}
        Ok(true) => return Outcome::Repeated,
        Err(error) => return Outcome::Store(error),
    }
    match read(archive, &announced).await {
        Ok(Some(rows)) => Outcome::Rows(announced, rows),
        Ok(None) => Outcome::Expired,
        // A missing object is not the fault of the store.
        Err(error) => match error.downcast_ref::<StoreFault>() {
            Some(fault) if !fault.is_missing => Outcome::Store(error),
            _ => Outcome::Bad(error),
        },
    }
}

/// The rows of an announced segment; `None`: `expire` has removed it.
async fn read(archive: &Archive, announced: &Announcement) -> Result<Option<Rows>> {
    let key = &announced.segment;
    if archive.len(key).await?.is_none() {
        let (sensor, _, sha256) = segment::parse_key(key).unwrap_or_default();
        let record = segment::expired_record(sensor, sha256);
        if archive.len(&record).await?.is_some() {
            return Ok(None);
        }
    }
    let rows = rebuild::rows_of(archive, key).await?;
    let packets: u64 = rows.files.iter().map(|it| it.packets).sum();
    ensure!(
        packets == announced.packets,
        "{}: the segment {key} has {packets} packets, and {} were announced",
        archive.name(),
        announced.packets
    );
    Ok(Some(rows))
}
