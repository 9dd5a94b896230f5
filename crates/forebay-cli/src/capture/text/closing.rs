//! The lines after a capture: tcpdump's three, the accounting, what was kept and what was lost.

use crate::output::{counted, packets, some_of};
use forebay::store::Totals;
use forebay_net::{
    ledger::{Dropped, Ledger},
    port::{DEFAULT_SNAPLEN, Left, MAX_SNAPLEN, Odd, Outages},
    session::{Source, Summary},
    units,
};
use std::time::Duration;

/// Reports packets whose values had to be changed.
pub fn odd_lines(odd: &Odd) -> Vec<String> {
    let packets = ["packet", "packets"];
    let kinds = [
        (
            odd.raised_lengths,
            packets,
            "with fewer bytes on the wire than captured: the captured length is used for both",
        ),
        (
            odd.limited_times,
            packets,
            "with a time before 1970 or after 2554: the nearest possible time is used",
        ),
        (
            odd.carried_times,
            packets,
            "whose fraction of a second is negative, or a second or more: it is added to the seconds",
        ),
        (
            odd.unknown_interfaces,
            packets,
            "of an interface that the file does not describe: skipped, and in no other count",
        ),
        (
            odd.late,
            ["packet is", "packets are"],
            "out of the order of time, with a comment: packets of the other threads or interfaces were not waited for any longer",
        ),
        (
            odd.broken_options,
            ["block", "blocks"],
            "with a broken option: that option and those after it are skipped",
        ),
    ];
    let some = kinds.into_iter().filter(|(count, ..)| *count > 0);
    some.map(|(count, [one, many], what)| format!("forebay: {} {what}", counted(count, one, many)))
        .collect()
}

/// Reports packets that a copy has only in part, although nobody asked for that.
pub fn cut_line(summary: &Summary, snaplen: u32) -> Option<String> {
    // Where the source has longer packets, or may have had.
    let mut sources = summary.sources.iter();
    let may_cut = sources.any(|source| {
        let mut limits = source.interfaces.iter().map(|it| it.snaplen);
        limits.any(|limit| limit > snaplen || limit == snaplen && !source.got.in_turn)
    });
    let is_copy = summary.ledger.written > 0 && summary.cut > 0;
    (is_copy && may_cut && snaplen == DEFAULT_SNAPLEN).then(|| {
        let cut = counted(summary.cut, "packet is", "packets are");
        format!(
            "forebay: {cut} cut short, to {snaplen} bytes or already in the source. -s {MAX_SNAPLEN} keeps longer ones, which libpcap and \
             Wireshark do not read"
        )
    })
}

/// `2 comments, 1 custom block not copied`.
pub fn left_line(left: &Left) -> Option<String> {
    let kinds = left.by_kind().into_iter().filter(|(.., count)| *count > 0);
    let texts: Vec<_> = kinds
        .map(|(one, many, count)| counted(count, one, many))
        .collect();
    (!texts.is_empty()).then(|| format!("forebay: {} not copied", texts.join(", ")))
}

