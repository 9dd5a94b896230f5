//! The flags of `forebay-archive`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_archive::{
    announce::Address,
    compact::VACUUM_AGES,
    expire::{self, Rule},
    find,
    ship::spool::Keep,
    verify::Sample,
};
use forebay_net::units;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

/// Keep finished captures in a folder or an object store, with an index that leads back to the packets
#[derive(Debug, Parser)]
#[command(name = "forebay-archive", version, max_term_width = 100)]
pub struct Flags {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring the finished files of a capture into an archive, index them, and free the disk
    Ship(Ship),
    /// Add the rows of segments that `ship --announce` has announced; several may run at once
    Index(Index),
    /// Find packets: read the index, then only the blocks in which packets may match
    Find(find::Args),
    /// Print the packets of each sensor, and check that they add up
    Status(Status),
    /// Read stored segments again, and compare them with their hashes
    Verify(Verify),
    /// Add the rows of segments that have none in the index, from the segments themselves
    Rebuild(Rebuild),
    /// Remove old segments and their rows, except what rules and holds keep
    Expire(Expire),
    /// Hold packets, so that no expiry removes them; list holds, and release them
    Hold(Hold),
    /// Merge small files of the index into larger ones
    Compact(Compact),
}

#[derive(Debug, Args)]
pub struct Ship {
    /// The folder into which a capture writes a series of files
    pub spool: PathBuf,
    /// The archive: a folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix
    pub to: String,
    /// The name of this sensor [default: the name of this machine]
    #[arg(long)]
    pub sensor: Option<String>,
    /// Keep shipped files in SPOOL/shipped: the newest up to this size (10G), or those younger than this time (2h). Without this flag, files
    /// that an earlier run kept are removed
    #[arg(long, value_name = "SIZE|TIME", value_parser = keep)]
    pub keep_local: Option<Keep>,
    /// The size of the files that may wait, for example 100G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub spool_limit: Option<u64>,
    /// If more than --spool-limit waits
    #[arg(
        long,
        value_name = "ACTION",
        value_enum,
        default_value = "keep",
        requires = "spool_limit"
    )]
    pub when_full: WhenFull,
    /// Do not compress the segments
    #[arg(long)]
    pub no_compress: bool,
    /// Announce segments at a NATS server, for `index`, instead of writing to the index: nats://[USER[:PASSWORD]@]HOST[:PORT][/STREAM]
    #[arg(long, value_name = "URL")]
    pub announce: Option<Address>,
    /// A file with USER:PASSWORD or a token for the NATS server
    #[arg(long, value_name = "FILE", requires = "announce")]
    pub nats_credentials: Option<PathBuf>,
    /// Ship the files that are finished now, and return; fail if the store fails or files are left
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub metrics: MetricsFlags,
    /// Print one JSON object for each file, and one with the counts at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Index {
    /// The archive
    pub archive: String,
    /// The NATS server of `ship --announce`: nats://[USER[:PASSWORD]@]HOST[:PORT][/STREAM]
    #[arg(long, value_name = "URL")]
    pub from: Address,
    /// A file with USER:PASSWORD or a token for the NATS server
    #[arg(long, value_name = "FILE")]
    pub nats_credentials: Option<PathBuf>,
    /// Segments in one commit, at most
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub batch: u16,
    /// How long messages are collected for one commit
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = wait)]
    pub wait: Duration,
    /// The messages of an indexer that does not answer go to another one after this time
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = wait)]
    pub take_over: Duration,
    /// Set a message aside when this indexer has failed to index its segment this number of times
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u64).range(1..))]
    pub tries: u64,
    /// Return when no message is left; fail if the store or the server fails
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub metrics: MetricsFlags,
    /// Print one JSON object for each segment, and one with the counts at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Debug, Args)]
pub struct MetricsFlags {
    /// Serve metrics for Prometheus at http://ADDRESS:PORT/metrics; port 0 chooses a free one [default address: 127.0.0.1]
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Write metrics to FILE, for the textfile collector of Prometheus' node exporter
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
}

