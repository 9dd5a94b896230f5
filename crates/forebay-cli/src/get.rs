//! `forebay get`: turns flags into a fetch, and its result into text and an exit code.
//!
//! `forebay_io::http` does the work. The body goes to standard output or to a file; everything else to standard error.

mod display;

use crate::{
    args::Get as Flags,
    output,
    sandbox::{self, Needs},
    signals,
    usage::{Usage, refuse},
};
use anyhow::{Result, bail};
use display::{TransferDisplay, status};
use forebay_io::http::{
    Answer, Destination, Event, Field, HttpConfig, Parted, Proxies, Shown, Stop, Url, Version, get,
};
use rustix::{fs::Mode, process::umask};
use std::{
    cell::RefCell,
    io::{self, ErrorKind, IsTerminal, Write, stderr},
    path::{Path, PathBuf},
    process::{ExitCode, exit},
};

/// Fetches; success if everything requested is written, or the reader of the output left.
///
/// # Errors
/// A bad request, or the fetch or the output failed.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let fetches = flags.urls.iter().map(|text| Fetch::of(text, flags));
    let mut fetches = fetches.collect::<Result<Vec<_>>>()?;
    refuse_odd_requests(flags, &fetches)?;
    let config = config(flags)?;
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
    if flags.continues.is_some() {
        // In the sandbox nothing of it could be read.
        for fetch in &mut fetches {
            fetch.parted = fetch.file.as_deref().map(Parted::beside).transpose()?;
        }
    }
    sandbox::enter(&flags.sandbox, &needs);
    let mut has_failed = false;
    for fetch in fetches {
        if watch.stop.is_stopped() {
            output::error("stopped: not all URLs were fetched");
            has_failed = true;
            break;
        }
        match fetch.run(flags, &config, &mut watch) {
            Ok(Ended::Well) => {}
            Ok(Ended::ReaderLeft) => break,
            Ok(Ended::Refused) => has_failed = true,
            Err(error) if flags.urls.len() == 1 => return Err(error),
            Err(error) => {
                output::error(output::causes(&error));
                has_failed = true;
            }
        }
    }
    Ok(ExitCode::from(u8::from(has_failed)))
}

fn refuse_odd_requests(flags: &Flags, fetches: &[Fetch]) -> Result<()> {
    if flags.continues.is_some() && fetches.iter().any(|it| it.file.is_none()) {
        return refuse("-C - continues a file: name it with -o, or use -O");
    }
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
    /// Where a beginning of it is kept, if it is.
    parted: Option<Parted>,
    continues: bool,
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
        Ok(Fetch {
            url,
            file,
            parted: None,
            continues: flags.continues.is_some(),
        })
    }

    fn run(mut self, flags: &Flags, config: &HttpConfig, watch: &mut Watch) -> Result<Ended> {
        let parted = self.parted.take();
        let file = self.file.as_deref();
        let mut output = file.map_or_else(Destination::stdout, |file| {
            Destination::file(file).with_new_mode(watch.new_mode)
        });
        if let Some(sum) = flags.sha256 {
            output = output.with_sha256(sum);
        }
        if let Some(parted) = parted {
            output = output.with_parts(parted);
        }
        let mut config = HttpConfig {
            kept: output.kept().cloned(),
            ..config.clone()
        };
        // A progress line would be drawn into a body that goes to the same terminal.
        let is_on_terminal = file.is_none() && io::stdout().is_terminal();
        let has_bar = !flags.quiet && !is_on_terminal;
        let mut screen = TransferDisplay::new(flags.quiet, has_bar && stderr().is_terminal());
        let output = Shielded {
            output: RefCell::new(output),
            ready: RefCell::new(Ok(())),
            // The user asked for it with -o -.
            is_shielded: is_on_terminal && flags.output.is_none(),
        };
        let mut fetched = self.fetch(&config, &output, &mut screen, watch);
        if let Ok(answer) = &fetched
            && config.kept.is_some()
            && matches!(answer.head.status, 206 | 416)
            && answer.written_bytes == 0
            && !answer.was_whole
        {
            // What is there now is shorter, or longer.
            screen.begins_anew(config.kept.take().as_ref());
            fetched = self.fetch(&config, &output, &mut screen, watch);
        }
        output::hide();
        output.ready.into_inner()?;
        let mut output = output.output.into_inner();
        let answer = match (fetched, file) {
            (Err(error), Some(file)) => match output.keeps() {
                Some((part, bytes)) => bail!(
                    "{error}. {} keeps {}: the same command goes on from there",
                    part.display(),
                    output::counted(bytes, "byte", "bytes")
                ),
                None if output.is_replacing() => {
                    let file = file.display();
                    bail!("{error}, and removed again: {file} is as it was before")
                }
                None => return Err(error.into()),
            },
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
        if answer.was_whole {
            let whole = config.kept.map_or(0, |kept| kept.bytes);
            screen.begins(None, whole);
            output.begin(whole, None)?;
            output.finish()?;
            screen.ends(&answer);
            return Ok(Ended::Well);
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
            if flags.sha256.is_none() && !flags.quiet && has_no_end(&answer) {
                output::warning(format_args!(
                    "{}: the server sent no length, so a response that was cut off would look the same",
                    answer.url
                ));
            }
        }
        Ok(match answer.head.is_failure() {
            true => Ended::Refused,
            false => Ended::Well,
        })
    }
}

