//! Counts the datagrams of a UDP socket for ten seconds: polls under load, and otherwise sleeps in the kernel.
//! `cargo run --release -p forebay --example poller`, and from another shell `echo hello > /dev/udp/127.0.0.1/7000`
use forebay::{
    poll::{Limit, Poller, Source},
    sync::Signal,
    time::Clock,
};
use std::{io, net::UdpSocket, os::fd::AsFd, time::Duration};

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
    fn sleep(&mut self, limit: &Limit<'_>) -> io::Result<()> {
        limit.poll(&[self.0.as_fd()], None)
    }
    fn disarm(&mut self) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind("127.0.0.1:7000")?;
    socket.set_nonblocking(true)?;
    let mut poller = Poller::new(64, Clock::real());
    let stop = Signal::new()?; // another thread, or a signal handler, may raise it
    let ten = Duration::from_secs(10);
    let datagrams = poller.run_timeout(&mut Datagrams(socket), &stop, ten)?;
    println!("{datagrams} datagrams; {:?}", poller.modes());
    Ok(())
}
