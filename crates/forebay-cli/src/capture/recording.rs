//! `--recorder`: keeps the last packets in memory, and writes those around a trigger to files.

use super::{json, request::Request};
use crate::{
    output::{self, Stream, note_wrapped, packets, say_wrapped},
    usage::refuse,
};
use anyhow::Result;
use forebay_net::{
    filter::{Filter, Programs},
    port::{Frame, Interface},
    recorder::{Cut, Recorded, Recorder, RecorderConfig, RecorderEvent, Trigger},
    session::{Control, Session, SessionConfig},
    share::ShareSource,
    units,
};
use std::{
    path::PathBuf,
    sync::mpsc::Sender,
    time::{Duration, Instant},
};

/// A running recorder.
pub struct Recording {
    recorder: Recorder,
    filter: Option<Filter>,
}

impl Recording {
    /// Starts the recorder. Call it when the session shares its packets; `None`: there is no recorder.
    ///
    /// # Errors
    /// `--trigger` matches no packet of any interface, or the system has no more threads.
    pub fn start(
        request: &Request,
        session: &Session,
        source: Option<&ShareSource>,
        control: &Control,
        finished: Option<Sender<PathBuf>>,
    ) -> Result<Option<Recording>> {
        let (Some(kept), Some(source), Some(path)) = (&request.recorder, source, &request.write)
        else {
            return Ok(None);
        };
        if let Some(filter) = &kept.trigger {
            let sources = session.info().0;
            let interfaces: Vec<_> = sources
                .iter()
                .flat_map(|it| it.interfaces.clone())
                .collect();
            if let Err(error) = Programs::new(filter.clone()).check(&interfaces) {
                return refuse(format!("--trigger: {error}"));
            }
        }
        let (wanted, is_quiet) = (kept.before, request.is_quiet);
        let stream = request.object_stream();
        let report = move |event: RecorderEvent<'_>| {
            if let (
                RecorderEvent::Ended(Cut {
                    path, error: None, ..
                }),
                Some(finished),
            ) = (&event, &finished)
            {
                let _ = finished.send(path.clone()); // the thread of -z reports its own end
            }
            report(&event, wanted, is_quiet, stream);
        };
        let config = RecorderConfig {
            path: path.clone(),
            before: kept.before,
            after: kept.after,
            session: SessionConfig {
                filter: None,
                count: None,
                stop_after: None,
                keep_free: request.keep_free,
                ..request.session.clone()
            },
        };
        let recorder = Recorder::start(source, config, report)?;
        control.accept_triggers();
        if !is_quiet {
            let bytes = units::binary(request.ring_bytes);
            let what = match kept.before {
                Some(time) => format!("the last {time:?}, in up to {bytes} of memory"),
                None => format!("the last packets, in {bytes} of memory"),
            };
            note_wrapped(format_args!(
                "keeping {what}; kill -USR1 {} writes them",
                std::process::id()
            ));
        }
        Ok(Some(Recording {
            recorder,
            filter: kept.trigger.clone(),
        }))
    }

    /// A handle that triggers it.
    pub fn trigger(&self) -> Trigger {
        self.recorder.trigger()
    }

    /// Sees every packet, and triggers at those that match `--trigger`; `None` without that flag.
    pub fn watcher(&self) -> Option<impl FnMut(&Frame<'_>, &Interface) + Send + 'static> {
        let filter = self.filter.clone()?;
        Some(self.trigger().on_match(filter))
    }

    /// Waits until the files are written, or until a further interrupt gives them up.
    pub fn finish(self, control: &Control, is_quiet: bool) -> Recorded {
        let began = Instant::now();
        let mut is_reported = is_quiet;
        self.recorder.finish(control, || {
            if !is_reported && began.elapsed() > Duration::from_millis(400) {
                is_reported = true;
                output::note("writing what is left of a recording; interrupt again to give up");
            }
        })
    }
}

/// Packets that a file lacks.
pub fn lost(cut: &Cut) -> u64 {
    cut.ledger.dropped.known() + cut.ledger.unread
}

fn report(
    event: &RecorderEvent<'_>,
    wanted: Option<Duration>,
    is_quiet: bool,
    stream: Option<Stream>,
) {
    match event {
        RecorderEvent::Began { path } if !is_quiet => {
            note_wrapped(format_args!("triggered: writing {}", path.display()))
        }
        RecorderEvent::Refused => {
            output::warning("a trigger was refused: four files are still being written")
        }
        RecorderEvent::Ended(cut) => {
            if let Some(stream) = stream {
                let _ = output::report(stream, &output::json(&json::cut(cut)));
            }
            if let Some(error) = &cut.error {
                output::error(format_args!("{}: {error}", cut.path.display()));
            }
            if !is_quiet || lost(cut) > 0 {
                say_wrapped(&described(cut, wanted));
            }
        }
        _ => {}
    }
}

/// `forebay: a_00001_20261121143000.pcapng: 1200 packets, from 30.0 s before the trigger to 10.0 s after it`.
fn described(cut: &Cut, wanted: Option<Duration>) -> String {
    let (path, written) = (cut.path.display(), packets(cut.ledger.written));
    let mut text = format!("forebay: {path}: {written}");
    if cut.packets_ns.is_some() {
        let trigger = match cut.triggers {
            1 => "the trigger".into(),
            many => format!("the first of {many} triggers"),
        };
        let last = if cut.triggers == 1 { "it" } else { "the last" };
        text += &format!(
            ", from {:.1} s before {trigger} to {:.1} s after {last}",
            cut.before().as_secs_f64(),
            cut.after().as_secs_f64(),
        );
    }
    if let (true, Some(wanted)) = (cut.is_short, wanted) {
        text += &format!(
            "; the memory does not hold {wanted:?}: give more, such as --recorder {wanted:?},4G"
        );
    }
    match lost(cut) {
        0 => {}
        some => {
            text += &format!(
                "; {} lost: overwritten in memory, or not written",
                packets(some)
            )
        }
    }
    if let Some(some @ 1..) = cut.ledger.interface_dropped {
        text += &format!("; {} lost by the capture before", packets(some));
    }
    text
}
