//! `--metrics` and `--metrics-file` of `ship` and `index`: what was done and what waits, in the text format of Prometheus.

use super::args::MetricsFlags;
use anyhow::{Context, Result};
use forebay_archive::{gather, ship::Snapshot};
use std::{
    collections::BTreeMap,
    fmt::{Display, Write},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, UNIX_EPOCH},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

/// Longest head of a request.
const MAX_HEAD: usize = 8 << 10;
/// Clients that are served at the same time.
const MAX_CLIENTS: usize = 16;
/// How long a client may take.
const MAX_TIME: Duration = Duration::from_secs(10);

impl MetricsFlags {
    /// Whether there are metrics.
    pub fn are_wanted(&self) -> bool {
        self.metrics.is_some() || self.metrics_file.is_some()
    }
}

/// Where metrics are served, and the file that has them.
#[derive(Default)]
pub struct Metrics {
    text: Arc<Mutex<String>>,
    file: Option<PathBuf>,
    has_failed: bool,
}

impl Metrics {
    /// Serves at the address of the flags, until the runtime ends. Reports the address, because the port may be 0.
    ///
    /// # Errors
    /// The address cannot be used.
    pub async fn open(flags: &MetricsFlags) -> Result<Metrics> {
        let metrics = Metrics {
            file: flags.metrics_file.clone(),
            ..Metrics::default()
        };
        if let Some(address) = flags.metrics {
            let listener = TcpListener::bind(address).await;
            let listener = listener.with_context(|| {
                format!("--metrics {address}: cannot listen there. Choose another port, or an address of this machine")
            })?;
            let address = listener.local_addr()?;
            super::text::note(&format!("metrics at http://{address}/metrics"));
            tokio::spawn(serve(listener, metrics.text.clone()));
        }
        Ok(metrics)
    }

    /// Replaces what is served and written. Only the first of several errors in a row is printed.
    pub fn renew(&mut self, text: String) {
        if let Some(path) = &self.file {
            let written = replace_file(path, &text);
            if let Err(error) = &written
                && !self.has_failed
            {
                super::text::note(&format!(
                    "--metrics-file {}: cannot write: {error}",
                    path.display()
                ));
            }
            self.has_failed = written.is_err();
        }
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

/// Replaces a file as a whole, so that its readers never see a part of it.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let mut part = path.to_owned().into_os_string();
    part.push(".part");
    fs::write(&part, text).and_then(|()| fs::rename(&part, path))
}

async fn serve(listener: TcpListener, text: Arc<Mutex<String>>) {
    let room = Arc::new(Semaphore::new(MAX_CLIENTS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, for example.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let text = text.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(MAX_TIME, answer(stream, &text)).await;
            drop(permit);
        });
    }
}

/// One request, one response.
async fn answer(mut stream: TcpStream, text: &Mutex<String>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        if head.len() >= MAX_HEAD || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (status, body) = match (method, path.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics")) => {
            let text = text.lock().unwrap_or_else(PoisonError::into_inner);
            ("200 OK", text.clone())
        }
        ("GET" | "HEAD", _) => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        _ => (
            "405 Method Not Allowed",
            "only GET and HEAD are answered\n".to_owned(),
        ),
    };
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

/// The text of metrics.
pub struct Page {
    pub text: String,
    /// What all names begin with.
    prefix: &'static str,
    /// In braces, or empty.
    pub labels: String,
    /// The metric of the last line.
    name: String,
}

impl Page {
    pub fn new(prefix: &'static str, labels: String) -> Page {
        Page {
            text: String::new(),
            prefix,
            labels,
            name: String::new(),
        }
    }

