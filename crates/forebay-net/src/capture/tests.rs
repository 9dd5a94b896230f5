//! Captures of the simulated card, of files and of shares.

use super::*;
use crate::port::LinkType;
use crate::session::{Control, Output, Session, SessionConfig};
use crate::share::{MIN_RING_BYTES, Publisher, TapConfig};
use forebay::Error;
use forebay_testing::folder::Folder;
use std::{path::PathBuf, thread};

const SECOND: Duration = Duration::from_secs(1);

fn with(name: &str, filter: &str) -> Result<Capture> {
    let filter = Some(filter.parse::<Filter>()?);
    let options = Options {
        filter,
        ..Options::default()
    };
    Capture::with(&name.parse()?, &options)
}

/// A file with the frames of a card.
fn file(folder: &Folder, name: &str, spec: &str) -> PathBuf {
    let path = PathBuf::from(folder.path(name));
    let names = [spec.parse().unwrap()];
    let clock = open::clock(&names).unwrap();
    let ports = open::ports(&names, &Options::default(), &clock).unwrap();
    let output = Output::File(path.clone());
    let config = SessionConfig::default();
    let session = Session::open(ports, output, config, clock, Control::new().unwrap()).unwrap();
    assert_eq!(session.run(&mut |_| {}).ledger.check(), Ok(()));
    path
}

/// The sequence numbers of the rest.
fn rest(capture: &mut Capture) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(frame) = capture.next_frame().unwrap() {
        numbers.push(crate::sim::sequence_of(frame.data).unwrap());
    }
    numbers
}

#[test]
fn a_loop_and_a_closure_see_the_same_frames_of_a_card() {
    let name = "sim:rate=1G,count=1000,clock=virtual";
    let mut capture = Capture::open(name).unwrap();
    assert_eq!(rest(&mut capture), Vec::from_iter(0..1000));
    assert!(capture.next_frame().unwrap().is_none(), "still at the end");
    let looped = capture.finish().unwrap();
    let mut numbers = Vec::new();
    let shown = crate::each(name, |frame| {
        numbers.extend(crate::sim::sequence_of(frame.data));
    });
    assert_eq!(shown.unwrap(), looped);
    assert_eq!(numbers, Vec::from_iter(0..1000));
    assert_eq!((looped.counted, looped.check()), (1000, Ok(())));
}

#[test]
fn a_loop_and_a_closure_see_the_same_frames_of_a_file() {
    let folder = Folder::new();
    for name in ["a.pcapng", "a.pcap"] {
        let path = file(&folder, name, "sim:rate=1G,count=1000,clock=virtual");
        let mut capture = Capture::read(&path).unwrap();
        assert_eq!(capture.interfaces().len(), 1);
        assert_eq!(rest(&mut capture), Vec::from_iter(0..1000));
        let looped = capture.finish().unwrap();
        let shown = Capture::read(&path).unwrap().each(|_| {}).unwrap();
        assert_eq!(shown, looped);
        assert_eq!((looped.counted, looped.check()), (1000, Ok(())));
    }
    assert!(Capture::read(folder.path("none.pcapng")).is_err());
}