/// The last lines; `quiet`: only those about losses.
pub fn closing_lines(summary: &Summary, quiet: bool, verbose: bool) -> Vec<String> {
    let ledger = &summary.ledger;
    let captured = ledger.written + ledger.counted;
    let lost = ledger.dropped.known();
    let mut lines = Vec::new();
    // tcpdump prints nothing for files at the end.
    if !quiet && !summary.sources.iter().all(|source| source.got.in_turn) {
        lines = vec![
            format!("{} captured", packets(captured)),
            format!(
                "{} received by filter",
                packets(ledger.received - ledger.filtered)
            ),
        ];
        if summary.sources.iter().any(|source| !source.got.overruns) {
            lines.push(match ledger.dropped.by_kernel() {
                Some(dropped) => kernel_line(summary, dropped),
                None => "packets dropped by kernel: unknown for this source".into(),
            });
        }
        if summary.sources.iter().any(|source| source.got.overruns) {
            lines.push(overrun_line(ledger));
        }
    }
    if let Some(dropped @ 1..) = ledger.dropped.by_kernel().filter(|_| quiet) {
        lines.push(kernel_line(summary, dropped));
    }
    match ledger.dropped.peer {
        Some(0) => {}
        Some(lost) => lines.push(format!("{} dropped by the veth peer", packets(lost))),
        None if quiet => {}
        None => lines.push("packets dropped by the veth peer: unknown".into()),
    }
    if quiet && ledger.dropped.overrun > 0 {
        lines.push(overrun_line(ledger));
    }
    if let Some(lost @ 1..) = ledger.interface_dropped {
        let taps = summary.sources.iter().filter(|it| it.got.overruns).count();
        lines.push(match taps {
            0 => format!("{} dropped by interface", packets(lost)),
            _ if taps == summary.sources.len() => {
                format!("{} lost before they were shared", packets(lost))
            }
            _ => format!(
                "{} dropped by interface or lost before they were shared",
                packets(lost)
            ),
        });
    }
    for source in &summary.sources {
        let Some(times) = source.hardware_times else {
            continue;
        };
        let others = (source.taken + source.filtered + source.unread).saturating_sub(times);
        if others > 0 {
            lines.push(format!(
                "forebay: {}: {} without a time of the hardware: they have the system's time",
                source.name,
                packets(others)
            ));
        }
    }
    let had_outages = |source: &&Source| source.outages.count > 0;
    for source in summary.sources.iter().filter(had_outages) {
        let Outages { count, total, .. } = source.outages;
        lines.push(format!(
            "forebay: {} was down {}, {:.1} s in all; packets of that time were not seen",
            source.name,
            counted(count, "time", "times"),
            total.as_secs_f64()
        ));
    }
    if !quiet || lost > 0 {
        lines.push(law(summary));
    }
    if !quiet {
        lines.extend(summary.sources.iter().flat_map(thread_lines));
        lines.push(format!("forebay: {}", run_line(summary)));
        lines.extend(verbose.then(|| effort_line(summary)).flatten());
    }
    if summary.filters_uncounted && !quiet {
        lines.push("forebay: the kernel filters, and does not count what it rejects".into());
    }
    if lost > 0 {
        lines.push(format!("forebay: {}", loss(ledger, summary, lost)));
    }
    let compressed = &summary.files.compressed;
    if let files @ 1.. = compressed.left + compressed.failed {
        let files = some_files(files);
        let are = if compressed.left + compressed.failed == 1 {
            "is"
        } else {
            "are"
        };
        lines.push(format!("forebay: {files} {are} not compressed, and whole"));
    }
    lines
}

/// tcpdump's words, also where another place has lost them.
fn kernel_line(summary: &Summary, dropped: u64) -> String {
    let place = match dropped > 0 && is_simulated(summary) {
        true => ", here the simulated card",
        false => "",
    };
    format!("{} dropped by kernel{place}", packets(dropped))
}

fn is_simulated(summary: &Summary) -> bool {
    summary.sources.iter().all(|it| it.got.backend == "sim")
}

/// Whether the output took packets too slowly: no buffer was empty.
fn were_buffers_full(summary: &Summary) -> bool {
    summary.store.is_some_and(|store| {
        let most = summary.totals.high_water_bytes + store.buffer_bytes as u64;
        most >= store.limit_bytes as u64
    })
}

fn overrun_line(ledger: &Ledger) -> String {
    format!(
        "{} overwritten before they were read",
        packets(ledger.dropped.overrun)
    )
}

/// `5000000 received = 4990000 written + 0 filtered + 10000 dropped {kernel 10000}`.
fn law(summary: &Summary) -> String {
    let ledger = &summary.ledger;
    let mut text = format!("{} received = ", ledger.received);
    if summary.store.is_some() || ledger.written > 0 {
        text += &format!("{} written", ledger.written);
    } else {
        text += &format!("{} counted", ledger.counted);
    }
    // A count that nobody makes is not a part of the sum.
    if !summary.filters_uncounted || ledger.filtered > 0 {
        text += &format!(" + {} filtered", ledger.filtered);
    }
    if ledger.unread > 0 {
        text += &format!(" + {} unread", ledger.unread);
    }
    text += &format!(" + {} dropped", ledger.dropped.known());
    let causes = causes(&ledger.dropped);
    if !causes.is_empty() {
        text += &format!(" {{{causes}}}");
    }
    text
}

