//! The sending programs: how each is started to send a number of frames, at a rate or as fast as it can.

use super::{lab::SENDER, roles::Role};
use crate::method::process::{in_role, program};
use anyhow::{Context, Result, anyhow, bail, ensure};
use forebay::time::Clock;
use forebay_net::{
    format::Format,
    generate::{self, GenerateConfig},
    open::{self, Options},
    port::Frame,
    replay::{Replay, ReplayConfig, Speed},
    session::{Control, Output, Session, SessionConfig},
    transmit::{Rate, TxConfig},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
};

/// One of those compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Replay(Through),
    Generate(Through),
    Tcpreplay,
    Trafgen,
}

/// How ours hands its frames to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    Packet,
    Xdp,
}

impl Through {
    /// The name of the sending port.
    fn port(self) -> String {
        match self {
            Through::Packet => format!("packet:{SENDER}"),
            Through::Xdp => format!("xdp:{SENDER}"),
        }
    }
}

/// Ours first.
pub const SENDERS: [Sender; 6] = [
    Sender::Replay(Through::Packet),
    Sender::Replay(Through::Xdp),
    Sender::Generate(Through::Packet),
    Sender::Generate(Through::Xdp),
    Sender::Tcpreplay,
    Sender::Trafgen,
];

/// Frames that all senders send over and over, in the form that each of them reads.
pub struct Frames {
    /// The value of `size=` of the simulated card.
    pub size: &'static str,
    pcap: PathBuf,
    trafgen: PathBuf,
}

impl Frames {
    /// A hundred cycles of 12 frames, as the simulated card makes them, in files in `folder`.
    pub fn new(size: &'static str, folder: &Path) -> Result<Frames> {
        let frames = Frames {
            size,
            pcap: folder.join("frames.pcap"),
            trafgen: folder.join("frames.cfg"),
        };
        let names = [format!("sim:clock=virtual,rate=max,size={size},count=1200").parse()?];
        let clock = open::clock(&names)?;
        let ports = open::ports(&names, &Options::default(), &clock)?;
        let config = SessionConfig {
            format: Some(Format::Pcap),
            ..SessionConfig::default()
        };
        let output = Output::File(frames.pcap.clone());
        let session = Session::open(ports, output, config, clock, Control::new()?)?;
        let (sender, receiver) = mpsc::channel();
        let listed = move |frame: &Frame<'_>, _: &_| {
            let bytes: Vec<_> = frame.data.iter().map(u8::to_string).collect();
            sender.send(format!("{{ {} }}\n", bytes.join(", "))).is_ok()
        };
        let summary = session.each(listed).run(&mut |_| {});
        ensure!(summary.is_fine(), "{summary:?}");
        let cycle: String = receiver.iter().take(12).collect();
        fs::write(&frames.trafgen, cycle).context("writing frames for trafgen")?;
        Ok(frames)
    }
}

impl Sender {
    pub fn name(self) -> &'static str {
        match self {
            Sender::Replay(Through::Packet) => "forebay replay",
            Sender::Replay(Through::Xdp) => "forebay replay, AF_XDP",
            Sender::Generate(Through::Packet) => "forebay generate",
            Sender::Generate(Through::Xdp) => "forebay generate, AF_XDP",
            Sender::Tcpreplay => "tcpreplay",
            Sender::Trafgen => "trafgen",
        }
    }

    /// Whether it is another project's.
    pub fn is_rival(self) -> bool {
        matches!(self, Sender::Tcpreplay | Sender::Trafgen)
    }

    /// The program, if it is one of the system's.
    pub fn program(self) -> Result<Command> {
        match self {
            Sender::Tcpreplay => program("tcpreplay", "tcpreplay"),
            Sender::Trafgen => program("trafgen", "netsniff-ng"),
            Sender::Replay(_) | Sender::Generate(_) => bail!("it is this program"),
        }
    }

    /// It, sending this number of frames at `rate` frames a second, or as fast as it can.
    pub fn command(self, frames: &Frames, rate: Option<u64>, count: u64) -> Result<Command> {
        let mut command = match self {
            Sender::Replay(through) => in_role(
                "wire",
                &Role::Replay {
                    port: through.port(),
                    file: frames.pcap.clone(),
                    rate,
                    count,
                },
            )?,
            Sender::Generate(through) => {
                let rate = rate.map_or("max".into(), |rate| format!("{rate}pps"));
                let spec = format!("rate={rate},size={},count={count}", frames.size);
                in_role(
                    "wire",
                    &Role::Generate {
                        port: through.port(),
                        spec,
                    },
                )?
            }
            Sender::Tcpreplay | Sender::Trafgen => self.program()?,
        };
        match self {
            Sender::Replay(_) | Sender::Generate(_) => &mut command,
            Sender::Tcpreplay => command
                .args(["-i", SENDER, "--preload-pcap", "--loop=0"])
                .arg(format!("--limit={count}"))
                .arg(rate.map_or("--topspeed".into(), |rate| format!("--pps={rate}")))
                .arg(&frames.pcap),
            // It must change neither the machine's socket memory nor its interrupts. With `--rate` it would send the frames of a
            // second all at once.
            Sender::Trafgen => command
                .args(["--no-sock-mem", "--notouch-irq"])
                .args(["-o", SENDER, "-P", "1", "-n"])
                .arg(count.to_string())
                .args(rate.map(|rate| format!("--gap={}ns", 1_000_000_000 / rate)))
                .arg("-i")
                .arg(&frames.trafgen),
        };
        command.stdin(Stdio::null());
        Ok(command)
    }
}

/// `forebay replay` as `forebay_net` has it.
pub fn replay(port: &str, file: PathBuf, rate: Option<u64>, count: u64) -> Result<()> {
    let speed = match rate {
        Some(rate) => Speed::Packets(Rate::per_second(rate as f64).context("a rate of 0")?),
        None => Speed::Top,
    };
    let config = ReplayConfig {
        files: vec![file],
        speed,
        rounds: None,
        limit: Some(count),
        preload: true,
        ..ReplayConfig::default()
    };
    let mut port = open::transmit(&port.parse()?, &TxConfig::default())?;
    let replay = Replay::new(config, Clock::real(), Control::new()?);
    let summary = replay.run(port.as_mut(), &mut |_| {});
    summary.law().map_err(|why| anyhow!(why))?;
    summary.error.map_or(Ok(()), |why| Err(why.into()))
}

/// `forebay generate`, likewise.
pub fn generate(port: &str, spec: &str) -> Result<()> {
    let config = GenerateConfig {
        spec: spec.parse()?,
        ..GenerateConfig::default()
    };
    let mut port = open::transmit(&port.parse()?, &TxConfig::default())?;
    let control = Control::new()?;
    let sent = generate::run(port.as_mut(), &config, Clock::real(), &control, &mut |_| {})?;
    ensure!(sent.law_holds(), "the counts do not add up: {sent:?}");
    sent.error.map_or(Ok(()), |why| Err(why.into()))
}
