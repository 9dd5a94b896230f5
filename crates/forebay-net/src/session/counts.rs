//! What an [`Intake`] has counted: for reports while the session runs, and for its summary.

use super::{
    feed::Feed,
    intake::Intake,
    summary::{Progress, Source},
};
use crate::{
    format::Format,
    ledger::Ledger,
    port::{Counts, Odd, Outages},
};
use forebay::{poll::Modes, store};
use std::time::Duration;

/// Packets that the sources are known to have lost, for the readers of a share.
pub(super) fn lost_in_sources(ledger: &Ledger) -> u64 {
    let known = [ledger.dropped.in_sources(), ledger.interface_dropped];
    known.into_iter().flatten().fold(0, u64::saturating_add)
}

impl Intake {
    pub fn progress(&mut self, elapsed_ns: u64, asked: bool, modes: Modes) -> Progress {
        let (ledger, filters_uncounted) = self.ledger();
        let fills = self
            .feeds
            .iter()
            .filter_map(|feed| feed.port.report().ring_fill);
        if let Some(publisher) = &mut self.publisher {
            publisher.set_lost(lost_in_sources(&ledger));
        }
        let mut progress = Progress {
            elapsed: Duration::from_nanos(elapsed_ns),
            asked,
            taken: self.taken(),
            wire_bytes: self.wire_bytes,
            cut: self.cut,
            reading: self.reading(),
            ring_fill: fills.reduce(f64::max),
            modes,
            ledger,
            filters_uncounted,
            ..Progress::default()
        };
        if let Some(writing) = &mut self.writing {
            let totals = writing.store.totals();
            progress.ledger.written = totals.written;
            progress.high_water_bytes = totals.high_water_bytes;
            progress.written_bytes = totals.written_bytes;
            progress.durable = totals.durable;
            progress.durable_bytes = totals.durable_bytes;
            progress.pending_bytes = totals.pending_bytes;
            progress.accepted_bytes = writing.accepted_bytes;
            if let Some(series) = &writing.series {
                progress.file = series.number();
                let files = writing.reports.counts();
                [progress.files_written, progress.files_removed, _] = files;
                progress.files_removed_for_space = files[2];
            }
            progress.fill = writing.store.fill_level();
            let all = writing.store.info().limit_bytes as f64;
            progress.vacant_bytes = ((1.0 - progress.fill) * all) as u64;
        }
        progress
    }

    fn reading(&self) -> Option<(u64, u64)> {
        let mut files = self.feeds.iter().map(|feed| feed.port.report().reading);
        files.try_fold((0, 0), |(read, len), file| {
            let file = file?;
            Some((read + file.0, len + file.1))
        })
    }

    /// Calls `report` for each port whose interface went down or up since the last call.
    pub fn report_outages(&mut self, report: &mut dyn FnMut(&str, Outages)) {
        for feed in &mut self.feeds {
            let outages = feed.port.report().outages;
            let seen = (outages.count, outages.is_down);
            if std::mem::replace(&mut feed.outages_told, seen) != seen {
                report(feed.port.name(), outages);
            }
        }
    }

    fn taken(&self) -> u64 {
        self.feeds.iter().map(|feed| feed.taken).sum()
    }

    /// Packets that our filter rejected.
    fn filtered(&self) -> u64 {
        self.feeds.iter().map(|feed| feed.filtered).sum()
    }

    /// The counts of all ports, without those of the output. Also returns whether a port did not count the packets that it
    /// rejected.
    pub fn ledger(&mut self) -> (Ledger, bool) {
        let mut ledger = Ledger {
            // Without an output, packets are not kept.
            counted: if self.writing.is_none() {
                self.taken()
            } else {
                0
            },
            filtered: self.filtered(),
            unread: self.feeds.iter().map(|feed| feed.unread).sum(),
            ..Ledger::of_no_source()
        };
        let mut is_uncounted = false;
        for feed in &mut self.feeds {
            let counts = feed.port.counts();
            is_uncounted |= counts.filtered.is_none();
            let losses = feed.port.report().socket_losses;
            ledger.add_source(&counts, &losses, feed.port.info().overruns);
        }
        // If one of them is unknown, so is their sum.
        ledger.received += ledger.dropped.peer.unwrap_or(0);
        (ledger, is_uncounted)
    }

    /// Packets that could not be taken because the output had failed.
    pub fn refused(&self) -> u64 {
        self.feeds.iter().map(|feed| feed.refused).sum()
    }

    /// Gaps that are marked in the output.
    pub fn gaps(&self) -> u64 {
        match &self.writing {
            Some(writing) if writing.format == Format::Pcapng => {
                self.feeds.iter().map(|feed| feed.gaps()).sum()
            }
            _ => 0,
        }
    }

    /// Packets that differ from the contents of their files.
    pub fn odd(&self) -> Odd {
        let mut odd = Odd::default();
        for feed in &self.feeds {
            odd += feed.odd;
            odd.unknown_interfaces += feed.port.report().unreadable.packets;
        }
        odd
    }

    /// The first error of a source that did not end the session: a share failed, or a file had packets that could not be read.
    pub fn deferred_error(&mut self) -> Option<forebay::Error> {
        let unreadable = |feed: &Feed| feed.port.report().unreadable.error(feed.port.name());
        let of_feed = |feed: &mut Feed| feed.failure.take().or_else(|| unreadable(feed));
        self.feeds.iter_mut().find_map(of_feed)
    }

    /// The sources, without the counters of their ports.
    pub fn sources(&self) -> Vec<Source> {
        let of_feed = |feed: &Feed| {
            let report = feed.port.report();
            Source {
                name: feed.port.name().to_owned(),
                interfaces: feed.port.interfaces().to_vec(),
                got: feed.port.info(),
                outages: report.outages,
                counts: Counts::default(),
                hardware_times: report.hardware_times,
                taken: feed.taken,
                filtered: feed.filtered,
                unread: feed.unread,
                refused: feed.refused,
                threads: report.threads,
            }
        };
        self.feeds.iter().map(of_feed).collect()
    }

    /// The sources, with all counts.
    pub fn counted_sources(&mut self) -> Vec<Source> {
        let mut sources = self.sources();
        for (source, feed) in sources.iter_mut().zip(&mut self.feeds) {
            source.counts = feed.port.counts();
        }
        sources
    }

    pub fn store_info(&self) -> Option<store::StoreInfo> {
        self.writing.as_ref().map(|writing| writing.store.info())
    }
}