#[test]
fn a_filter_applies_to_every_kind_of_source_or_is_an_error() {
    let folder = Folder::new();
    let path = file(&folder, "a.pcapng", "sim:rate=1G,count=100,clock=virtual");
    let mut publisher = Publisher::new(MIN_RING_BYTES).unwrap();
    publisher.introduce(&Interface::default());
    let shared = |publisher: &Publisher, filter: &Filter| {
        let config = TapConfig::default();
        let tap = publisher.source().tap(&config).unwrap();
        Capture::of(Box::new(tap), Some(filter), config.clock).unwrap()
    };
    for (text, matching) in [("less 60", 100), ("greater 61", 0)] {
        let filter: Filter = text.parse().unwrap();
        let options = Options {
            filter: Some(filter.clone()),
            ..Options::default()
        };
        let captures = vec![
            with("sim:rate=1G,count=100,clock=virtual", text).unwrap(),
            Capture::with(&Name::File(path.clone()), &options).unwrap(),
            shared(&publisher, &filter),
        ];
        for number in 0..100 {
            let frame = Frame {
                time_ns: number,
                ..Frame::whole(&[0; 60])
            };
            publisher.publish(0, &frame);
        }
        captures[2].stopper().stop();
        for mut capture in captures {
            let mut seen = 0;
            while capture.next_frame().unwrap().is_some() {
                seen += 1;
            }
            let ledger = capture.finish().unwrap();
            assert_eq!((seen, ledger.counted), (matching, matching), "{text}");
            assert_eq!((ledger.filtered, ledger.check()), (100 - matching, Ok(())));
        }
    }
    let mut raw = Publisher::new(MIN_RING_BYTES).unwrap();
    raw.introduce(&Interface {
        link: LinkType::RAW,
        ..Interface::default()
    });
    let config = TapConfig::default();
    let tap = raw.source().tap(&config).unwrap();
    let filter = "vlan 5".parse().unwrap();
    let refused = Capture::of(Box::new(tap), Some(&filter), config.clock);
    let error = refused.expect_err("raw IP has no VLANs");
    assert!(crate::filter::Error::of(&error).is_some(), "{error}");
}

#[test]
fn an_early_break_counts_the_rest_as_unread() {
    let mut capture = Capture::open("sim:rate=1G,count=100k,clock=virtual").unwrap();
    for _ in 0..10 {
        assert!(capture.next_frame().unwrap().is_some());
    }
    let ledger = capture.finish().unwrap();
    assert_eq!((ledger.counted, ledger.check()), (10, Ok(())));
    assert!(ledger.received < 100_000);
    // What a file still holds was not received.
    let folder = Folder::new();
    let path = file(&folder, "a.pcapng", "sim:rate=1G,count=100,clock=virtual");
    let mut capture = Capture::read(&path).unwrap();
    assert!(capture.next_frame().unwrap().is_some());
    let ledger = capture.finish().unwrap();
    assert_eq!((ledger.received, ledger.counted), (1, 1));
}

#[test]
fn a_time_limit_is_no_end() {
    let mut capture = Capture::open("sim:rate=1pps,count=3,clock=virtual").unwrap();
    let mut seen = 0;
    let mut timed_out = 0;
    loop {
        match capture.next_timeout(SECOND / 10).unwrap() {
            Next::Ready(_) => seen += 1,
            Next::TimedOut => timed_out += 1,
            _ => break,
        }
    }
    assert_eq!(seen, 3);
    assert!((28..=31).contains(&timed_out), "{timed_out}"); // a frame after each of three seconds
    assert_eq!(capture.next_timeout(Duration::ZERO).unwrap(), Next::End);
    assert_eq!(capture.finish().unwrap().check(), Ok(()));
}

#[test]
fn a_time_limit_of_zero_does_not_wait() {
    let mut capture = Capture::open("sim:rate=1pps,clock=virtual").unwrap();
    while capture.next_timeout(Duration::ZERO).unwrap() != Next::TimedOut {}
    assert!(capture.next_frame().unwrap().is_some());
}

#[test]
fn another_thread_stops_a_capture_that_waits() {
    let mut capture = Capture::open("sim:rate=1bit").unwrap(); // a frame in 11 minutes
    let stopper = capture.stopper();
    let stopping = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        stopper.stop();
    });
    while capture.next_frame().unwrap().is_some() {}
    stopping.join().unwrap();
    assert_eq!(capture.finish().unwrap().check(), Ok(()));
}

#[test]
fn losses_before_a_rejected_frame_are_reported_by_the_next_one() {
    // The reader takes 10 µs for a frame that comes each 672 ns, so the card's ring overflows.
    let name = "sim:rate=1G,count=20k,clock=virtual,host=none,ring=64,cost=10us";
    for filter in ["", "less 60"] {
        let mut capture = with(name, filter).unwrap();
        let (mut seen, mut lost) = (0, 0);
        while let Some(frame) = capture.next_frame().unwrap() {
            (seen, lost) = (seen + 1, lost + frame.dropped_before);
        }
        let ledger = capture.finish().unwrap();
        assert_eq!((ledger.counted, ledger.check()), (seen, Ok(())));
        let dropped = ledger.dropped.kernel.unwrap();
        assert!(0 < lost && lost <= dropped, "{lost} of {dropped}");
    }
}

