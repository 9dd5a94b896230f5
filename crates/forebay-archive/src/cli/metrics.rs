//! `ship --metrics` and `--metrics-file`: what was shipped and what waits, in the text format of Prometheus.

use anyhow::{Context, Result};
use forebay_archive::ship::{Amount, Snapshot};
use std::{
    fmt::Write,
    fs,
    net::SocketAddr,
    path::PathBuf,
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

/// Where metrics are served, and the file that has them.
#[derive(Default)]
pub struct Metrics {
    text: Arc<Mutex<String>>,
    file: Option<PathBuf>,
    has_failed: bool,
}

impl Metrics {
    /// Serves at `address`, until the runtime ends. Reports the address, because the port may be 0.
    ///
    /// # Errors
    /// The address cannot be used.
    pub async fn open(address: Option<SocketAddr>, file: Option<PathBuf>) -> Result<Metrics> {
        let metrics = Metrics {
            file,
            ..Metrics::default()
        };
        if let Some(address) = address {
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
            let mut part = path.clone().into_os_string();
            part.push(".part");
            let written = fs::write(&part, &text).and_then(|()| fs::rename(&part, path));
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

/// The metrics of a snapshot.
pub fn text(sensor: &str, snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let mut put = |name: &str, kind: &str, help: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP forebay_ship_{name} {help}\n# TYPE forebay_ship_{name} {kind}\nforebay_ship_{name}{{sensor=\"{sensor}\"}} {value}"
        );
    };
    let counts = &snapshot.counts;
    let captured = snapshot.captured();
    for (
        state,
        kind,
        total,
        what,
        Amount {
            files,
            packets,
            bytes,
        },
    ) in [
        (
            "captured",
            "gauge",
            "",
            "shipped, waiting, dropped or failed",
            captured,
        ),
        (
            "shipped",
            "counter",
            "_total",
            "in the archive with their rows",
            counts.shipped,
        ),
        (
            "waiting",
            "gauge",
            "",
            "finished and not shipped yet",
            snapshot.waiting,
        ),
        (
            "dropped",
            "counter",
            "_total",
            "dropped because the spool was full",
            counts.dropped,
        ),
        (
            "failed",
            "counter",
            "_total",
            "in the folder failed",
            counts.failed,
        ),
    ] {
        for (unit, value) in [("files", files), ("packets", packets), ("bytes", bytes)] {
            let help = format!("{unit} of the spool since the start: {what}");
            put(
                &format!("{state}_{unit}{total}"),
                kind,
                &help,
                value.to_string(),
            );
        }
    }
    put(
        "sent_bytes_total",
        "counter",
        "Bytes sent as segments",
        counts.sent_bytes.to_string(),
    );
    put(
        "repeated_files_total",
        "counter",
        "Shipped files that were in the archive already",
        counts.repeated_files.to_string(),
    );
    put(
        "store_failures_total",
        "counter",
        "Tries that the store failed",
        counts.failures.to_string(),
    );
    let oldest = snapshot
        .oldest
        .and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    // Without a file that waits there is no sample.
    if let Some(oldest) = oldest {
        let help = "When the oldest file that waits was finished, in seconds since 1970";
        put(
            "oldest_waiting_timestamp_seconds",
            "gauge",
            help,
            format!("{:.3}", oldest.as_secs_f64()),
        );
    }
    text
}
