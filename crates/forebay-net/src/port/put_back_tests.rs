//! Frames put back at any time: none is lost or comes twice, and no port panics.

use super::{Interface, Port, Wake};
use crate::{
    file::{
        File,
        parallel::{ParallelConfig, ParallelFile},
    },
    open,
    session::{Control, Output, Session},
    share::{MIN_RING_BYTES, Publisher, TapConfig},
    sim::sequence_of,
};
use forebay::time::Clock;
use forebay_testing::folder::Folder;
use rustix::event::{PollFd, PollFlags, poll};

const FRAMES: u64 = 5000;

/// Takes all frames, and puts frames back where there is one and where there is none.
fn check(port: &mut dyn Port, clock: &Clock, name: &str) {
    let (mut next, mut round) = (0, 0);
    while next < FRAMES {
        let mut burst = port.receive(64).unwrap();
        burst.put_back();
        drop(burst);
        let mut burst = port.receive(64).unwrap();
        while let Some(frame) = burst.next_frame() {
            assert_eq!(sequence_of(frame.data), Some(next), "{name}, round {round}");
            next += 1;
            if (next + round) % 50 == 0 {
                burst.put_back();
                next -= 1;
                burst.put_back();
                break;
            }
        }
        round += 1;
        if round % 3 == 0 && burst.lend().is_some() {
            burst.put_back();
        }
        drop(burst);
        match port.arm().unwrap() {
            Wake::Fd(fd) => {
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
            }
            Wake::At(then) => clock.sleep_until(then),
            Wake::Ready => {}
            Wake::End => assert_eq!(next, FRAMES, "{name}"),
        }
        port.disarm();
        assert!(round < 10 * FRAMES, "{name} stays at {next}");
    }
    assert_eq!(port.counts().received, FRAMES, "{name}");
}

#[test]
fn a_frame_is_put_back_once_and_nothing_else_is() {
    let spec = format!("sim:rate=1G,count={FRAMES},clock=virtual");
    let names = [spec.parse().unwrap()];
    let open = || {
        let clock = open::clock(&names).unwrap();
        let ports = open::ports(&names, &Default::default(), &clock).unwrap();
        (ports, clock)
    };
    let (mut ports, clock) = open();
    check(&mut *ports.remove(0), &clock, "sim");
    let (ports, clock) = open();
    let folder = Folder::new();
    let path = folder.path("a.pcapng");
    let output = Output::File(path.clone().into());
    let control = Control::new().unwrap();
    let session = Session::open(ports, output, Default::default(), clock, control);
    let summary = session.unwrap().run(&mut |_| {});
    assert_eq!(summary.ledger.written, FRAMES);
    let clock = Clock::virtual_time();
    check(&mut File::open(&path).unwrap(), &clock, "file");
    let config = ParallelConfig::default();
    let file = std::fs::File::open(&path).unwrap();
    let file = File::from_stream(file, "parallel").unwrap();
    let mut parallel = ParallelFile::new(file, &"".parse().unwrap(), &config).unwrap();
    check(&mut parallel, &clock, "parallel");
    let mut publisher = Publisher::new(MIN_RING_BYTES.max(1 << 20)).unwrap();
    publisher.introduce(&Interface::default());
    let mut tap = publisher.source().tap(&TapConfig::default()).unwrap();
    let mut file = File::open(&path).unwrap();
    file.each_frame(&Default::default(), |frame| {
        publisher.publish(0, frame);
    })
    .unwrap();
    check(&mut tap, &clock, "share");
}