/// The numbers of the frames in the batches of a source, after `check` has seen each batch.
fn batches(capture: &mut Capture, mut check: impl FnMut(Batch<'_>)) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Next::Ready(batch) = capture.next_batch(Duration::MAX).unwrap() {
        check(batch);
        assert_eq!(batch.frames().len(), batch.len());
        numbers.extend(
            batch
                .frames()
                .filter_map(|it| crate::sim::sequence_of(it.data)),
        );
    }
    numbers
}

#[test]
fn a_batch_has_the_frames_and_losses_that_a_loop_has() {
    let folder = Folder::new();
    let lossy = "sim:rate=1G,count=4k,clock=virtual,host=none,ring=64,cost=10us";
    let path = file(
        &folder,
        "a.pcapng",
        "sim:rate=1G,count=4k,clock=virtual,size=imix",
    );
    let mut sources = vec![(lossy.parse().unwrap(), false)];
    #[cfg(feature = "gzip")]
    {
        let packed = folder.path("a.pcapng.gz");
        let packing = std::fs::File::create(&packed).unwrap();
        let mut packing = flate2::write::GzEncoder::new(packing, flate2::Compression::fast());
        std::io::copy(&mut std::fs::File::open(&path).unwrap(), &mut packing).unwrap();
        packing.finish().unwrap();
        sources.push((Name::File(packed.into()), true));
    }
    sources.push((Name::File(path), true));
    for ((name, is_borrowed), filter) in sources
        .iter()
        .flat_map(|it| [(it, ""), (it, "less 60"), (it, "greater 500")])
    {
        let options = Options {
            filter: Some(filter.parse().unwrap()),
            ..Options::default()
        };
        let open = || Capture::with(name, &options).unwrap();
        let key = |it: &Frame<'_>| {
            (
                it.data.to_vec(),
                it.time_ns,
                it.wire_len,
                it.dropped_before,
                it.options.to_vec(),
            )
        };
        let (mut looped, mut lent, mut owned) = (open(), open(), open());
        let mut expected = Vec::new();
        while let Some(frame) = looped.next_frame().unwrap() {
            expected.push(key(&frame));
        }
        let mut seen = Vec::new();
        while let Next::Ready(batch) = lent.next_batch(Duration::MAX).unwrap() {
            assert_eq!(batch.is_borrowed(), *is_borrowed, "{name} {filter}");
            seen.extend(batch.frames().map(|it| key(&it)));
        }
        let mut kept = Vec::new();
        while let Next::Ready(batch) = owned.take_batch(Duration::MAX).unwrap() {
            kept.push(batch);
        }
        let ledger = owned.finish().unwrap();
        let is_lent = |batch: &OwnedBatch| batch.is_borrowed();
        // A few frames of a large memory are copied.
        assert!(*is_borrowed || !kept.iter().any(is_lent), "{name}");
        assert!(!is_borrowed || !filter.is_empty() || kept.iter().any(is_lent));
        let detached = kept.pop().map(OwnedBatch::detach);
        assert!(!detached.as_ref().is_some_and(is_lent));
        let kept: Vec<_> = kept
            .iter()
            .chain(&detached)
            .flat_map(|it| it.frames().map(|it| key(&it)))
            .collect();
        // A virtual card whose readers take other numbers at once loses others.
        if *is_borrowed {
            assert!(seen == expected && kept == expected, "{name} {filter}");
            assert_eq!(looped.finish().unwrap(), ledger);
        }
        let taken = ledger.dropped.kernel.unwrap() + ledger.counted + ledger.filtered;
        assert_eq!((taken, ledger.counted), (4000, kept.len() as u64));
        assert_eq!(lent.finish().unwrap().check(), Ok(()));
    }
}

