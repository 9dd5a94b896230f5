//! Flags that would do nothing, or that contradict each other.

use crate::{
    args::{Capture as Flags, Criterion},
    usage::refuse,
};
use anyhow::Result;
use forebay_net::{
    format::Format,
    open::Name,
    session::{Compression, Rotation},
};
use rustix::thread::sched_getaffinity;
use std::{
    fs::File,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

/// A name that promises another format or compression would mislead every reader.
pub(super) fn refuse_contradicting_name(flags: &Flags) -> Result<()> {
    const PACKED: [&str; 4] = ["lz4", "xz", "bz2", "Z"];
    let Some(path) = &flags.write else {
        return Ok(());
    };
    let ending = |path: &Path| Some(path.extension()?.to_str()?.to_owned());
    let shown = path.display();
    if let Some(ending) = ending(path).filter(|ending| PACKED.contains(&ending.as_str())) {
        return refuse(format!(
            "-w {shown}: files are compressed with gzip (.gz) or zstd (.zst), not .{ending}. Use one of these, or a pipe: -w - | PROGRAM >FILE"
        ));
    }
    let stem = match Compression::of_path(path) {
        Some(_) => path.with_extension(""),
        None => path.clone(),
    };
    let Some(promised) = ending(&stem).as_deref().and_then(Format::named) else {
        return Ok(());
    };
    match flags.format {
        Some(given) if given.format != promised => refuse(format!(
            "-w {shown} names another format than --format. Leave --format out, or change the name"
        )),
        _ => Ok(()),
    }
}

pub(super) fn refuse_odd_sharing(flags: &Flags, names: &[Name]) -> Result<()> {
    let sharing = &flags.sharing;
    if sharing.share.is_none() && sharing.serve.is_none() {
        return Ok(());
    }
    if !names.iter().all(Name::is_live) {
        return refuse(
            "--share and --serve are for live packets: a file is read faster than readers can follow. Let them read the file, with -r",
        );
    }
    let is_own =
        |name: &Name| matches!(name, Name::Share(name) if Some(name) == sharing.share.as_ref());
    match names.iter().any(is_own) {
        true => refuse("a capture cannot read what it shares. Choose another name"),
        false => Ok(()),
    }
}

/// Flags about printed packets that would do nothing, or that contradict each other.
pub(super) fn refuse_odd_printing(flags: &Flags) -> Result<()> {
    let it = &flags.printing;
    let prints = it.print || it.is_for_programs();
    // Whether a flag is given, its name, and whether it changes only printed lines.
    let given = [
        (it.link_header, "-e", false),
        (it.times > 0, "-t", true),
        (it.hex > 0, "-x", true),
        (it.hex_and_text > 0, "-X", true),
        (it.text > 0, "-A", true),
        (it.absolute_tcp_sequence_numbers, "-S", false),
        (it.dont_verify_checksums, "-K", false),
        (it.number, "-#", true),
        (it.color == "always", "--color always", true),
        (it.line_buffered, "-l", false),
        (it.names, "--names", false),
        (
            it.time_stamp_precision == "nano",
            "--time-stamp-precision nano",
            true,
        ),
    ];
    if let Some((_, flag, _)) = given.iter().find(|it| it.0 && it.2)
        && it.is_for_programs()
    {
        return refuse(format!(
            "{flag} changes printed lines, and --json-lines, --fields and --csv print none: time_ns has nanoseconds. Leave {flag} out"
        ));
    }
    let first = given.iter().find(|it| it.0);
    match first {
        Some((_, flag, _)) if flags.write.is_some() && !prints => refuse(format!(
            "{flag} is about printed packets, and -w prints none. Add --print, or leave {flag} out"
        )),
        Some((_, flag, _))
            if (flags.sharing.share.is_some() || flags.sharing.serve.is_some()) && !prints =>
        {
            refuse(format!(
                "{flag} is about printed packets, and --share and --serve print none. Add --print, or leave {flag} out"
            ))
        }
        Some((_, flag, _)) if it.only_count => refuse(format!(
            "{flag} is about printed packets, and --count prints none. Leave one of them out"
        )),
        _ => Ok(()),
    }
}

/// Only packet sockets have a choice of clocks.
pub(super) fn check_time(flags: &Flags, names: &[Name]) -> Result<()> {
    let have_clocks = names.iter().all(Name::has_directions_and_clocks);
    match flags.time.is_some() && !have_clocks {
        true => refuse("--time chooses the clock of interfaces such as eth0, and of nothing else"),
        false => Ok(()),
    }
}

/// Flags that contradict `--threads`, or that have no meaning with it.
pub(super) fn refuse_odd_threads(flags: &Flags, names: &[Name]) -> Result<()> {
    let it = &flags.threading;
    let Some(threads) = it.threads else {
        return Ok(());
    };
    match names {
        [name] if name.is_any() => {
            return refuse(
                "--threads captures from one interface, and any is all of them. Name one with -i",
            );
        }
        [Name::Sim(_)] if it.fanout.is_some() => {
            return refuse(
                "--fanout is about the kernel: threads that read a simulated card take turns. Leave it out",
            );
        }
        [Name::Sim(spec)] if spec.virtual_clock => {
            return refuse("--threads needs real time: leave clock=virtual out");
        }
        [name] if name.has_members() => {}
        _ => {
            return refuse(
                "--threads captures from one interface. Name one with -i, and no file with -r",
            );
        }
    }
    if let Some(cpus) = &it.cpus {
        let given = cpus.0.len();
        if given != threads {
            return refuse(format!(
                "--cpus names {given} of {threads} processors. Name one for each thread"
            ));
        }
        let allowed = sched_getaffinity(None);
        let refused = |&&cpu: &&u32| {
            let allowed = allowed.as_ref();
            allowed.is_ok_and(|allowed| !allowed.is_set(cpu as usize))
        };
        if let Some(cpu) = cpus.0.iter().find(refused) {
            return refuse(format!(
                "--cpus {cpu}: this process may not run there, or there is no such processor. taskset -p $$ shows which ones may be used"
            ));
        }
    }
    if it.per_thread {
        refuse_odd_files(flags)?;
    }
    Ok(())
}

/// Flags that need the packets of all threads in one place.
fn refuse_odd_files(flags: &Flags) -> Result<()> {
    let printing = &flags.printing;
    let is_count = |it: &Criterion| matches!(it, Criterion::Packets(_));
    let given = [
        (printing.print || printing.is_for_programs(), "--print"),
        (flags.sharing.share.is_some(), "--share"),
        (flags.sharing.serve.is_some(), "--serve"),
        (flags.recording.recorder.is_some(), "--recorder"),
        (flags.verify, "--verify"),
        (flags.count.is_some(), "-c"),
        (flags.autostop.iter().any(is_count), "-a packets"),
        (flags.keep_free.is_some(), "--keep-free"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) => refuse(format!(
            "{flag} is about the packets of all threads, and --per-thread keeps them apart. Leave one of them out"
        )),
        None => Ok(()),
    }
}

/// Creating the output would empty the input, and reading would never end; a series would replace it before all of it is written
/// again.
pub(super) fn refuse_reading_what_is_written(
    names: &[Name],
    written: Option<&Path>,
    rotation: Option<&Rotation>,
) -> Result<()> {
    if let Some(rotation) = rotation {
        let is_read = |name: &&Name| matches!(name, Name::File(path) if rotation.replaces(path));
        return match names.iter().find(is_read) {
            Some(Name::File(path)) => refuse_overwriting(path),
            _ => Ok(()),
        };
    }
    let identity = |path: &Path, standard: BorrowedFd<'_>| {
        let metadata = if path == Path::new("-") {
            File::from(standard.try_clone_to_owned().ok()?).metadata()
        } else {
            std::fs::metadata(path)
        };
        let metadata = metadata.ok().filter(|metadata| metadata.is_file())?;
        Some((metadata.dev(), metadata.ino()))
    };
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let Some(written) = written.and_then(|path| identity(path, stdout.as_fd())) else {
        return Ok(());
    };
    for name in names {
        if let Name::File(path) = name
            && identity(path, stdin.as_fd()) == Some(written)
        {
            return refuse_overwriting(path);
        }
    }
    Ok(())
}

/// A pipe or a device cannot be replaced by the next file.
pub(super) fn refuse_rotating_what_is_no_file(rotation: Option<&Rotation>) -> Result<()> {
    match rotation {
        Some(Rotation { path, .. }) if path.metadata().is_ok_and(|it| !it.is_file()) => {
            let path = path.display();
            refuse(format!(
                "-w {path} is not a file, and -b, -C and -G need files. Name one with -w"
            ))
        }
        _ => Ok(()),
    }
}

fn refuse_overwriting(path: &Path) -> Result<()> {
    let path = path.display();
    refuse(format!(
        "-w would overwrite {path} while it is read. Write to another file"
    ))
}
