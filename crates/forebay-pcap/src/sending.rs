//! Sends single frames on the interface that a handle captures from.

use crate::failure::{Failure, of_port as failure};
use forebay_net::{
    Control,
    open::{self, Name},
    transmit::{self, TxConfig, TxPort},
};

/// A port for sending, opened with the first frame.
#[derive(Default)]
pub struct Sender(Option<Box<dyn TxPort>>);

impl Sender {
    /// Sends a frame, and waits until the kernel has accepted it.
    pub fn send(&mut self, device: &Name, frame: &[u8]) -> Result<(), Failure> {
        let sender = match &mut self.0 {
            Some(sender) => sender,
            none => {
                // A queue of AF_XDP has one socket, which receives. So a packet socket sends.
                let name = match device {
                    Name::Xdp(spec) => Name::Interface(spec.interface.clone()),
                    name => name.clone(),
                };
                let opened = open::transmit(&name, &TxConfig::default());
                none.insert(opened.map_err(|error| failure(&error))?)
            }
        };
        if sender.send_now(&mut std::iter::once(frame)) == 1 {
            return Ok(());
        }
        send_patiently(sender.as_mut(), frame)
    }
}

/// Sends a frame that the kernel does not accept at once.
fn send_patiently(sender: &mut dyn TxPort, frame: &[u8]) -> Result<(), Failure> {
    let refused = || {
        Failure::from(format!(
            "send: a frame of {} bytes was not accepted",
            frame.len()
        ))
    };
    let before = sender.counts().failed.total();
    let mut packets = Vec::new();
    if sender.reserve(1, &mut packets) == 0 {
        return Err("send: no room".into());
    }
    let len = u32::try_from(frame.len()).map_err(|_| refused())?;
    let room = packets[0].put(len).map_err(|_| refused())?;
    room.copy_from_slice(frame);
    let control = Control::new().map_err(|error| failure(&error))?;
    let committed = sender.commit(&mut packets);
    let sent = committed.and_then(|_| transmit::drain(sender, &control));
    sent.map_err(|error| failure(&error))?;
    match sender.counts().failed.total() == before && packets.is_empty() {
        true => Ok(()),
        false => Err(refused()),
    }
}