/// Of commands that a timer runs.
#[derive(Clone, Debug, Args)]
pub struct JobFlags {
    /// At the end, write metrics to FILE, for the textfile collector of Prometheus' node exporter
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhenFull {
    /// Keep all files, and warn; the capture ends when the disk is full
    Keep,
    /// Remove the oldest files that are not shipped, and count their packets
    DropOldest,
}

/// It reads the accounts of the sensors, the list of segments and the log of the index, and no packets: `verify` reads those.
#[derive(Debug, Args)]
pub struct Status {
    /// The archive
    pub archive: String,
    /// Also count the packets that wait in this spool: SENSOR=FOLDER
    #[arg(long, value_name = "SENSOR=FOLDER", value_parser = spool)]
    pub spool: Vec<(String, PathBuf)>,
    /// Only this sensor; may be repeated
    #[arg(long, value_name = "NAME")]
    pub sensor: Vec<String>,
    /// Only captures from the day on that was this time ago (UTC), for example 8d
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<Duration>,
    /// Print one JSON object for each sensor
    #[arg(long)]
    pub json: bool,
}

/// Each segment is read whole: its bytes, its packets and its directory. The exit code is 1 if one is damaged, and 3 if only the store failed.
#[derive(Debug, Args)]
pub struct Verify {
    /// The archive
    pub archive: String,
    /// Only segments that were stored within this time, for example 8d
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<Duration>,
    /// Only segments of this sensor; may be repeated
    #[arg(long, value_name = "NAME")]
    pub sensor: Vec<String>,
    /// Of these, only this number or this part, for example 100 or 5%, chosen at random
    #[arg(long, value_name = "N|N%")]
    pub sample: Option<Sample>,
    #[command(flatten)]
    pub job: JobFlags,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Rebuild {
    /// The archive
    pub archive: String,
    /// First bring back segments that have expired and are still stored, because the store did not delete them
    #[arg(long)]
    pub undelete: bool,
    /// Accept that the segments which `status` calls gone are lost: their packets stay in its sum as vanished, and it ends with 0 again
    #[arg(long)]
    pub accept_missing: bool,
    #[command(flatten)]
    pub job: JobFlags,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "forebay-archive expire [OPTIONS] <ARCHIVE> --older-than <TIME>\n       \
    forebay-archive expire [OPTIONS] <ARCHIVE> --keep <RULE>\n       \
    forebay-archive expire [OPTIONS] <ARCHIVE> --max <SIZE>"
)]
#[command(group = clap::ArgGroup::new("limit").required(true).multiple(true).args(["older_than", "keep", "max"]))]
pub struct Expire {
    /// The archive
    pub archive: String,
    /// Remove segments whose last packet is older than this, for example 30d, unless a rule or a hold keeps them
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub older_than: Option<Duration>,
    /// How long packets of a sensor or an expression are kept: 'AGE [sensor NAME] [EXPRESSION]', for example '90d tcp port 25'. May be
    /// repeated: the first rule that matches a packet decides, and --older-than decides about the other packets
    #[arg(long, value_name = "RULE")]
    pub keep: Vec<Rule>,
    /// Remove the oldest segments, whatever the rules are, until the rest has at most this size, for example 2T
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max: Option<u64>,
    /// Only print what would be removed and what stays, each segment with the reason. No metrics are written
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print JSON: one object, and with -n before it one for each segment
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub job: JobFlags,
}

#[derive(Debug, Args)]
pub struct Hold {
    /// The archive
    pub archive: String,
    /// The name of the hold
    #[arg(required_unless_present_any = ["list", "release"])]
    pub case: Option<String>,
    /// What is held: libpcap's language, as in `find`. Without it, all packets
    #[arg(value_name = "EXPR")]
    pub expression: Vec<String>,
    /// Packets from this time on, as in `find`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Packets before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Only packets of this sensor; may be repeated
    #[arg(long, value_name = "NAME")]
    pub sensor: Vec<String>,
    /// Print all holds
    #[arg(long, conflicts_with_all = ["case", "release", "from", "to", "sensor"])]
    pub list: bool,
    /// Release the hold with this name
    #[arg(long, value_name = "CASE", conflicts_with_all = ["case", "from", "to", "sensor"])]
    pub release: Option<String>,
    /// Print one JSON object for each hold
    #[arg(long)]
    pub json: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text
        .parse()
        .map(|port: u16| (Ipv4Addr::LOCALHOST, port).into());
    let found = port.or_else(|_| text.parse());
    found.map_err(|_| "is no address. Write for example 9870 or 192.0.2.1:9870".into())
}

/// Each commit replaces the files of a group by one file with the same rows. It is safe at any time, next to `ship`, `expire` and other
/// runs of `compact`, and can be interrupted at any time.
#[derive(Debug, Args)]
pub struct Compact {
    /// The archive
    pub archive: String,
    /// The size of the new files. Files of at least half of it stay as they are
    #[arg(long, value_name = "SIZE", value_parser = target, default_value = "32M")]
    pub target_size: u64,
    /// Also delete the Parquet files that no version of the table younger than this time needs: 1d to 7d
    #[arg(long, value_name = "TIME", value_parser = vacuum)]
    pub vacuum: Option<Duration>,
    /// Only print what would be done. No metrics are written
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub job: JobFlags,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn target(text: &str) -> Result<u64, String> {
    let size = size(text)?;
    let is_in_range = (1 << 20..=1 << 30).contains(&size);
    is_in_range
        .then_some(size)
        .ok_or_else(|| "is not between 1M and 1G".into())
}

fn vacuum(text: &str) -> Result<Duration, String> {
    let age = time(text)?;
    let [shortest, longest] = VACUUM_AGES;
    (shortest..=longest)
        .contains(&age)
        .then_some(age)
        .ok_or_else(|| "is not between 1d and 7d".into())
}

fn time(text: &str) -> Result<Duration, String> {
    units::duration(text).ok_or_else(|| "is no time. Write for example 12h or 30d".into())
}

fn age(text: &str) -> Result<Duration, String> {
    let age = expire::parse_age(text);
    age.ok_or_else(|| "is no time with a unit. Write for example 12h or 30d".into())
}

fn wait(text: &str) -> Result<Duration, String> {
    let time = units::duration(text).filter(|it| (1..=3600).contains(&it.as_secs()));
    time.ok_or_else(|| "is no time from 1s to 1h".into())
}

fn size(text: &str) -> Result<u64, String> {
    units::bytes(text, 1).ok_or_else(|| "is no size. Write for example 500M or 10G".into())
}

fn keep(text: &str) -> Result<Keep, String> {
    let size = || units::bytes(text, 1).map(Keep::Bytes);
    // Without a unit the number could be either.
    let has_unit = !text.bytes().all(|byte| byte.is_ascii_digit());
    let time = || units::duration(text).map(Keep::For);
    // Elsewhere in this command `30m` is half an hour.
    if text.ends_with('m') {
        return Err("could be a size or a time. Write 30M for mebibytes, or 30min".into());
    }
    let found = has_unit.then(|| size().or_else(time)).flatten();
    found.ok_or_else(|| "is neither a size (10G) nor a time (2h)".into())
}

fn spool(text: &str) -> Result<(String, PathBuf), String> {
    let (sensor, folder) = text.split_once('=').ok_or("write SENSOR=FOLDER")?;
    Ok((sensor.into(), folder.into()))
}
