//! `forebay get`: from flags to a fetch, and from what becomes of it to lines and an exit code.
//!
//! The work is in `forebay_net::http`. The body goes to standard output or to a file; everything else is said on stderr.

use crate::{
    args::Get as Flags,
    output::{plain, say},
    signals,
    usage::Usage,
};
use anyhow::Result;
use forebay_net::{
    http::{Answer, Config, Event, Head, Output, Shown, Stop, Url, get},
    units,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{self, IsTerminal},
    path::Path,
    process::{ExitCode, exit},
    time::{Duration, Instant},
};

/// Fetches, and exits with 0 if all that was asked for is written, or its reader went away.
///
/// # Errors
/// The request makes no sense, the fetch failed, or the output did.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let url: Url = flags
        .url
        .parse()
        .map_err(|error: forebay::Error| Usage(error.to_string()))?;
    let config = config(flags)?;
    let file = flags
        .output
        .as_deref()
        .filter(|&name| name != Path::new("-"));
    let mut output = file.map_or_else(Output::stdout, Output::file);
    // Where the body itself goes to a terminal, a bar would be drawn into it.
    let has_bar = !flags.quiet && (file.is_some() || !io::stdout().is_terminal());
    let screen = Screen::new(flags.quiet, has_bar);
    let stop = Stop::default();
    let mut listening = Ok(());
    let fetched = get(
        &url,
        &config,
        &mut output,
        &mut |event| match event {
            Event::Redirected { head, to } => screen.redirected(head, to),
            Event::Begins { body_length, .. } => {
                // Until here a signal ends us, as it does anyone: nothing is written yet.
                listening = listen(&stop);
                // The length is that of the body alone.
                screen.begins(body_length.filter(|_| config.shown == Shown::Body));
            }
            Event::Written(bytes) => screen.bar.set_position(bytes),
        },
        &stop,
    );
    screen.bar.finish_and_clear();
    listening?;
    let answer = match fetched {
        Ok(answer) => answer,
        Err(error) => {
            if let Some(part) = output.unfinished() {
                say(&format!(
                    "forebay: {} holds what was written",
                    part.display()
                ));
            }
            return Err(error.into());
        }
    };
    if answer.reader_left {
        return Ok(ExitCode::SUCCESS);
    }
    if answer.head.is_failure() {
        say(&format!(
            "forebay: {}: {}",
            answer.url,
            status(&answer.head)
        ));
    }
    let is_written = !answer.head.is_failure() || flags.content_on_error || flags.raw;
    if is_written {
        output.finish()?;
        screen.ends(&answer);
    }
    Ok(ExitCode::from(u8::from(answer.head.is_failure())))
}

fn config(flags: &Flags) -> Result<Config> {
    let limit = |flag: &str, text: &str| {
        let time = units::duration(text).filter(|time| !time.is_zero());
        time.ok_or_else(|| {
            Usage(format!(
                "{flag} {text} is no time. Use one such as 10 or 500ms"
            ))
        })
    };
    Ok(Config {
        shown: match (flags.raw, flags.include) {
            (true, _) => Shown::Raw,
            (false, true) => Shown::HeadAndBody,
            (false, false) => Shown::Body,
        },
        failed_bodies: flags.content_on_error,
        max_redirects: flags.max_redirects,
        allow_downgrade: flags.allow_downgrade,
        connect_limit: limit("--connect", &flags.connect)?,
        silence_limit: limit("--silence", &flags.silence)?,
        roots: flags.cacert.clone(),
        ..Config::default()
    })
}

/// `404 Not Found`.
fn status(head: &Head) -> String {
    let text = format!("{} {}", head.status, head.reason);
    plain(text.trim_end()).into_owned()
}

/// From here on INT, TERM and HUP stop the fetch, so that it can say how far it came; a second one exits at once, also while
/// the output takes nothing.
fn listen(stop: &Stop) -> Result<()> {
    let stop = stop.clone();
    signals::listen(&[], move |_| {
        if stop.is_stopped() {
            exit(1);
        }
        stop.stop();
    })
}

/// What is said on stderr.
struct Screen {
    bar: ProgressBar,
    quiet: bool,
    began: Instant,
}

impl Screen {
    fn new(quiet: bool, has_bar: bool) -> Self {
        // It draws nothing, either, where stderr is no terminal.
        let target = match has_bar {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        Screen {
            bar: ProgressBar::with_draw_target(None, target),
            quiet,
            began: Instant::now(),
        }
    }

    fn redirected(&self, head: &Head, to: &Url) {
        if !self.quiet {
            let text = format!("forebay: {}, on to {to}", status(head));
            self.bar.suspend(|| say(&text));
        }
    }

    fn begins(&self, body_length: Option<u64>) {
        let template = match body_length {
            Some(_) => "{bar:30} {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left",
            None => "{spinner} {bytes}  {bytes_per_sec}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        if let Some(length) = body_length {
            self.bar.set_length(length);
        }
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    /// `forebay: 1048576 bytes, 0.12 s, http://host/path`.
    fn ends(&self, answer: &Answer) {
        if !self.quiet {
            say(&format!(
                "forebay: {} bytes, {:.2} s, {}",
                answer.written_bytes,
                self.began.elapsed().as_secs_f64(),
                answer.url
            ));
        }
    }
}
