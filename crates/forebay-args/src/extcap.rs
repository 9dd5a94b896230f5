//! The flags of `extcap`: those of Wireshark's protocol for programs that capture, and how it is installed.

use clap::Args as ClapArgs;
use std::{ffi::OsString, path::PathBuf};

pub const HELP: &str = "\
Wireshark, tshark and termshark run this themselves, and then list the simulated card and every capture that shares its packets. \
Once --install has linked this command into Wireshark's folder, no flag is needed any more.

Examples:
  # Once, for this user, or with sudo for all users
  forebay extcap --install
  # Then
  tshark -D
  tshark -i forebay-sim -c 5
  tshark -i forebay-share-lan -f 'tcp port 80'
  # What Wireshark is told
  forebay extcap --extcap-interfaces";

#[derive(ClapArgs)]
#[command(next_help_heading = "Protocol")]
pub struct Extcap {
    /// Link this command into DIR, which is Wireshark's folder for programs that capture. Without DIR, tshark is asked: the
    /// folder of this user, or the one of all users for root, or if this version of Wireshark has only that
    #[arg(help_heading = "Installation", long, value_name = "DIR", num_args = 0..=1)]
    #[arg(conflicts_with_all = ["extcap_interfaces", "extcap_interface"])]
    pub install: Option<Option<PathBuf>>,

    /// List what can be captured from
    #[arg(long, required_unless_present_any = ["extcap_interface", "install"])]
    pub extcap_interfaces: bool,

    /// Version of Wireshark, which is accepted and ignored
    #[arg(long, value_name = "VERSION")]
    pub extcap_version: Option<String>,

    /// The source that the other flags are about, as --extcap-interfaces lists it
    #[arg(long, value_name = "NAME")]
    pub extcap_interface: Option<String>,

    /// List the link types of NAME
    #[arg(long, requires = "extcap_interface")]
    pub extcap_dlts: bool,

    /// List the settings of NAME
    #[arg(long, requires = "extcap_interface")]
    pub extcap_config: bool,

    /// Capture from NAME
    #[arg(long, requires = "extcap_interface", requires = "fifo")]
    pub capture: bool,

    /// Write packets to FILE, which is a pipe of Wireshark's
    #[arg(long, value_name = "FILE")]
    pub fifo: Option<PathBuf>,

    /// Capture only packets that match EXPRESSION. Without --capture, print what is wrong with it, or nothing
    #[arg(long, value_name = "EXPRESSION", requires = "extcap_interface")]
    pub extcap_capture_filter: Option<String>,

    /// Settings of the simulated card, as after sim:
    #[arg(long, value_name = "SPEC", default_value = "rate=1kpps")]
    pub sim: String,

    /// Other machine of forebay-ssh, or its name in ssh's configuration
    #[arg(long, value_name = "HOST")]
    pub remote_host: Option<String>,

    /// User there
    #[arg(long, value_name = "USER")]
    pub remote_user: Option<String>,

    /// Port of its ssh server
    #[arg(long, value_name = "PORT")]
    pub remote_port: Option<String>,

    /// Interface there
    #[arg(long, value_name = "INTERFACE", default_value = "eth0")]
    pub remote_interface: String,

    /// Program that captures there: forebay or tcpdump
    #[arg(long, value_name = "PROGRAM", default_value = "forebay")]
    pub remote_program: String,
}

/// The words of a command line, with the name of this subcommand if Wireshark left it out.
pub fn with_subcommand(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    let is_wireshark = |word: &OsString| {
        let word = word.as_encoded_bytes();
        word == b"--capture" || word.starts_with(b"--extcap-")
    };
    if words.get(1).is_some_and(is_wireshark) {
        words.insert(1, "extcap".into());
    }
    words
}
