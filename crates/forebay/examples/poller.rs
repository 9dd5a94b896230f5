//! Counts the datagrams of a UDP socket for ten seconds: polls under load, and otherwise sleeps in the kernel.
//! `cargo run --release -p forebay --example poller`, and from another shell `echo hello > /dev/udp/127.0.0.1/7000`
use forebay::{
    poll::{Poller, Source},
    time::Clock,
};
use std::{io, net::UdpSocket, time::Duration};

struct Datagrams(UdpSocket);

impl Source for Datagrams {
    type Error = io::Error;
    fn look(&mut self, budget: usize) -> io::Result<usize> {
        let taken = (0..budget).take_while(|_| self.0.recv(&mut [0; 2048]).is_ok());
        Ok(taken.count())
    }
    fn arm(&mut self) -> io::Result<()> {
        Ok(()) // a datagram that is already there ends the sleep at once
    }
    fn sleep(&mut self) -> io::Result<()> {
        self.0.set_nonblocking(false)?;
        let _ = self.0.peek(&mut [0; 1]); // or the socket's time limit
        self.0.set_nonblocking(true)
    }
    fn disarm(&mut self) {}
}

fn main() -> io::Result<()> {
    let (clock, socket) = (Clock::real(), UdpSocket::bind("127.0.0.1:7000")?);
    socket.set_nonblocking(true)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (mut poller, mut source) = (Poller::new(64, clock.clone()), Datagrams(socket));
    let (mut datagrams, end) = (0, clock.now() + 10_000_000_000); // ns
    while clock.now() < end {
        datagrams += poller.turn(&mut source)?;
    }
    println!("{datagrams} datagrams; {:?}", poller.modes());
    Ok(())
}