#[test]
fn a_batch_of_a_file_is_where_it_was_read_and_outlives_the_capture() {
    let folder = Folder::new();
    let path = file(&folder, "a.pcapng", "sim:rate=1G,count=10k,clock=virtual");
    let mut capture = Capture::read(&path).unwrap();
    let Next::Ready(first) = capture.take_batch(Duration::MAX).unwrap() else {
        panic!("a batch");
    };
    assert!(first.is_borrowed() && first.len() > 1000);
    let addresses = first.bytes().as_ptr_range();
    assert!(
        first
            .frames()
            .all(|it| addresses.contains(&it.data.as_ptr()))
    );
    let rest = batches(&mut capture, |batch| assert!(batch.is_borrowed()));
    let ledger = capture.finish().unwrap();
    assert_eq!((ledger.counted, ledger.check()), (10_000, Ok(())));
    let numbers = first
        .frames()
        .filter_map(|it| crate::sim::sequence_of(it.data));
    assert_eq!(
        Vec::from_iter(numbers.chain(rest)),
        Vec::from_iter(0..10_000)
    );
}

#[test]
fn a_batch_tells_a_time_limit_a_stop_and_the_end_apart() {
    let mut capture = Capture::open("sim:rate=1pps,clock=virtual").unwrap();
    for timeout in [Duration::ZERO, SECOND / 10] {
        while capture.next_batch(timeout).unwrap().ready().is_some() {}
        assert!(matches!(
            capture.next_batch(timeout).unwrap(),
            Next::TimedOut
        ));
    }
    capture.stopper().stop();
    for timeout in [Duration::ZERO, SECOND / 10, Duration::MAX] {
        assert!(matches!(
            capture.take_batch(timeout).unwrap(),
            Next::Stopped
        ));
        assert!(matches!(
            capture.next_timeout(timeout).unwrap(),
            Next::Stopped
        ));
    }
    let mut capture = Capture::open("sim:rate=1G,count=3,clock=virtual").unwrap();
    assert_eq!(batches(&mut capture, |_| {}), [0, 1, 2]);
    capture.stopper().stop(); // too late to make a difference
    assert!(matches!(
        capture.next_batch(Duration::ZERO).unwrap(),
        Next::End
    ));
    // A program that waits with a descriptor learns the end with calls that do not wait.
    let mut capture = Capture::open("sim:rate=1G,count=3").unwrap();
    while !matches!(capture.next_batch(Duration::ZERO).unwrap(), Next::End) {}
    assert_eq!(capture.finish().unwrap().counted, 3);
}

#[test]
fn a_source_that_cannot_be_opened_has_the_code_of_its_reason() {
    use forebay::error::Code;
    let folder = Folder::new();
    let text = folder.path("text.pcap");
    std::fs::write(&text, "this is no capture file").unwrap();
    let code = |opened: Result<Capture>| opened.expect_err("not there").code();
    assert_eq!(
        code(Capture::read(folder.path("none.pcap"))),
        Code::NotFound
    );
    assert_eq!(code(Capture::read(&text)), Code::Damaged);
    assert_eq!(code(Capture::open("share:no-such-share")), Code::NotFound);
    assert_eq!(code(Capture::open("sim:rate=fast")), Code::Invalid);
    assert_eq!(code(with("sim", "host")), Code::Invalid);
    let absent = Capture::open("no-such-if0");
    let expected = match cfg!(feature = "live") {
        true => Code::NotFound,
        false => Code::Unsupported,
    };
    assert_eq!(code(absent), expected);
    let violation = Ledger {
        received: 1,
        ..Ledger::default()
    };
    assert_eq!(
        Error::from(violation.check().unwrap_err()).code(),
        Code::Panic
    );
}

/// Whether the descriptor is readable within this time.
fn is_readable(capture: &mut Capture, limit: Duration) -> bool {
    let descriptor = capture.descriptor().unwrap();
    let mut polled = [rustix::event::PollFd::new(
        &descriptor,
        rustix::event::PollFlags::IN,
    )];
    let limit = limit.try_into().unwrap();
    rustix::event::poll(&mut polled, Some(&limit)).unwrap() > 0
}

