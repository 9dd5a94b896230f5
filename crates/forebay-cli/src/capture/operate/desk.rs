//! The answers to requests, from the latest snapshot.

use super::{
    super::{json::progress as running, request::Request},
    file::MetricsFile,
    metrics::{self, MetricsFormat, Sample},
    scrapers::Scrapers,
    snapshot::{Latest, Snapshot},
};
use crate::counts;
use forebay::store::StoreInfo;
use forebay_net::session::{Control, Session, Source};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// What does not change during a capture.
pub struct About {
    /// Distinguishes the captures of one machine.
    pub capture: String,
    pub started: SystemTime,
    pub output: Option<String>,
    pub is_series: bool,
    pub share: Option<String>,
    pub sources: Vec<Source>,
    pub store: Option<StoreInfo>,
}

impl About {
    pub fn of(request: &Request, session: &Session) -> Self {
        let (sources, store) = session.info();
        let names = sources.iter().map(|source| source.name.as_str());
        let names = names.collect::<Vec<_>>().join(",");
        let control = request.watched.control.as_ref().map(Path::new);
        let name = control.and_then(Path::file_name);
        About {
            capture: name.map_or(names, |name| name.to_string_lossy().into()),
            started: SystemTime::now(),
            output: request
                .write
                .as_ref()
                .map(|path| path.display().to_string()),
            is_series: request.rotation.is_some(),
            share: request.share_name().map(|name| name.to_string()),
            sources,
            store,
        }
    }
}

pub struct Desk {
    pub about: About,
    pub latest: Latest,
    pub control: Control,
    pub metrics: Option<SocketAddr>,
    pub scrapers: Scrapers,
    /// The longest wait for the scrape of the final counts.
    pub patience: Duration,
}

impl Desk {
    pub fn new(about: About, latest: Latest, control: Control, patience: Duration) -> Self {
        Desk {
            about,
            latest,
            control,
            metrics: None,
            scrapers: Scrapers::default(),
            patience,
        }
    }

    /// The answer to a line; `None`: at the end of the capture.
    pub fn answer(&mut self, line: &[u8]) -> Option<Value> {
        let Ok(request) = serde_json::from_slice::<Value>(line) else {
            return Some(error("a request is one JSON object in a line"));
        };
        let done = json!({ "ok": true });
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs_f64();
        if (request["valid_until"].as_f64()).is_some_and(|until| until < now) {
            return Some(error("the request came too late: its sender has given up"));
        }
        Some(match request["command"].as_str() {
            Some("status") => json!({ "ok": true, "status": self.status() }),
            Some("stop") => {
                self.control.finish();
                return None;
            }
            Some("rotate") if !self.about.is_series => {
                error("this capture writes no series of files. Start it with -b, -C or -G")
            }
            Some("flush") if self.about.store.is_none() => error("this capture has no output"),
            Some("rotate" | "flush" | "trigger") if self.control.is_stopping() => {
                error("the capture is ending")
            }
            Some("rotate") => {
                self.control.rotate();
                done
            }
            Some("flush") => {
                self.control.flush();
                done
            }
            Some("trigger") => match self.control.trigger() {
                true => done,
                false => error("this capture has no recorder. Start it with --recorder"),
            },
            _ => error("no such command. Use status, stop, rotate, flush or trigger"),
        })
    }

    fn status(&self) -> Value {
        let Snapshot {
            progress,
            peaks,
            outages,
            newest,
            summary,
            ..
        } = self.latest.get();
        let mut status = summary.unwrap_or_else(|| running(&progress));
        let about = &self.about;
        let started = about.started.duration_since(UNIX_EPOCH);
        let sources = about.sources.iter().map(|source| {
            let mut object = counts::source(source);
            let outages = outages.get(&source.name).copied().unwrap_or_default();
            object["outages"] = counts::outages(&outages);
            object["down"] = outages.is_down.into();
            object
        });
        let more = json!({
            "capture": about.capture,
            "version": crate::args::VERSION,
            "pid": std::process::id(),
            "started": started.unwrap_or_default().as_secs_f64(),
            "stopping": self.control.is_stopping(),
            "output": about.output,
            "newest_files": newest.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
            "sources": sources.collect::<Vec<_>>(),
            "poll": {
                "busy_seconds": progress.modes.busy.as_secs_f64(),
                "asleep_seconds": progress.modes.asleep.as_secs_f64(),
            },
            "ring_max_fill": peaks.ring,
            "buffer_max_fill": peaks.store,
            "drop_burst_max": peaks.burst,
            "buffer_limit_bytes": about.store.map(|store| store.limit_bytes),
            "recorder": self.control.takes_triggers(),
            "share": about.share,
            "metrics": self.metrics.map(|address| address.to_string()),
        });
        if let (Some(status), Value::Object(more)) = (status.as_object_mut(), more) {
            status.extend(more);
        }
        status
    }

    fn sample(&self, snapshot: Snapshot) -> Sample {
        let sources = self.about.sources.iter();
        Sample {
            snapshot,
            started: self.about.started,
            // A recorder has the name of an output, but its session only counts.
            writes: self.about.store.is_some(),
            is_series: self.about.is_series,
            sources: sources.map(|source| source.name.clone()).collect(),
        }
    }

    /// The metrics, and whether the counts are final.
    pub fn scrape(&self, form: MetricsFormat) -> (String, bool) {
        let snapshot = self.latest.get();
        let is_final = snapshot.summary.is_some();
        let text = metrics::text(self.sample(snapshot), &self.about.capture, form);
        (text, is_final)
    }

    /// Until when the final counts are kept for the next scrapes; `None`: no client waits for them.
    pub fn lingers_until(&self, ended: Instant) -> Option<Instant> {
        let due = self.scrapers.due()?;
        Some(due.min(ended + self.patience))
    }

    /// Writes the metrics to the file.
    pub fn write(&self, file: &mut MetricsFile) -> anyhow::Result<()> {
        let sample = self.sample(self.latest.get());
        file.write(&metrics::text(
            sample,
            &self.about.capture,
            MetricsFormat::Plain,
        ))
    }
}

/// An answer to a request that was not carried out.
pub fn error(text: impl std::fmt::Display) -> Value {
    json!({ "ok": false, "error": text.to_string() })
}
