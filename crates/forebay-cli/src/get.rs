//! `forebay get`: turns flags into a fetch, and its result into text and an exit code.
//!
//! `forebay_io::http` does the work. The body goes to standard output or to a file; everything else to standard error.

use crate::{
    args::Get as Flags,
    output::{self, Fields, Layout},
    sandbox::{self, Needs},
    signals,
    usage::{Usage, refuse},
};
use anyhow::{Result, bail};
use forebay_io::{
    http::{Answer, Destination, Event, Head, HttpConfig, Proxies, Shown, Stop, Url, get},
    pipe::Progress,
};
use rustix::{fs::Mode, process::umask};
use std::{
    io::{self, IsTerminal, Write, stderr},
    path::{Path, PathBuf},
    process::{ExitCode, exit},
    time::{Duration, Instant},
};

/// Fetches; success if everything requested is written, or the reader of the output left.
///
/// # Errors
/// A bad request, or the fetch or the output failed.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let fetches = flags.urls.iter().map(|text| Fetch::of(text, flags));
    let fetches = fetches.collect::<Result<Vec<_>>>()?;
    refuse_odd_requests(flags, &fetches)?;
    let config = config(flags);
    let needs = Needs {
        network: true,
        ..Needs::default()
    };
    let mut needs = needs.reading(&config.roots);
    let mut replaces = false;
    for file in fetches.iter().filter_map(|it| it.file.as_deref()) {
        replaces |= file.is_file();
        needs = needs.replacing(file);
    }
    let mut watch = Watch::default();
    if replaces {
        // A replacement has to be created with the permissions of its file. In the sandbox they cannot be changed.
        let withheld = umask(Mode::empty());
        watch.new_mode &= !withheld.as_raw_mode();
    }
    sandbox::enter(&flags.sandbox, &needs);
    let mut has_failed = false;
    for fetch in &fetches {
        if watch.stop.is_stopped() {
            output::error("stopped: not all URLs were fetched");
            has_failed = true;
            break;
        }
        match fetch.run(flags, &config, &mut watch) {
            Ok(Ended::Well) => {}
            Ok(Ended::ReaderLeft) => break,
            Ok(Ended::Refused) => has_failed = true,
            Err(error) if fetches.len() == 1 => return Err(error),
            Err(error) => {
                output::error(output::causes(&error));
                has_failed = true;
            }
        }
    }
    Ok(ExitCode::from(u8::from(has_failed)))
}

fn refuse_odd_requests(flags: &Flags, fetches: &[Fetch]) -> Result<()> {
    if fetches.len() == 1 {
        return Ok(());
    }
    if flags.output.is_some() {
        return refuse("-o is one file, and there are several URLs. Use -O, or leave -o out");
    }
    if flags.sha256.is_some() {
        return refuse("--sha256 is the sum of one file, and there are several URLs");
    }
    let mut names: Vec<_> = fetches.iter().filter_map(|it| it.file.as_ref()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => refuse(format!(
            "-O: two URLs have the same last name, {}. Fetch them one by one, with -o",
            pair[0].display()
        )),
        None => Ok(()),
    }
}

/// A URL, and where it goes.
struct Fetch {
    url: Url,
    /// `None` is standard output.
    file: Option<PathBuf>,
}

/// How a fetch ended.
enum Ended {
    Well,
    ReaderLeft,
    /// The server answered with an error.
    Refused,
}

/// What all fetches share.
struct Watch {
    stop: Stop,
    is_listening: bool,
    /// The permissions of files that are new.
    new_mode: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            stop: Stop::default(),
            is_listening: false,
            new_mode: 0o666,
        }
    }
}

impl Fetch {
    fn of(text: &str, flags: &Flags) -> Result<Fetch> {
        let url = with_scheme(text).parse::<Url>();
        let url = url.map_err(|error| Usage(error.to_string()))?;
        let file = match flags.remote_name {
            false => flags.output.clone().filter(|name| name != Path::new("-")),
            true => {
                let path = url.target().split('?').next().unwrap_or_default();
                match path.rsplit('/').next() {
                    None | Some("") => {
                        return refuse(format!(
                            "-O: {url} ends with no name of a file. Choose one, with -o"
                        ));
                    }
                    name => name.map(PathBuf::from),
                }
            }
        };
        Ok(Fetch { url, file })
    }