#[test]
fn a_descriptor_is_readable_once_a_frame_comes_the_source_ends_or_the_capture_is_stopped() {
    let mut capture = Capture::open("sim:rate=20pps,count=3").unwrap();
    let mut frames = 0;
    let ended = loop {
        match capture.next_batch(Duration::ZERO).unwrap() {
            Next::Ready(batch) => frames += batch.len(),
            Next::TimedOut => {
                if capture.arm().unwrap() {
                    assert!(is_readable(&mut capture, 60 * SECOND));
                }
            }
            ended => break ended.without::<()>(),
        }
    };
    assert_eq!((frames, ended), (3, Next::End));
    assert!(!capture.arm().unwrap(), "an end is not waited for");

    let mut capture = Capture::open("sim:rate=1bit").unwrap(); // a frame in 11 minutes
    assert!(capture.arm().unwrap() && !is_readable(&mut capture, Duration::ZERO));
    capture.disarm();
    let stopper = capture.stopper();
    let thread = thread::spawn(move || stopper.stop());
    assert!(
        is_readable(&mut capture, 60 * SECOND),
        "a stop does it without arming"
    );
    thread.join().unwrap();
    assert_eq!(capture.next_timeout(Duration::ZERO).unwrap(), Next::Stopped);
    assert!(!capture.arm().unwrap());

    // A virtual clock moves.
    let mut capture = Capture::open("sim:rate=1pps,count=1,clock=virtual").unwrap();
    while capture.next_timeout(Duration::ZERO).unwrap() == Next::TimedOut {
        assert!(!capture.arm().unwrap());
    }
}

/// A file that comes through a pipe. `rest` of it arrives right after the port was armed for the second time.
struct Arrives {
    file: crate::file::File,
    pipe: std::io::PipeWriter,
    rest: Vec<u8>,
    arms: u32,
}

impl Port for Arrives {
    fn interfaces(&self) -> &[Interface] {
        self.file.interfaces()
    }
    fn receive(&mut self, budget: usize) -> Result<crate::port::Burst<'_>> {
        self.file.receive(budget)
    }
    fn arm(&mut self) -> Result<Wake<'_>> {
        let wake = self.file.arm()?;
        self.arms += 1;
        if self.arms == 2 {
            assert!(matches!(wake, Wake::Fd(_)));
            std::io::Write::write_all(&mut self.pipe, &self.rest).unwrap();
        }
        Ok(wake)
    }
    fn stop(&mut self) -> Result<()> {
        self.file.stop()
    }
    fn counts(&mut self) -> crate::port::Counts {
        self.file.counts()
    }
    fn info(&self) -> crate::port::PortInfo {
        self.file.info()
    }
}

#[test]
fn a_wait_misses_no_packet_of_an_interface_that_the_filter_does_not_know_yet() {
    use crate::format::Format;
    let interface = Interface::default();
    let described = Format::Pcapng.describe(&interface, 0);
    let mut beginning = Format::Pcapng.header("test");
    beginning.extend(Format::Pcapng.interface(&interface, &described, 100));
    let second = Format::Pcapng.describe(&interface, 1);
    let mut rest = Format::Pcapng.interface(&interface, &second, 100);
    let frame = Frame {
        interface: 1,
        ..Frame::whole(&[0; 60])
    };
    let begin = rest.len();
    rest.resize(begin + Format::Pcapng.frame_len(&frame, 100), 0);
    Format::Pcapng.put_frame(&mut rest[begin..], &frame, &second, 100);

    let (reader, mut pipe) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut pipe, &beginning).unwrap();
    let reader = std::fs::File::from(std::os::fd::OwnedFd::from(reader));
    let port = Arrives {
        file: crate::file::File::from_stream(reader, "pipe").unwrap(),
        pipe,
        rest,
        arms: 0,
    };
    let filter: Filter = "less 60".parse().unwrap();
    let mut capture = Capture::of(Box::new(port), Some(&filter), Clock::real()).unwrap();
    assert!(
        !capture.arm().unwrap() || is_readable(&mut capture, Duration::ZERO),
        "the packet is there, and nothing would wake the program"
    );
    assert!(matches!(
        capture.next_timeout(Duration::ZERO).unwrap(),
        Next::Ready(frame) if frame.interface == 1
    ));
}