    pub fn put(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        let (name, labels) = (format!("{}_{name}", self.prefix), &self.labels);
        // A metric is described once. Writing to a string does not fail.
        if self.name != name {
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
        let _ = writeln!(self.text, "{name}{labels} {value}");
        self.name = name;
    }
}

/// The metrics of `index`.
pub fn of_index(
    counts: &gather::Counts,
    left: Option<u64>,
    clocks: &BTreeMap<String, i64>,
) -> String {
    let mut page = Page::new("forebay_index", String::new());
    for (name, help, count) in [
        (
            "segments_total",
            "Segments whose rows were added",
            counts.segments,
        ),
        ("packets_total", "Packets in them", counts.packets),
        ("commits_total", "Commits that added them", counts.commits),
        (
            "repeated_total",
            "Messages about segments in the index",
            counts.repeated,
        ),
        (
            "expired_total",
            "Messages about segments that have expired",
            counts.expired,
        ),
        (
            "failed_tries_total",
            "Tries at a segment that failed",
            counts.failed_tries,
        ),
        (
            "set_aside_total",
            "Messages that were set aside",
            counts.set_aside,
        ),
        (
            "other_archive_total",
            "Messages about another archive that were given back",
            counts.other_archive,
        ),
        (
            "failures_total",
            "Times that the store or the server failed",
            counts.failures,
        ),
    ] {
        page.put(name, "counter", help, count);
    }
    // Without an answer there is no sample.
    if let Some(left) = left {
        let help = "Messages that are not acknowledged, those of other indexers included";
        page.put("waiting_messages", "gauge", help, left);
    }
    for (sensor, ahead_s) in clocks {
        page.labels = format!("{{sensor=\"{sensor}\"}}");
        let help = "How far the clock of a sensor is ahead of that of the store, if it is wrong";
        page.put("clock_ahead_seconds", "gauge", help, ahead_s);
    }
    page.text
}

/// The metrics of `ship`.
pub fn of_ship(sensor: &str, snapshot: &Snapshot) -> String {
    let mut page = Page::new("forebay_ship", format!("{{sensor=\"{sensor}\"}}"));
    let counts = &snapshot.counts;
    let captured = snapshot.captured();
    // Files that wait are gone when they are shipped, and also when a capture removes them.
    let (gauge, counter) = (("gauge", ""), ("counter", "_total"));
    for (state, (kind, total), what, amount) in [
        (
            "captured",
            gauge,
            "shipped, waiting, dropped or failed",
            captured,
        ),
        (
            "shipped",
            counter,
            "in the archive with their rows",
            counts.shipped,
        ),
        (
            "waiting",
            gauge,
            "finished and not shipped yet",
            snapshot.waiting,
        ),
        (
            "dropped",
            counter,
            "dropped because the spool was full",
            counts.dropped,
        ),
        ("failed", counter, "in the folder failed", counts.failed),
    ] {
        for (unit, value) in [
            ("files", amount.files),
            ("packets", amount.packets),
            ("bytes", amount.bytes),
        ] {
            let help = format!("{unit} of the spool since the start: {what}");
            page.put(&format!("{state}_{unit}{total}"), kind, &help, value);
        }
    }
    page.put(
        "sent_bytes_total",
        "counter",
        "Bytes sent as segments",
        counts.sent_bytes,
    );
    page.put(
        "repeated_files_total",
        "counter",
        "Shipped files that were in the archive already",
        counts.repeated_files,
    );
    page.put(
        "store_failures_total",
        "counter",
        "Tries that the store or the queue failed",
        counts.failures,
    );
    if let Some(ahead_s) = snapshot.clock_ahead_s {
        let help = "How far the clock is ahead of that of the store";
        page.put("clock_ahead_seconds", "gauge", help, ahead_s);
    }
    let oldest = snapshot
        .oldest
        .and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    // Without a file that waits there is no sample.
    if let Some(oldest) = oldest {
        let help = "When the oldest file that waits was finished, in seconds since 1970";
        page.put(
            "oldest_waiting_timestamp_seconds",
            "gauge",
            help,
            format!("{:.3}", oldest.as_secs_f64()),
        );
    }
    page.text
}
