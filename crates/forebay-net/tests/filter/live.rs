//! Compares filters on a live interface: two sockets receive the same frames, one with the program that tcpdump compiles for this
//! interface and one with ours. In received frames, the kernel has moved the outer VLAN tag to metadata; in frames that this
//! machine sends, the tag is still in the data.

use crate::libpcap::Source;
use crate::oracle::{SNAPLEN, answer};
use crate::tap::Tap;
use crate::{corpus, expressions, none_differ, oracle_is_there};
use forebay_net::filter::bpf::{Instruction, Program, code};
use forebay_net::filter::{Filter, View};
use forebay_net::port::LinkType;
use forebay_testing::lab::{lab, tool};
use forebay_testing::sender::Sender;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{thread, time::Duration};

/// Bytes sent before the sockets are read; less than the smallest socket buffer.
const BATCH: usize = 32;
/// Expressions per batch: a process may have 1024 descriptors.
const AT_ONCE: usize = 120;

/// libpcap's optimizer (1.10.3) compiles this one wrongly: it uses the inner of two tags instead of the one that the kernel
/// moved to metadata, because it records the tag's length before it asks the kernel. Its unoptimized program is correct.
const UNOPTIMIZED: &str = "ip or vlan and ip";
/// libpcap's program for a live Ethernet reads a scratch cell that was never written, and every kernel rejects it.
const NO_PROGRAM: &str = "vlan and pppoes";

/// Two programs for one expression.
struct Both {
    expression: &'static str,
    theirs: Program,
    ours: Program,
}

impl Both {
    fn of(expression: &'static str, source: &Source) -> Result<Self, String> {
        let optimize = expression != UNOPTIMIZED;
        let theirs = source.compile(expression, optimize)?.program();
        let filter: Filter = expression.parse().map_err(|e| format!("{e}"))?;
        let ours = filter.compile(LinkType::ETHERNET, View::Socket, SNAPLEN);
        let ours = ours.map_err(|error| error.to_string())?;
        Ok(Both {
            expression,
            theirs,
            ours,
        })
    }

    /// Whether the kernel must give the same result as our machine: the program uses none of the kernel's metadata, and does not
    /// shift by a variable, which the kernel takes modulo 32.
    fn is_for_any_machine(&self) -> bool {
        let differs = |i: &Instruction| match i.code {
            code::LD_ABS | code::LDH_ABS | code::LDB_ABS => i.k >= code::KERNEL,
            code::LSH_X | code::RSH_X => true,
            _ => false,
        };
        !self.theirs.instructions().iter().any(differs)
    }
}

/// The program that tcpdump prints for an expression on this interface.
fn printed(expression: &str) -> String {
    let mut tcpdump = tool("tcpdump");
    tcpdump.args(["-i", "vb", "-ddd", "--", expression]);
    String::from_utf8(answer(tcpdump.output()).unwrap()).unwrap()
}

/// One socket per program, and the frames that each accepted.
struct Pair<'a> {
    both: &'a Both,
    sockets: [Tap; 2],
    seen: [Vec<Vec<u8>>; 2],
}

impl<'a> Pair<'a> {
    fn open(interface: &str, both: &'a Both) -> Result<Self, String> {
        let tap = |program: &Program| Tap::open(interface, Some(program));
        let [Ok(first), Ok(second)] = [tap(&both.theirs), tap(&both.ours)] else {
            return Err("the kernel rejects a program".into());
        };
        let (sockets, seen) = ([first, second], Default::default());
        Ok(Pair {
            both,
            sockets,
            seen,
        })
    }

    fn drain(&mut self) {
        for (socket, seen) in self.sockets.iter().zip(&mut self.seen) {
            socket.drain(seen);
        }
    }

    /// Compares the results, where `all` is every frame on the interface, and returns the first difference.
    fn verdict(&self, all: &[Vec<u8>]) -> Result<(), String> {
        let [theirs, ours] = &self.seen;
        if theirs != ours {
            let mut pairs = theirs.iter().zip(ours);
            let other = pairs.find(|(theirs, ours)| theirs != ours);
            let (theirs, ours) = (theirs.len(), ours.len());
            return Err(format!(
                "accepted {ours} instead of {theirs} frames; first: {other:02x?}"
            ));
        }
        let machine = |frame: &&Vec<u8>| self.both.theirs.run(frame, frame.len() as u32) > 0;
        if self.both.is_for_any_machine() && !all.iter().filter(machine).eq(theirs) {
            return Err("our machine and the kernel's differ".into());
        }
        Ok(())
    }
}