/// A card that, once it is stopped, ends when this pipe has a byte.
struct Lingers(Box<dyn Port>, std::io::PipeReader, bool);

impl Port for Lingers {
    fn interfaces(&self) -> &[Interface] {
        self.0.interfaces()
    }
    fn receive(&mut self, budget: usize) -> Result<crate::port::Burst<'_>> {
        self.0.receive(budget)
    }
    fn arm(&mut self) -> Result<Wake<'_>> {
        let fd = std::os::fd::AsFd::as_fd(&self.1);
        let mut polled = [rustix::event::PollFd::new(
            &fd,
            rustix::event::PollFlags::IN,
        )];
        let is_there = rustix::event::poll(&mut polled, Some(&Default::default())).unwrap() > 0;
        match self.2 && !is_there {
            true => Ok(Wake::Fd(fd)),
            false => self.0.arm(),
        }
    }
    fn stop(&mut self) -> Result<()> {
        self.2 = true;
        self.0.stop()
    }
    fn counts(&mut self) -> crate::port::Counts {
        self.0.counts()
    }
    fn info(&self) -> crate::port::PortInfo {
        self.0.info()
    }
}

#[test]
fn a_program_sleeps_between_a_stop_and_the_end_of_the_source() {
    let clock = Clock::real();
    let (reader, mut pipe) = std::io::pipe().unwrap();
    let card = crate::sim::Sim::new("rate=1bit".parse().unwrap(), clock.clone());
    let port = Lingers(Box::new(card), reader, false);
    let mut capture = Capture::of(Box::new(port), None, clock).unwrap();
    assert!(capture.arm().unwrap());
    capture.stopper().stop();
    assert!(is_readable(&mut capture, 60 * SECOND));
    // It is readable each 100 ms, which a slow machine may need for this.
    let sleeps = |_| capture.arm().unwrap() && !is_readable(&mut capture, Duration::ZERO);
    assert!((0..100).any(sleeps), "the descriptor stays readable");
    std::io::Write::write_all(&mut pipe, &[0]).unwrap();
    assert!(is_readable(&mut capture, 60 * SECOND));
    assert!(!capture.arm().unwrap());
    assert_eq!(capture.next_timeout(Duration::ZERO).unwrap(), Next::Stopped);
}

/// A card whose frames cannot be read any more once it is stopped.
struct Breaks(Box<dyn Port>, bool);

impl Port for Breaks {
    fn interfaces(&self) -> &[Interface] {
        self.0.interfaces()
    }
    fn receive(&mut self, budget: usize) -> Result<crate::port::Burst<'_>> {
        match self.1 {
            true => Err(Error::new("card", "reading it")),
            false => self.0.receive(budget),
        }
    }
    fn arm(&mut self) -> Result<Wake<'_>> {
        self.0.arm()
    }
    fn stop(&mut self) -> Result<()> {
        self.1 = true;
        self.0.stop()
    }
    fn counts(&mut self) -> crate::port::Counts {
        self.0.counts()
    }
    fn info(&self) -> crate::port::PortInfo {
        self.0.info()
    }
}

#[test]
fn the_counts_of_a_source_that_fails_at_the_end_add_up() {
    let clock = Clock::virtual_time();
    let card = crate::sim::Sim::new("rate=1G".parse().unwrap(), clock.clone());
    let port = Breaks(Box::new(card), false);
    let mut capture = Capture::of(Box::new(port), None, clock).unwrap();
    for _ in 0..10 {
        capture.next_frame().unwrap().unwrap();
    }
    assert!(capture.finish().is_err());
    let ledger = capture.ledger();
    assert_eq!((ledger.counted, ledger.check()), (10, Ok(())));
    assert_eq!(capture.ledger(), ledger);
}
