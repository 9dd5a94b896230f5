//! The metrics of a snapshot, in the formats of OpenMetrics and of Prometheus.
//!
//! A count that is unknown has no sample; it is never 0.

use super::snapshot::Snapshot;
use crate::counts;
use forebay_net::session::Progress;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use std::{
    fmt::{Error, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The formats of metrics as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// OpenMetrics 1.0.
    Open,
    /// Prometheus' own format 0.0.4, which the textfile collector reads.
    Plain,
}

impl MetricsFormat {
    pub fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            MetricsFormat::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What the metrics are made from.
#[derive(Clone)]
pub struct Sample {
    pub snapshot: Snapshot,
    /// Of the time that the metric's text states.
    pub started: SystemTime,
    /// Whether there is an output, and whether it is a series of files.
    pub writes: bool,
    pub is_series: bool,
    /// Names of the sources.
    pub sources: Vec<String>,
}

impl std::fmt::Debug for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sample")
    }
}

/// The metrics as text. `capture` distinguishes the captures of one machine.
pub fn text(sample: Sample, capture: &str, form: MetricsFormat) -> String {
    let label = ("capture".into(), capture.to_owned().into());
    let mut registry = Registry::with_prefix_and_labels("forebay", [label].into_iter());
    registry.register_collector(Box::new(sample));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut text, &registry);
    match form {
        MetricsFormat::Open => text,
        MetricsFormat::Plain => plain(&text),
    }
}

/// OpenMetrics as the older format, in which the name of a counter includes `_total` where its help and type are, too.
fn plain(open: &str) -> String {
    let mut text = String::new();
    let mut lines = open.lines().peekable();
    while let Some(line) = lines.next() {
        let name = |prefix: &str| line.strip_prefix(prefix)?.split(' ').next();
        let is_counter = match (name("# HELP "), name("# TYPE ")) {
            (Some(name), _) => lines.peek() == Some(&&*format!("# TYPE {name} counter")),
            (_, Some(_)) => line.ends_with(" counter"),
            _ => false,
        };
        if line == "# EOF" {
            continue;
        }
        let Some((start, name, rest)) = is_counter.then(|| words(line)).flatten() else {
            text += line;
            text.push('\n');
            continue;
        };
        let _ = writeln!(text, "{start}{name}_total {rest}");
    }
    text
}

/// `# TYPE `, the name and the rest of a line.
fn words(line: &str) -> Option<(&str, &str, &str)> {
    let (start, line) = line.split_at_checked("# TYPE ".len())?;
    let (name, rest) = line.split_once(' ')?;
    Some((start, name, rest))
}

/// None, or one.
type Labels = Vec<(&'static str, String)>;

/// Values of one metric by label, without those that are unknown.
fn by_label<T>(
    label: &'static str,
    values: impl IntoIterator<Item = (impl Into<String>, Option<T>)>,
) -> Vec<(Labels, T)> {
    let known = values.into_iter();
    let known = known.filter_map(|(name, value)| Some((name.into(), value?)));
    known
        .map(|(name, value)| (vec![(label, name)], value))
        .collect()
}

fn one<T>(value: Option<T>) -> Vec<(Labels, T)> {
    value
        .map(|value| (Labels::new(), value))
        .into_iter()
        .collect()
}

struct Encoder<'a>(DescriptorEncoder<'a>);

impl Encoder<'_> {
    fn put<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        samples: Vec<(Labels, M)>,
    ) -> Result<(), Error> {
        if samples.is_empty() {
            return Ok(());
        }
        let mut metric = (self.0).encode_descriptor(name, help, None, kind)?;
        for (labels, value) in samples {
            value.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, values: Vec<(Labels, u64)>) -> Result<(), Error> {
        let values = values.into_iter();
        let values = values.map(|(labels, value)| (labels, ConstCounter::new(value)));
        self.put(name, help, MetricType::Counter, values.collect())
    }

    fn gauge(&mut self, name: &str, help: &str, values: Vec<(Labels, f64)>) -> Result<(), Error> {
        let values = values.into_iter();
        let values = values.map(|(labels, value)| (labels, ConstGauge::new(value)));
        self.put(name, help, MetricType::Gauge, values.collect())
    }
}

impl Sample {
    /// The columns of the law, and what is outside of it.
    fn packets(&self, put: &mut Encoder<'_>) -> Result<(), Error> {
        let progress = &self.snapshot.progress;
        let ledger = &progress.ledger;
        let is_final = self.snapshot.summary.is_some();
        put.counter(
            "packets_received",
            "Packets that the sources received, including those they dropped",
            one(Some(ledger.received)),
        )?;
        put.counter(
            "packets_written",
            "Packets written to the output",
            one(self.writes.then_some(ledger.written)),
        )?;
        put.counter(
            "packets_counted",
            "Packets taken by a capture without an output",
            one((!self.writes).then_some(ledger.counted)),
        )?;
        put.counter(
            "packets_durable",
            "Packets that a power failure cannot lose",
            one(self.writes.then_some(progress.durable)),
        )?;
        put.counter(
            "packets_filtered",
            "Packets rejected by the filter",
            one(counts::filtered(ledger, progress.filters_uncounted)),
        )?;
        put.counter(
            "packets_unread",
            "Packets received after the packet limit, or left when the capture was aborted",
            one(Some(ledger.unread)),
        )?;
        put.counter(
            "packets_dropped",
            "Packets lost, by cause",
            by_label("cause", ledger.dropped.by_cause()),
        )?;
        let waiting = ledger.received as i64 - ledger.accounted() as i64;
        // At the end, a difference is a violation of the law and is shown as it is.
        let waiting = if is_final { waiting } else { waiting.max(0) };
        put.gauge(
            "packets_waiting",
            "Packets received that are in no other count yet; 0 at the end",
            one(Some(waiting as f64)),
        )?;
        put.counter(
            "interface_dropped_packets",
            "Packets lost by interfaces before the sources received them",
            one(ledger.interface_dropped),
        )?;
        put.gauge(
            "drop_burst_max_packets",
            "Most packets lost within a second, in the last minute",
            one(self.snapshot.recent.burst.map(|burst| burst as f64)),
        )
    }