/// Waits until an unfiltered socket has received `count` frames.
fn await_frames(witness: &Tap, count: usize, all: &mut Vec<Vec<u8>>) {
    let patience = Timespec::try_from(Duration::from_secs(10)).unwrap();
    while all.len() < count {
        let mut fds = [PollFd::from_borrowed_fd(witness.fd(), PollFlags::IN)];
        let ready = poll(&mut fds, Some(&patience));
        assert_eq!(ready, Ok(1), "{} of {count} frames arrived", all.len());
        witness.drain(all);
    }
}

/// Whether the kernel delivers this frame. It must have at least an Ethernet header, and the kernel drops a frame that ends in
/// the VLAN tag that it moves to metadata.
fn can_be_sent(frame: &[u8]) -> bool {
    let tagged = frame.len() > 13 && matches!(frame[12..14], [0x81, 0x00] | [0x88, 0xA8]);
    (if tagged { 20 } else { 14 }..=1514).contains(&frame.len())
}

fn compare(interface: &str, programs: &[Both], wrong: &mut Vec<String>) {
    let frames: Vec<_> = corpus::ethernet()
        .into_iter()
        .map(|packet| packet.data)
        .filter(|frame| can_be_sent(frame))
        .collect();
    let sender = Sender::pinned("va");
    for programs in programs.chunks(AT_ONCE) {
        let mut tell = |expression: &str, what: String| {
            wrong.push(format!("{interface}: {expression}: {what}"))
        };
        // This socket is bound first, so the kernel passes each frame to it last.
        let (witness, mut all) = (Tap::open(interface, None).unwrap(), Vec::new());
        let mut pairs = Vec::new();
        for both in programs {
            match Pair::open(interface, both) {
                Ok(pair) => pairs.push(pair),
                Err(error) => tell(both.expression, error),
            }
        }
        let mut sent = 0;
        for batch in frames.chunks(BATCH) {
            sender.frames(batch);
            sent += batch.len();
            await_frames(&witness, sent, &mut all);
            pairs.iter_mut().for_each(Pair::drain);
        }
        for pair in &pairs {
            if let Err(what) = pair.verdict(&all) {
                tell(pair.both.expression, what);
            }
        }
        assert_eq!(all.len(), sent, "frames of unknown origin");
        // To close one, the kernel waits until no processor can be in it any more. Several wait at once.
        let each = pairs.len().div_ceil(16).max(1);
        thread::scope(|scope| {
            while !pairs.is_empty() {
                let some = pairs.split_off(pairs.len().saturating_sub(each));
                scope.spawn(move || drop(some));
            }
        });
    }
}

/// libpcap's programs for these have loops, which the kernel rejects.
#[test]
fn the_kernel_runs_protochain() {
    lab(&[], || {
        let frames: Vec<_> = corpus::ethernet()
            .into_iter()
            .map(|packet| packet.data)
            .filter(|frame| can_be_sent(frame))
            .collect();
        let sender = Sender::pinned("va");
        for expression in ["protochain 6", "ip6 protochain 17 or ip protochain 51"] {
            let filter: Filter = expression.parse().unwrap();
            let program = filter.compile(LinkType::ETHERNET, View::Socket, SNAPLEN);
            let program = program.unwrap();
            let (witness, mut all) = (Tap::open("vb", None).unwrap(), Vec::new());
            let (tap, mut seen) = (Tap::open("vb", Some(&program)).unwrap(), Vec::new());
            let mut sent = 0;
            for batch in frames.chunks(BATCH) {
                sender.frames(batch);
                sent += batch.len();
                await_frames(&witness, sent, &mut all);
                tap.drain(&mut seen);
            }
            all.retain(|frame| program.run(frame, frame.len() as u32) > 0);
            assert!(!all.is_empty() && seen == all, "{expression}");
        }
    });
}

#[test]
fn the_kernel_keeps_the_same_with_our_programs_as_with_tcpdumps() {
    if !oracle_is_there() {
        return;
    }
    lab(&["tcpdump"], || {
        let expressions = expressions::kept_and_left().chain(expressions::LIVE);
        let (mut programs, mut wrong) = (Vec::new(), Vec::new());
        let source = Source::interface("vb");
        for (number, expression) in expressions.filter(|&text| text != NO_PROGRAM).enumerate() {
            match Both::of(expression, &source) {
                Ok(both) => {
                    // A sample: the others have libpcap's programs, and not those that tcpdump prints.
                    if number % 29 == 0 || expressions::LIVE.contains(&expression) {
                        assert_eq!(both.theirs.numbers().to_string(), printed(expression));
                    }
                    programs.push(both);
                }
                Err(error) => wrong.push(format!("{expression}: {error}")),
            }
        }
        for interface in ["vb", "va"] {
            compare(interface, &programs, &mut wrong);
        }
        none_differ(&wrong);
    });
}
