//! The flags of `forebay-archive`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_archive::{find, ship::spool::Keep};
use forebay_net::units;
use std::{path::PathBuf, time::Duration};

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
    /// Find packets: read the index, then only the blocks in which packets may match
    Find(find::Args),
    /// Print the packets of each sensor, and check that they add up
    Status(Status),
    /// Add the rows of segments that have none in the index, from the segments themselves
    Rebuild(Rebuild),
    /// Remove old segments and their rows
    Expire(Expire),
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
    /// Keep shipped files in SPOOL/shipped: the newest up to this size (10G), or those younger than this time (2h)
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
    /// Ship the files that are finished now, and return; fail if the store fails
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object for each file, and one with the counts at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhenFull {
    /// Keep all files, and warn; the capture ends when the disk is full
    Keep,
    /// Remove the oldest files that are not shipped, and count their packets
    DropOldest,
}

#[derive(Debug, Args)]
pub struct Status {
    /// The archive
    pub archive: String,
    /// Also count the packets that wait in this spool: SENSOR=FOLDER
    #[arg(long, value_name = "SENSOR=FOLDER", value_parser = spool)]
    pub spool: Vec<(String, PathBuf)>,
    /// Print one JSON object for each sensor
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Rebuild {
    /// The archive
    pub archive: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("limit").required(true).multiple(true).args(["older_than", "max"]))]
pub struct Expire {
    /// The archive
    pub archive: String,
    /// Remove segments whose last packet is older than this, for example 30d
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub older_than: Option<Duration>,
    /// Remove the oldest segments until the rest has at most this size, for example 2T
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max: Option<u64>,
    /// Only print what would be removed
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    units::duration(text).ok_or_else(|| "is no time. Write for example 12h or 30d".into())
}

fn size(text: &str) -> Result<u64, String> {
    units::bytes(text, 1).ok_or_else(|| "is no size. Write for example 500M or 10G".into())
}

fn keep(text: &str) -> Result<Keep, String> {
    let size = || units::bytes(text, 1).map(Keep::Bytes);
    // Without a unit the number could be either.
    let has_unit = !text.bytes().all(|byte| byte.is_ascii_digit());
    let time = || units::duration(text).map(Keep::For);
    let found = has_unit.then(|| size().or_else(time)).flatten();
    found.ok_or_else(|| "is neither a size (10G) nor a time (2h)".into())
}

fn spool(text: &str) -> Result<(String, PathBuf), String> {
    let (sensor, folder) = text.split_once('=').ok_or("write SENSOR=FOLDER")?;
    Ok((sensor.into(), folder.into()))
}