    fn run(&self, flags: &Flags, config: &HttpConfig, watch: &mut Watch) -> Result<Ended> {
        let file = self.file.as_deref();
        let mut output = file.map_or_else(Destination::stdout, |file| {
            Destination::file(file).with_new_mode(watch.new_mode)
        });
        if let Some(sum) = flags.sha256 {
            output = output.with_sha256(sum);
        }
        // A progress line would be drawn into a body that goes to the same terminal.
        let is_on_terminal = file.is_none() && io::stdout().is_terminal();
        let has_bar = !flags.quiet && !is_on_terminal;
        let mut screen = TransferDisplay::new(flags.quiet, has_bar && stderr().is_terminal());
        let stop = watch.stop.clone();
        let mut listening = Ok(());
        let fetched = get(
            &self.url,
            config,
            &mut Shielded {
                output: &mut output,
                // The user asked for it with -o -.
                is_shielded: is_on_terminal && flags.output.is_none(),
            },
            &mut |event| match event {
                Event::Redirected { head, to } => screen.redirected(head, to),
                Event::Begins { body_length, .. } => {
                    // Until here signals end the process as usual: nothing is written yet.
                    if !watch.is_listening {
                        watch.is_listening = true;
                        listening = listen(&watch.stop);
                    }
                    // The length is that of the body alone.
                    screen.begins(body_length.filter(|_| config.shown == Shown::Body));
                }
                Event::Written(bytes) => screen.written(bytes),
            },
            &stop,
        );
        output::hide();
        listening?;
        let answer = match (fetched, file) {
            (Err(error), Some(file)) if output.is_replacing() => {
                let file = file.display();
                bail!("{error}, and removed again: {file} is as it was before")
            }
            (fetched, _) => fetched?,
        };
        if answer.reader_left {
            if flags.sha256.is_some() {
                bail!(
                    "{}: the reader left before the end, so its SHA-256 was not compared",
                    answer.url
                );
            }
            return Ok(Ended::ReaderLeft);
        }
        if answer.head.is_failure() {
            output::error(format_args!("{}: {}", answer.url, status(&answer.head)));
        }
        let is_written = !answer.head.is_failure() || flags.content_on_error || flags.raw;
        if answer.head.status == 204 && !flags.raw && file.is_some() {
            bail!(
                "{}: the server sends no content (status 204): no file was written",
                answer.url
            );
        }
        if is_written {
            output.finish()?;
            screen.ends(&answer);
        }
        Ok(match answer.head.is_failure() {
            true => Ended::Refused,
            false => Ended::Well,
        })
    }
}

/// As curl and browsers do: without a scheme it is http. A name before a port is no scheme.
fn with_scheme(text: &str) -> String {
    let begins_a_host = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    let has_scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        let port = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let is_port = !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit());
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && !scheme.contains(['/', '.'])
            && !is_port
    });
    match begins_a_host && !has_scheme {
        true => format!("http://{text}"),
        false => text.into(),
    }
}

fn config(flags: &Flags) -> HttpConfig {
    HttpConfig {
        shown: match (flags.raw, flags.include) {
            (true, _) => Shown::Raw,
            (false, true) => Shown::HeadAndBody,
            (false, false) => Shown::Body,
        },
        failed_bodies: flags.content_on_error,
        max_redirects: flags.max_redirects,
        allow_downgrade: flags.allow_downgrade,
        connect_limit: flags.connect,
        silence_limit: flags.silence,
        roots: flags.cacert.clone(),
        proxies: Proxies::from_environment(),
        ..HttpConfig::default()
    }
}

/// `404 Not Found`.
fn status(head: &Head) -> String {
    let text = format!("{} {}", head.status, head.reason);
    text.trim_end().to_owned()
}

/// From here on INT, TERM and HUP stop the fetch, which then reports how far it got. A second one exits at once, even while the
/// output is blocked.
fn listen(stop: &Stop) -> Result<()> {
    output::start(false)?;
    let stop = stop.clone();
    signals::listen(&[], move |_| {
        if stop.is_stopped() {
            exit(1);
        }
        stop.stop();
    })
}

/// An output that may be a terminal: only text without control characters is written there.
struct Shielded<'a> {
    output: &'a mut Destination,
    is_shielded: bool,
}

impl Write for Shielded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_shielded && bytes.iter().any(|&byte| controls_terminals(byte)) {
            return Err(io::Error::other(
                "it is not text, and standard output is a terminal. Use -o FILE or a pipe, or -o - to write it here all the same",
            ));
        }
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Control characters, except those of ordinary text.
fn controls_terminals(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | b'\x0c')
}

/// Interval between two updates of the display.
const EVERY: Duration = Duration::from_millis(200);

/// What is printed on standard error.
struct TransferDisplay {
    quiet: bool,
    draws: bool,
    layout: Layout,
    began: Instant,
    /// When the display was drawn, how often, and the number of bytes that it showed.
    drawn: (Instant, u64, u64),
}

impl TransferDisplay {
    fn new(quiet: bool, draws: bool) -> Self {
        let began = Instant::now();
        TransferDisplay {
            quiet,
            draws,
            layout: Layout::default(),
            began,
            drawn: (began, 0, 0),
        }
    }

    fn redirected(&self, head: &Head, to: &Url) {
        if !self.quiet {
            output::note(format_args!("{}, on to {to}", status(head)));
        }
    }

    fn begins(&mut self, body_length: Option<u64>) {
        self.layout = Layout {
            fields: Fields {
                buffer: false,
                ..Fields::usual()
            },
            size: body_length,
            ..Layout::default()
        };
    }

    fn written(&mut self, bytes: u64) {
        let (last, ticks, before) = self.drawn;
        let since = last.elapsed();
        if !self.draws || since < EVERY {
            return;
        }
        self.drawn = (Instant::now(), ticks + 1, bytes);
        let progress = Progress {
            elapsed: self.began.elapsed(),
            bytes_written: bytes,
            bytes_per_second: bytes.saturating_sub(before) as f64 / since.as_secs_f64(),
            ..Progress::default()
        };
        output::show(|columns| self.layout.line(&progress, ticks, columns));
    }

    /// `forebay: 1048576 bytes, 0.12 s, http://host/path`.
    fn ends(&self, answer: &Answer) {
        if !self.quiet {
            output::note(format_args!(
                "{}, {:.2} s, {}",
                output::counted(answer.written_bytes, "byte", "bytes"),
                self.began.elapsed().as_secs_f64(),
                answer.url
            ));
        }
    }
}