impl Fetch {
    fn fetch(
        &self,
        config: &HttpConfig,
        output: &Shielded,
        screen: &mut TransferDisplay,
        watch: &mut Watch,
    ) -> forebay::Result<Answer> {
        let stop = watch.stop.clone();
        let mut events = |event: Event<'_>| match event {
            Event::Redirected { head, to } => screen.redirected(head, to),
            Event::Begins {
                url,
                head,
                body_length,
                kept_bytes,
            } => {
                if kept_bytes == 0 {
                    screen.begins_anew(config.kept.as_ref());
                }
                let version = Version::of(&self.url, url, head, body_length);
                let begun = output
                    .output
                    .borrow_mut()
                    .begin(kept_bytes, version.as_ref());
                if begun.is_ok() && version.is_none() && self.continues && kept_bytes == 0 {
                    screen.has_no_version();
                }
                // Until here signals end the process as usual: nothing is written yet.
                let listening = match watch.is_listening {
                    false => listen(&watch.stop),
                    true => Ok(()),
                };
                watch.is_listening = true;
                *output.ready.borrow_mut() = begun.map_err(Into::into).and(listening);
                // The length is that of the body alone.
                let length = body_length.filter(|_| config.shown == Shown::Body);
                screen.begins(length, kept_bytes);
            }
            Event::Written(bytes) => screen.written(bytes),
        };
        get(&self.url, config, &mut &*output, &mut events, &stop)
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

fn config(flags: &Flags) -> Result<HttpConfig> {
    let fields = flags.fields.iter().map(|text| text.parse::<Field>());
    let fields = fields.collect::<forebay::Result<_>>();
    Ok(HttpConfig {
        fields: fields.map_err(|error| Usage(format!("-H: {error}")))?,
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
    })
}

/// Whether only the end of a connection without TLS marks the end of the body.
fn has_no_end(answer: &Answer) -> bool {
    let is_absent = |name| answer.head.values(name).next().is_none();
    let has_body = !matches!(answer.head.status, 204 | 304);
    has_body
        && !answer.url.is_secure()
        && is_absent("content-length")
        && is_absent("transfer-encoding")
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

/// An output that events prepare while bytes arrive, and that may be a terminal: only text without control characters is written there.
struct Shielded {
    output: RefCell<Destination>,
    /// Whether it could be prepared.
    ready: RefCell<Result<()>>,
    is_shielded: bool,
}

impl Write for &Shielded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_shielded && bytes.iter().any(|&byte| controls_terminals(byte)) {
            return Err(io::Error::other(
                "it is not text, and standard output is a terminal. Use -o FILE or a pipe, or -o - to write it here all the same",
            ));
        }
        if self.ready.borrow().is_err() {
            // The cause is reported instead of this.
            return Err(ErrorKind::Other.into());
        }
        self.output.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.borrow_mut().flush()
    }
}

/// Control characters, except those of ordinary text.
fn controls_terminals(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | b'\x0c')
}