/// `forebay: thread 1 on processor 3: 500 received = 480 taken + 20 dropped`.
fn thread_lines(source: &Source) -> impl Iterator<Item = String> {
    source.threads.iter().enumerate().map(|(number, thread)| {
        let cpu = thread.cpu.map(|cpu| format!(" on processor {cpu}"));
        let file = thread.file.as_ref().map(|file| format!(", {file}"));
        let parts = some_of(&[
            (thread.filtered.unwrap_or(0), "filtered"),
            (thread.unread, "unread"),
        ]);
        let parts: String = parts.iter().map(|part| format!(" + {part}")).collect();
        let dropped = match thread.dropped {
            Some(dropped) => format!("{dropped} dropped"),
            None => "unknown dropped".into(),
        };
        format!(
            "forebay: thread {number}{}: {} received = {} taken{parts} + {dropped}{}",
            cpu.unwrap_or_default(),
            thread.received,
            thread.taken,
            file.unwrap_or_default(),
        )
    })
}

fn causes(dropped: &Dropped) -> String {
    let causes = dropped.by_cause();
    let some = causes.iter().filter(|(_, count)| count.unwrap_or(0) > 0);
    let texts: Vec<_> = some
        .map(|(cause, count)| format!("{cause} {}", count.unwrap_or(0)))
        .collect();
    texts.join(", ")
}

/// `wrote 480 MB, durable, in 3.36 s`.
fn run_line(summary: &Summary) -> String {
    let seconds = summary.elapsed.as_secs_f64();
    match summary.store {
        Some(_) => format!("wrote {}, in {seconds:.2} s", kept(summary)),
        None => format!("took {seconds:.2} s"),
    }
}

/// `used 123 ns of processor time a packet, asleep 97.9 % of the time`, if there is anything to say.
fn effort_line(summary: &Summary) -> Option<String> {
    let mut parts = Vec::new();
    // What the kernel rejects is no work of this process.
    let live = summary.sources.iter().filter(|it| !it.got.in_turn);
    let rejected: u64 = live.filter_map(|it| it.counts.filtered).sum();
    let lost = summary.ledger.dropped.in_sources().unwrap_or(0);
    let taken = summary.ledger.received.saturating_sub(lost + rejected);
    if taken > 0 {
        let each = summary.cpu.as_nanos() as f64 / taken as f64;
        parts.push(format!("used {each:.0} ns of processor time a packet"));
    }
    if summary.modes.busy + summary.modes.asleep > Duration::ZERO {
        let asleep = 100.0 - summary.modes.busy_share() * 100.0;
        parts.push(format!("asleep {asleep:.1} % of the time"));
    }
    (!parts.is_empty()).then(|| format!("forebay: {}", parts.join(", ")))
}

/// `480 MB, durable`, or how much of it is; with the number of files, if there were several.
fn kept(summary: &Summary) -> String {
    let size = |bytes: u64| format!("{}B", units::scaled(bytes as f64));
    let mut text = size(summary.bytes);
    text += &match summary.totals.durable_bytes {
        _ if summary.durable => ", durable".into(),
        _ if summary.store.is_some_and(|store| store.in_memory) => {
            " (this file system is in memory: a power cut destroys it)".into()
        }
        0 if summary.totals.failed_syncs > 0 => ", none of it known to be durable".into(),
        0 => String::new(),
        some => format!(", {} of it durable", size(some)),
    };
    let files = &summary.files;
    // More than one a file: then this is what a power cut destroys besides the interval.
    if summary.totals.syncs > files.written.max(1) {
        let slowest = summary.totals.slowest_sync.as_secs_f64() * 1e3;
        text += &format!(", slowest sync {slowest:.0} ms");
    }
    if files.written > 1 || files.removed + files.removed_for_space > 0 {
        text += &format!(", {}", some_files(files.written));
    }
    if files.removed > 0 {
        text += &format!(", {} removed for newer ones", files.removed);
    }
    if files.removed_for_space > 0 {
        text += &format!(", {} removed for free space", files.removed_for_space);
    }
    if files.recovered > 0 {
        text += &format!(", {} of a killed capture finished", files.recovered);
    }
    let compressed = &files.compressed;
    if compressed.files > 0 {
        let share = share(compressed.bytes, compressed.bytes_before);
        text += &match files.written {
            1 => format!(", compressed to {share:.0} %"),
            _ => format!(", {} compressed to {share:.0} %", compressed.files),
        };
    }
    text
}

/// Describes a file that the disk did not accept completely.
fn whole(durable: bool, totals: &Totals) -> String {
    if totals.failed_syncs == 0 || durable {
        return ". What the file holds is whole up to its last packet".into();
    }
    let durable = units::scaled(totals.durable_bytes as f64);
    format!(". A sync failed, so only the first {durable}B of the file are known to be on the disk")
}

