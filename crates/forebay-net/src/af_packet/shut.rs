//! Ports that accept no frame yet, so that several begin at the same moment.

use super::{AfPacket, AfPacketConfig};
use crate::{filter::bpf::Instruction, port::Fanout};
use forebay::Result;

/// A port whose filter accepts no frame. Opening an interface takes a while; frames that came before the last one is open would fill
/// the ring of the first, and nothing would take them.
pub(crate) struct Shut {
    port: AfPacket,
    /// The filter that it will have.
    program: Option<Vec<Instruction>>,
}

impl Shut {
    /// Opens the interface `name`, or all with `any`.
    ///
    /// # Errors
    /// Those of [`AfPacket::open`].
    pub fn open(name: &str, config: &AfPacketConfig) -> Result<Self> {
        let (port, program) = AfPacket::attached(name, config, false)?;
        Ok(Shut { port, program })
    }

    /// Lets the port join a group, or begin one, and returns the group's number.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn join(&self, group: Option<u16>, mode: Fanout) -> Result<u16> {
        self.port.reader.socket.join(group, mode)
    }

    /// The port, which accepts frames from now on.
    ///
    /// # Errors
    /// The kernel refuses the filter.
    pub fn accept(mut self) -> Result<AfPacket> {
        let reader = &mut self.port.reader;
        let socket = &reader.socket;
        match &self.program {
            Some(program) if self.port.filters => {
                reader.rejections = socket.count_and_filter(program)?
            }
            Some(program) => socket.filter(program)?,
            None => socket.no_filter()?,
        }
        Ok(self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Port, Wake};
    use forebay_testing::{lab::lab, sender::Sender};

    #[test]
    fn a_port_accepts_no_frame_before_the_others_are_open() {
        lab(&[], || {
            for filter in [None, Some("greater 50".parse().unwrap())] {
                let config = AfPacketConfig {
                    filter,
                    ..AfPacketConfig::default()
                };
                let shut = Shut::open("vb", &config).unwrap();
                let sender = Sender::open("va");
                sender.numbers(0..10, 60).unwrap();
                let mut port = shut.accept().unwrap();
                sender.numbers(10..15, 60).unwrap();
                port.stop().unwrap();
                let mut seen = Vec::new();
                while !matches!(port.arm().unwrap(), Wake::End) {
                    let mut burst = port.receive(64).unwrap();
                    while let Some(frame) = burst.next_frame() {
                        seen.extend(forebay_testing::sender::number(frame.data));
                    }
                }
                assert_eq!((seen, port.counts().received), ((10..15).collect(), 5));
            }
        });
    }
}
