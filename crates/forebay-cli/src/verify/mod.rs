//! `forebay verify`, and `capture --verify`: what arrived of the frames that `forebay generate` sent.

mod json;
mod text;

pub use json::object;
pub use text::lines;

use crate::{
    args::{Criterion, Verify as Flags},
    habit,
    listening::listening,
    output, privileges,
    sandbox::{self, Needs, Sandbox},
    shares,
    signals::{self, Asked},
    usage::{self, Usage, refuse},
};
use anyhow::Result;
use forebay::standard;
use forebay_net::{
    open::{self, Name, Opening, Options},
    port::{Frame, Interface, Outages},
    session::{Control, Event, Output, Session, SessionConfig, Summary},
    verify::{Verifier, VerifyConfig, VerifyReport},
};
use std::{
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// With `--until-end`, how long to wait for frames that the end overtook.
const PATIENCE: Duration = Duration::from_secs(1);

/// A verifier that the session feeds, and that is asked meanwhile.
#[derive(Clone)]
pub struct Verifying {
    verifier: Arc<Mutex<Verifier>>,
    /// How far below the highest number a number may be.
    pub window: u64,
}

impl Verifying {
    pub fn new(config: VerifyConfig) -> Self {
        Verifying {
            verifier: Arc::new(Mutex::new(Verifier::new(config))),
            window: config.window,
        }
    }

    fn verifier(&self) -> MutexGuard<'_, Verifier> {
        self.verifier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn see(&self, frame: &Frame<'_>, interface: &Interface) {
        self.verifier().see(frame, interface);
    }

    pub fn report(&self) -> VerifyReport {
        self.verifier().report()
    }
}

pub fn run(flags: &Flags) -> Result<ExitCode> {
    let files = flags.read.iter().cloned().map(Name::File);
    let names: Vec<_> = flags.interfaces.iter().cloned().chain(files).collect();
    if names.is_empty() {
        let hint = habit::input(&flags.expression);
        return refuse(format!(
            "no interface at which frames arrive. {}",
            hint.as_deref()
                .unwrap_or("Name one with -i, such as -i eth0, or a file with -r")
        ));
    }
    if flags.until_end && !flags.read.is_empty() {
        return refuse("--until-end is about interfaces: a file ends by itself");
    }
    let filter = usage::filter(&flags.expression)?;
    if flags.json {
        standard::output()?;
    }
    let clock = open::clock(&names).map_err(|error| Usage(error.to_string()))?;
    let options = Options {
        filter: filter.clone(),
        reader_filters: true,
        ring_bytes: flags.ring,
        promiscuous: !flags.not_promiscuous,
        ..Options::default()
    };
    let begun = open::begin(&names, &options, &clock)?;
    privileges::shed(None)?;
    shares::look_up_owners(&begun);
    let sandbox = sandbox::enter(&flags.sandbox, &Needs::default().reading(&flags.read));
    let ports = begun.into_iter().map(Opening::finish);
    let ports = ports.collect::<forebay::Result<Vec<_>>>()?;
    privileges::drop_files()?;
    let (count, stop_after) = Criterion::limits(&flags.autostop, flags.count);
    let config = SessionConfig {
        filter,
        count,
        stop_after,
        ..SessionConfig::default()
    };
    let control = Control::new()?;
    let session = Session::open(ports, Output::Count, config, clock, control.clone())?;
    let heard = control.clone();
    signals::listen(&[], move |asked| {
        if asked == Asked::Stop {
            heard.stop();
        }
    })?;
    output::start(false)?;
    if !flags.quiet {
        for source in session.info().0 {
            let snaplen = source.interfaces[0].snaplen;
            output::say_wrapped(&listening(&source, snaplen, false));
        }
    }
    if let Some(warning) = session.warning() {
        output::warning(warning);
    }
    let verifying = Verifying::new(VerifyConfig {
        window: flags.window,
        outbound: !flags.read.is_empty(),
        ..VerifyConfig::default()
    });
    let feeding = verifying.clone();
    let session = session.each(move |frame, interface| {
        feeding.see(frame, interface);
        true
    });
    let mut ended = None;
    let summary = session.run(&mut |event| match event {
        Event::Progress(progress) => {
            if !flags.quiet {
                let report = verifying.report();
                output::show(|columns| text::progress(progress, &report, columns));
            }
            let verifier = verifying.verifier();
            if flags.until_end && verifier.has_ended() {
                let since = *ended.get_or_insert_with(Instant::now);
                if verifier.is_complete() || since.elapsed() >= PATIENCE {
                    control.finish();
                }
            } else {
                ended = None;
            }
        }
        Event::Outage { source, outages } => note_outage(source, &outages),
        _ => {}
    });
    output::hide();
    let report = verifying.report();
    print(flags, &summary, &report, &sandbox)?;
    Ok(exit_code(&summary, &report))
}

fn note_outage(source: &str, outages: &Outages) {
    let text = match outages.is_down {
        true => "the interface went down; waiting until it is up again",
        false => "the interface is up again",
    };
    output::note(format_args!("{source}: {text}"));
}

/// Prints the result on standard output, and everything else on standard error.
fn print(flags: &Flags, summary: &Summary, report: &VerifyReport, sandbox: &Sandbox) -> Result<()> {
    if let Some(error) = &summary.port_error {
        output::error(error);
    }
    let checks = [summary.ledger.check(), report.check()];
    for violation in checks.into_iter().filter_map(Result::err) {
        output::error(violation);
    }
    if flags.json {
        let object = json::summary(summary, report, flags.window, sandbox);
        output::summary(output::Stream::Output, &output::json(&object));
        return Ok(());
    }
    if let Some(warning) = text::lost_here(&summary.ledger) {
        output::warning(warning);
    }
    let mut text = lines(report, flags.window, flags.verbose);
    text.push(text::law(summary, report));
    output::answer(&(text.join("\n") + "\n"))
}

fn exit_code(summary: &Summary, report: &VerifyReport) -> ExitCode {
    if !summary.is_fine() || report.check().is_err() {
        return ExitCode::from(1);
    }
    match report.is_lossless() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    }
}