    fn bytes(&self, put: &mut Encoder<'_>) -> Result<(), Error> {
        let progress = &self.snapshot.progress;
        let written = |bytes: u64| one(self.writes.then_some(bytes));
        put.counter(
            "wire_bytes",
            "Length on the wire of the packets taken",
            one(Some(progress.wire_bytes)),
        )?;
        put.counter(
            "packets_cut",
            "Packets taken with fewer bytes than they had on the wire",
            one(Some(progress.cut)),
        )?;
        put.counter(
            "written_bytes",
            "Bytes written to the output",
            written(progress.written_bytes),
        )?;
        put.counter(
            "durable_bytes",
            "Bytes that a power failure cannot lose",
            written(progress.durable_bytes),
        )?;
        put.gauge(
            "pending_bytes",
            "Bytes in buffers that wait to be written",
            one(self.writes.then_some(progress.pending_bytes as f64)),
        )?;
        let store = self.writes.then_some(progress.fill);
        let now = [("ring", progress.ring_fill), ("store", store)];
        put.gauge(
            "buffer_fill_ratio",
            "Fill level of the fullest source's ring, and of the buffers between it and the output",
            by_label("buffer", now),
        )?;
        put.gauge(
            "buffer_fill_max_ratio",
            "Highest fill level in the last minute",
            by_label(
                "buffer",
                [
                    ("ring", self.snapshot.recent.ring),
                    ("store", self.snapshot.recent.store),
                ],
            ),
        )
    }

    fn operation(&self, put: &mut Encoder<'_>) -> Result<(), Error> {
        let Progress {
            files_written,
            files_removed,
            files_removed_for_space,
            modes,
            ..
        } = &self.snapshot.progress;
        put.counter(
            "files_written",
            "Complete files of a series",
            one(self.is_series.then_some(*files_written)),
        )?;
        put.counter(
            "files_removed",
            "Files removed for newer ones",
            one(self.is_series.then_some(*files_removed)),
        )?;
        put.counter(
            "files_removed_for_space",
            "Files removed to keep space free",
            one(self.is_series.then_some(*files_removed_for_space)),
        )?;
        let outages = |value: fn(&forebay_net::port::Outages) -> f64| {
            let of = |name: &String| self.snapshot.outages.get(name).map_or(0.0, value);
            let sources = self.sources.iter();
            by_label(
                "interface",
                sources.map(|name| (name.clone(), Some(of(name)))),
            )
        };
        let counts = outages(|outages| outages.count as f64).into_iter();
        let counts = counts.map(|(labels, count)| (labels, count as u64));
        put.counter(
            "interface_outages",
            "Times at which the interface went down",
            counts.collect(),
        )?;
        put.gauge(
            "interface_down",
            "1 while the interface is down",
            outages(|outages| f64::from(u8::from(outages.is_down))),
        )?;
        let seconds = [("busy", modes.busy), ("asleep", modes.asleep)];
        let seconds = by_label(
            "mode",
            seconds.map(|(mode, time)| (mode, Some(time.as_secs_f64()))),
        );
        let seconds = seconds.into_iter();
        let seconds = seconds.map(|(labels, value)| (labels, ConstCounter::new(value)));
        put.put(
            "poll_seconds",
            "Time that the capturing thread worked or slept",
            MetricType::Counter,
            seconds.collect(),
        )?;
        let is_running = self.snapshot.summary.is_none();
        put.gauge(
            "running",
            "1 while the capture runs, 0 once these counts are final",
            one(Some(f64::from(u8::from(is_running)))),
        )?;
        let seconds = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            one(Some(since.as_millis() as f64 / 1e3))
        };
        put.gauge(
            "start_time_seconds",
            "Start of the capture, in seconds since 1970",
            seconds(self.started),
        )?;
        put.gauge(
            "snapshot_time_seconds",
            "When the capture reported these counts, in seconds since 1970",
            seconds(self.snapshot.at.unwrap_or(self.started)),
        )?;
        let version = crate::args::VERSION;
        put.gauge(
            "build_info",
            "Always 1; the label is the version",
            by_label("version", [(version, Some(1.0))]),
        )
    }
}

impl Collector for Sample {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut put = Encoder(encoder);
        self.packets(&mut put)?;
        self.bytes(&mut put)?;
        self.operation(&mut put)
    }
}
