//! Flags that contradict each other, or that lack one that they need, as far as the command line alone shows it.
//!
//! What needs the names of ports, files of this machine or a computation is in `refusals` and `rotation`.

use crate::{
    args::{Capture as Flags, Criterion},
    usage::refuse,
};
use anyhow::Result;
use forebay_net::port::TimeSource;

/// When the flags contradict each other, and what is reported then.
type Contradiction = (fn(&Flags) -> bool, &'static str);

/// The first row that applies is reported.
const CONTRADICTIONS: &[Contradiction] = &[
    (
        |it| it.format.is_some() && it.write.is_none(),
        "--format is the format of a file: name one with -w",
    ),
    (
        |it| it.command.is_some() && !writes_file(it),
        "-z runs a program on files: name one with -w. For statistics use forebay flows FILE, or forebay info FILE",
    ),
    (
        |it| it.sharing.share_size.is_some() && !shares(it),
        "--share-size is the memory for --share and --serve: give one of them",
    ),
    (
        |it| it.keep_free.is_some() && !writes_file(it),
        "--keep-free is about the disk of a file: name one with -w",
    ),
    (
        |it| it.threading.per_thread && !writes_file(it),
        "--per-thread writes one file a thread: name them with -w",
    ),
    (
        |it| !it.ring_buffer.is_empty() && (has_letters(it) || it.file_count.is_some()),
        "-b cannot be used beside -C, -G and -W: their files have other names. Use -b for all of it",
    ),
    (
        |it| it.file_count.is_some() && !has_letters(it),
        "-W counts files: add -C or -G, which end a file",
    ),
    (
        |it| is_series(it) && it.write.is_none(),
        "-b, -C and -G rotate files: name one with -w",
    ),
    (
        |it| is_series(it) && !writes_file(it),
        "-w - is one stream, and -b, -C and -G need files. Name one with -w",
    ),
    (
        |it| !is_series(it) && it.autostop.iter().any(is_files),
        "-a files: there is only one file. Add -b, -C or -G, which end a file",
    ),
    (
        |it| !is_series(it) && it.compress.is_some(),
        "--compress works on finished files of a series. Add -b, -C or -G, or let the name of -w end in .zst",
    ),
    (
        |it| it.autostop.iter().any(is_filesize) && it.write.is_none(),
        "-a filesize: there is no file. Name one with -w",
    ),
    (
        |it| it.autostop.iter().any(is_filesize) && has_letters(it),
        "-a filesize cannot be used beside -C and -G. Use -C",
    ),
    (
        |it| it.file_size.is_some() && it.rotate_seconds.is_some() && it.file_count.is_some(),
        "-W beside both -C and -G could mean either: a ring, or the end. Use -b files or -a files",
    ),
    (
        |it| it.autostop.iter().any(is_filesize) && it.ring_buffer.iter().any(is_filesize),
        "-a filesize means -b filesize here, and both were given. Use one",
    ),
    (
        |it| {
            let ends = it
                .ring_buffer
                .iter()
                .chain(it.autostop.iter().filter(|it| is_filesize(it)));
            !it.ring_buffer.is_empty() && !ends.into_iter().any(ends_file)
        },
        "-b files and -b total limit how many files are kept: add -b duration, interval, filesize or packets, which end a file",
    ),
    (
        |it| it.printing.times > 5,
        "-t may be given five times at most: -ttttt is the time since the first packet",
    ),
    (
        |it| {
            let it = &it.printing;
            let forms = [it.hex, it.hex_and_text, it.text];
            forms.iter().filter(|&&count| count > 0).count() > 1
        },
        "-x, -X and -A are three forms of the same. Choose one",
    ),
    (
        |it| {
            (it.printing.print || it.printing.is_for_programs())
                && it.write.is_some()
                && !writes_file(it)
        },
        "-w - and printed packets cannot share standard output. Write to a file, or leave --print out",
    ),
    (
        // One goes to each stream, and a program could not know which is which.
        |it| it.printing.json_lines && it.json,
        "--json-lines prints packets and --json counts. Choose one, or use --stats-interval for counts",
    ),
    (
        |it| it.time == Some(TimeSource::Hardware) && it.threading.threads.is_some(),
        "--time hardware needs a capture with one thread: leave --threads out",
    ),
    (
        |it| it.recording.recorder.is_some() && is_series(it),
        "-b, -C and -G end files, and with --recorder triggers do. Use --after",
    ),
    (
        |it| {
            it.recording
                .trigger
                .as_ref()
                .is_some_and(|text| text.trim().is_empty())
        },
        "--trigger: an empty expression matches every packet",
    ),
];

/// Rejects flags that contradict each other.
///
/// # Errors
/// The first contradiction.
pub(super) fn refuse_contradictions(flags: &Flags) -> Result<()> {
    match CONTRADICTIONS.iter().find(|(applies, _)| applies(flags)) {
        Some((_, text)) => refuse(*text),
        None => Ok(()),
    }
}

fn writes_file(flags: &Flags) -> bool {
    flags.write.as_deref().is_some_and(|path| path != "-")
}

fn shares(flags: &Flags) -> bool {
    flags.sharing.share.is_some() || flags.sharing.serve.is_some()
}

/// tcpdump's letters for a series of files.
fn has_letters(flags: &Flags) -> bool {
    flags.file_size.is_some() || flags.rotate_seconds.is_some()
}

fn is_series(flags: &Flags) -> bool {
    has_letters(flags) || !flags.ring_buffer.is_empty()
}

fn is_files(criterion: &Criterion) -> bool {
    matches!(criterion, Criterion::Files(_))
}

fn is_filesize(criterion: &Criterion) -> bool {
    matches!(criterion, Criterion::FileSize(_))
}

fn ends_file(criterion: &Criterion) -> bool {
    !matches!(criterion, Criterion::Files(_) | Criterion::Total(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    /// A command line for each row.
    const EXAMPLES: &[&str] = &[
        "--format pcap",
        "-w - -z cat",
        "--share-size 4M",
        "-w - --keep-free 10%",
        "-w - --threads 2 --per-thread",
        "-w a.pcap -b filesize:10 -W 3",
        "-w a.pcap -W 3",
        "-C 1",
        "-w - -b packets:5",
        "-w a.pcap -a files:3",
        "-w a.pcap --compress zstd",
        "-a filesize:10",
        "-w a.pcap -G 5 -a filesize:10",
        "-w a.pcap -C 1 -G 5 -W 3",
        "-w a.pcap -b filesize:10 -a filesize:20",
        "-w a.pcap -b files:3 -b total:100",
        "-tttttt",
        "-x -A",
        "-w - --print",
        "--json-lines --json",
        "--time hardware --threads 2",
        "-w a.pcap --recorder 30s -b duration:5",
        "-w a.pcap --recorder 30s --trigger=",
    ];

    fn parsed(line: &str) -> Flags {
        let words = ["forebay", "capture", "-i", "sim"];
        match Args::try_parse_from(words.into_iter().chain(line.split(' '))) {
            Ok(Args {
                command: Command::Capture(flags),
            }) => *flags,
            Ok(_) => panic!("{line}: another subcommand"),
            Err(error) => panic!("{line}: {error}"),
        }
    }

    #[test]
    fn each_contradiction_is_rejected_with_its_text() {
        assert_eq!(EXAMPLES.len(), CONTRADICTIONS.len());
        for (line, (_, text)) in EXAMPLES.iter().zip(CONTRADICTIONS) {
            let refused = refuse_contradictions(&parsed(line)).map_err(|error| error.to_string());
            assert_eq!(refused, Err((*text).to_owned()), "{line}");
        }
    }

    #[test]
    fn flags_that_go_together_are_accepted() {
        for line in [
            "-w a.pcap --format pcap -z cat --keep-free 10%",
            "-w a.pcapng --share lan --share-size 4M",
            "-w a.pcap --threads 2 --per-thread",
            "-w a.pcap -C 1 -W 3 --compress zstd:5 -a files:9",
            "-w a.pcap -G 5 -W 3",
            "-w a.pcap -b files:3 -a filesize:10",
            "-w a.pcap -b packets:5 -b files:3",
            "-w a.pcap -a filesize:10",
            "-w - --json",
            "-w a.pcap --print -ttttt -xx",
            "-w a.pcap --recorder 30s --trigger icmp",
        ] {
            assert!(refuse_contradictions(&parsed(line)).is_ok(), "{line}");
        }
    }
}
