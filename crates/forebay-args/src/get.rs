//! The flags of `get`.

use super::values;
use clap::Args as ClapArgs;
use std::{path::PathBuf, time::Duration};

pub const HELP: &str = "\
With -o the bytes go to a file without a name in the same folder. When all have arrived it is synced and replaces \
FILE. After a failure or a signal FILE is as it was, and nothing else is left, except with -C -. A FILE that is a device or a FIFO is \
written to as it is; one that another user put into a folder like /tmp is refused.

Control characters are not written to a terminal, unless -o - is given.

Status 205 and 304 are failures, and with -o also 204: they have no content.

A status of 400 or more is a failure: the status is printed on standard error, and the body is discarded unless \
--content-on-error or --raw is given. The exit code is 1 in either case.

Proxies are those of http_proxy, https_proxy, all_proxy and no_proxy, or the same in upper case. https passes through \
the proxy unseen (CONNECT). Hosts of this machine need none.

-C - keeps what arrived in FILE.part when a fetch is interrupted, and the same command goes on from there, if the server still has the \
same version. Otherwise it begins anew, and says so.

Not supported: cookies, logins, compression. The trusted roots are Mozilla's, compiled in.

Signals: after the answer has begun, INT, TERM and HUP stop and print how many bytes were written. A second one \
exits at once.

Exit codes: 0 everything is written, or the reader of the output left; 1 failure; 2 bad request.

Examples:
  forebay get http://localhost:8000/a.bin > a.bin
  # a.bin appears when it is complete
  forebay get -o a.bin https://host/a.bin
  # Only if it is what it should be, into ./b.iso
  forebay get -O --sha256 SUM https://host/b.iso
  # Go on if it was interrupted
  forebay get -C - -o a.bin https://host/a.bin
  # The answer as it was sent
  forebay get --raw http://localhost:8000/";

#[derive(ClapArgs)]
pub struct Get {
    /// What to fetch, one after another: [http://]HOST[:PORT]/PATH or https://…
    // Not parsed by clap, which prints a wrong value: it may contain a password.
    #[arg(help_heading = "Input", value_name = "URL", required = true)]
    pub urls: Vec<String>,

    /// Write to FILE, which appears or is replaced when it is complete; - is standard output, also for binary data
    #[arg(help_heading = "Output", short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write each URL to a file in this folder with the last name of its path
    #[arg(
        help_heading = "Output",
        short = 'O',
        long = "remote-name",
        conflicts_with = "output"
    )]
    pub remote_name: bool,

    /// Go on where an interrupted fetch ended; the value is always - (a hyphen). Needs -o or -O
    #[arg(
        help_heading = "Output",
        short = 'C',
        long = "continue-at",
        value_name = "-",
        value_parser = from_what_is_there,
        allow_hyphen_values = true,
        conflicts_with_all = ["include", "raw", "content_on_error"]
    )]
    pub continues: Option<()>,

    /// Fail unless the body has this SHA-256. With -o or -O, the file then stays as it was
    #[arg(help_heading = "Output", long, value_name = "SUM", value_parser = sha256, conflicts_with_all = ["include", "raw"])]
    pub sha256: Option<[u8; 32]>,

    /// Also write the head of the answer (after redirects, of the last one)
    #[arg(
        help_heading = "Output",
        short = 'i',
        long = "include",
        conflicts_with = "raw"
    )]
    pub include: bool,

    /// Write the first answer exactly as it was sent: head, chunk sizes, trailers; follow no redirects
    #[arg(help_heading = "Output", long)]
    pub raw: bool,

    /// Also write the body of an answer with a status of 400 or more
    #[arg(help_heading = "Output", long)]
    pub content_on_error: bool,

    /// Follow at most COUNT redirects
    #[arg(
        help_heading = "Input",
        long,
        value_name = "COUNT",
        default_value = "10"
    )]
    pub max_redirects: usize,

    /// Also follow redirects from https to http
    #[arg(help_heading = "Input", long)]
    pub allow_downgrade: bool,

    /// Add a field to the request; may be repeated. Authorization and Cookie are not sent to another server after a redirect
    // Not parsed by clap, which prints a wrong value: it may be a password.
    #[arg(
        help_heading = "Input",
        short = 'H',
        long = "header",
        value_name = "NAME: VALUE"
    )]
    pub fields: Vec<String>,

    /// Give up if there is no connection within TIME (seconds, or with a unit: 500ms)
    #[arg(help_heading = "Input", long, value_name = "TIME", default_value = "10", value_parser = values::time)]
    pub connect: Duration,

    /// Give up if the server neither sends nor accepts a byte for TIME
    #[arg(help_heading = "Input", long, value_name = "TIME", default_value = "30", value_parser = values::time)]
    pub silence: Duration,

    /// Trust only the certificates in FILE (PEM), not Mozilla's: roots, or exactly the server's own
    #[arg(help_heading = "Input", long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,

    /// Print only errors
    #[arg(help_heading = "Output", short = 'q')]
    pub quiet: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

/// The hyphen of `-C -`.
fn from_what_is_there(text: &str) -> values::Parsed<()> {
    match text {
        "-" => Ok(()),
        _ => Err("where to go on is found out. Use -C -".into()),
    }
}

/// 64 hexadecimal digits.
fn sha256(text: &str) -> values::Parsed<[u8; 32]> {
    let digit = |at: usize| text.get(2 * at..2 * at + 2);
    let is_hex = text.len() == 64 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let bytes = (0..32).filter_map(|at| u8::from_str_radix(digit(at)?, 16).ok());
    let sum = bytes.collect::<Vec<_>>().try_into().ok().filter(|_| is_hex);
    sum.ok_or_else(|| format!("'{text}' is not a SHA-256. Use the 64 digits that sha256sum prints"))
}