fn loss(ledger: &Ledger, summary: &Summary, lost: u64) -> String {
    if summary.reader_left() && lost == ledger.dropped.writer {
        let packets = counted(lost, "packet was", "packets were");
        return format!("{packets} not read by the reader");
    }
    let mut text = format!("{} lost", counted(lost, "packet was", "packets were"));
    // Nobody knows how many gaps the packets refused by the output would have shown.
    if summary.gaps > 0 && ledger.dropped.disk + ledger.dropped.writer == 0 {
        text += &format!(
            "; {} marked in the file (frame.drop_count)",
            counted(summary.gaps, "gap is", "gaps are")
        );
    }
    if ledger.dropped.disk > 0 {
        text += &whole(summary.durable, &summary.totals);
    } else if ledger.dropped.writer > 0 && summary.abandoned > 0 {
        text += ": they waited when an interrupt gave up";
    } else if ledger.dropped.writer > 0 && summary.reader_left() {
        let packets = counted(ledger.dropped.writer, "packet was", "packets were");
        text += &format!(". Of these, {packets} not read by the reader");
    } else if ledger.dropped.writer > 0 {
        text += ". The output stopped taking them";
    } else if ledger.dropped.peer == Some(lost) {
        text += ". The queue of the veth interface was full: docs/wire.md shows what to do in native and in generic mode";
    } else if ledger.dropped.overrun == lost {
        text += ". Try a larger --share-size where they are shared, a larger --store-limit here, or a faster output";
    } else if ledger.dropped.kernel == Some(lost)
        && is_simulated(summary)
        && !were_buffers_full(summary)
    {
        text += ". The simulated card does not wait, like a network. This process got too little processor time: other programs run, or the \
                 rate is too high. Try a lower rate=, or a larger -B";
    } else {
        text += ". Try a larger -B, a larger --store-limit, or a faster output";
    }
    text
}

/// A part in percent of the whole.
pub fn share(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

pub fn some_files(count: u64) -> String {
    counted(count, "file", "files")
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::time::Clock;
    use forebay_net::{
        port::{Burst, Counts, Frame, Frames, Interface, Port, PortInfo, Wake},
        session::{Control, Output, Session, SessionConfig},
    };

    #[test]
    fn after_a_failed_sync_the_file_is_not_called_whole() {
        let mut totals = Totals::default();
        (totals.written_bytes, totals.durable_bytes) = (5_000_000, 2_000_000);
        assert!(whole(false, &totals).contains("whole up to its last packet"));
        totals.failed_syncs = 1;
        let text = whole(false, &totals);
        assert!(!text.contains("whole"), "{text}");
        assert!(text.contains("only the first 2 MB"), "{text}");
    }

    /// A port without packets, whose interface has lost this number of them.
    struct Lossy([Interface; 1], u64);

    impl Frames for Lossy {
        fn next_frame(&mut self) -> Option<Frame<'_>> {
            None
        }
        fn put_back(&mut self) {}
        fn release(&mut self) {}
    }

    impl Port for Lossy {
        fn interfaces(&self) -> &[Interface] {
            &self.0
        }
        fn receive(&mut self, _: usize) -> forebay::Result<Burst<'_>> {
            Ok(Burst::new(self))
        }
        fn arm(&mut self) -> forebay::Result<Wake<'_>> {
            Ok(Wake::End)
        }
        fn stop(&mut self) -> forebay::Result<()> {
            Ok(())
        }
        fn counts(&mut self) -> Counts {
            Counts {
                received: 0,
                dropped: Some(0),
                interface_dropped: Some(self.1),
                filtered: Some(0),
            }
        }
        fn info(&self) -> PortInfo {
            PortInfo::default()
        }
    }

    #[test]
    fn a_quiet_capture_reports_only_what_its_interface_lost() {
        for (lost, lines) in [(0, &[][..]), (3, &["3 packets dropped by interface"])] {
            let port = Box::new(Lossy([Interface::default()], lost));
            let (config, control) = (SessionConfig::default(), Control::new().unwrap());
            let session = Session::open(vec![port], Output::Count, config, Clock::real(), control);
            let summary = session.unwrap().run(&mut |_| {});
            assert_eq!(closing_lines(&summary, true, false), lines);
            assert!(closing_lines(&summary, false, false).len() > 3);
        }
    }
}
