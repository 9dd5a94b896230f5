//! What users of a queue rely on, tested with real threads and against an oracle.

use super::*;
use crate::sync::atomic::Ordering::Relaxed;
use forebay_testing::dice::{rounds, times};
use proptest::prelude::*;
use std::{
    collections::{BTreeSet, VecDeque},
    sync::atomic::AtomicU64,
    thread,
    time::{Duration, Instant},
};

const SOON: Duration = Duration::from_millis(1);

fn page(when_full: WhenFull) -> (Sender, Receiver) {
    queue_with(&QueueConfig {
        capacity_bytes: 1,
        when_full,
        ..QueueConfig::default()
    })
    .unwrap()
}

/// A publisher and 8 consumers that each take `each` messages of `len` bytes, through one page of buffer.
fn publisher_and_consumers(each: u64, len: usize) {
    const CONSUMERS: u64 = 8;
    let (sender, receiver) = page(WhenFull::Wait);
    let seen: BTreeSet<_> = thread::scope(|scope| {
        let consume = || {
            scope.spawn(|| {
                let (mut mine, mut buffer) = (Vec::new(), vec![0; len]);
                for _ in 0..each {
                    let received = receiver.recv(&mut buffer).unwrap();
                    let number = u64::from_ne_bytes(buffer[..8].try_into().unwrap());
                    assert_eq!((received.len, received.sequence), (len, number));
                    mine.push(number);
                }
                assert!(mine.is_sorted());
                mine
            })
        };
        let consumers: Vec<_> = (0..CONSUMERS).map(|_| consume()).collect();
        let mut message = vec![0; len];
        for number in 0..CONSUMERS * each {
            message[..8].copy_from_slice(&number.to_ne_bytes());
            sender.send(&message).unwrap();
        }
        let joined = consumers.into_iter().map(|one| one.join().unwrap());
        joined.flatten().collect()
    });
    assert_eq!(seen.len() as u64, CONSUMERS * each);
    let stats = sender.stats().unwrap();
    assert_eq!((stats.received, stats.queued), (CONSUMERS * each, 0));
}

#[test]
fn a_publisher_and_8_consumers_pass_two_pages_of_messages_each_through_one_page() {
    publisher_and_consumers(times(2 * 4096, 30), 8);
}

#[test]
fn long_messages_pass_through_one_page_too() {
    publisher_and_consumers(times(200, 3), 1500);
    publisher_and_consumers(times(50, 2), 4096 - 16);
}

/// Fills a message of `sender` with its sender, its number, and bytes that depend on both.
fn compose(message: &mut [u8], sender: u64, number: u64) {
    message[..8].copy_from_slice(&sender.to_ne_bytes());
    message[8..16].copy_from_slice(&number.to_ne_bytes());
    message[16..].fill((sender * 31 + number) as u8);
}

fn check(message: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_ne_bytes(message[at..at + 8].try_into().unwrap());
    let (sender, number) = (word(0), word(8));
    assert!(
        message[16..]
            .iter()
            .all(|&byte| byte == (sender * 31 + number) as u8)
    );
    (sender, number)
}

#[test]
fn many_senders_and_receivers_lose_nothing_and_keep_each_senders_order() {
    const SENDERS: u64 = 4;
    const EACH: u64 = if cfg!(any(miri, forebay_one_view)) {
        times(500, 20)
    } else {
        5000
    };
    let (sender, receiver) = page(WhenFull::Wait);
    let (bytes_in, bytes_out) = (AtomicU64::new(0), AtomicU64::new(0));
    let aborted = AtomicU64::new(0);
    let mut all: Vec<_> = thread::scope(|scope| {
        let receive = |way| {
            let (receiver, bytes_out) = (receiver.clone(), &bytes_out);
            scope.spawn(move || {
                let mut mine = Vec::new();
                let mut see = |sequence: u64, message: &[u8]| {
                    bytes_out.fetch_add(message.len() as u64, Relaxed);
                    mine.push((check(message), sequence));
                };
                let mut buffer = vec![0; receiver.largest()];
                loop {
                    let no = match way {
                        0 => (receiver.recv(&mut buffer))
                            .map(|received| see(received.sequence, &buffer[..received.len]))
                            .err(),
                        1 => (receiver.take())
                            .map(|message| see(message.sequence(), &message))
                            .err(),
                        2 => (receiver.take_burst(5))
                            .map(|burst| burst.iter().for_each(|(number, text)| see(number, text)))
                            .err(),
                        _ => (receiver.recv_timeout(&mut buffer, SOON))
                            .map(|received| see(received.sequence, &buffer[..received.len]))
                            .err(),
                    };
                    match no {
                        Some(RecvError::Closed) => break,
                        None | Some(RecvError::TimedOut) => {}
                        Some(other) => panic!("{other}"),
                    }
                }
                assert!(
                    mine.is_sorted_by_key(|&(_, sequence)| sequence),
                    "one receiver gets messages in order"
                );
                mine
            })
        };
        let receivers: Vec<_> = (0..4).map(receive).collect();
        for me in 0..SENDERS {
            let (sender, bytes_in, aborted) = (sender.clone(), &bytes_in, &aborted);
            scope.spawn(move || {
                for number in 0..EACH {
                    let len = 16 + (number * 37 + me * 11) as usize % 700;
                    bytes_in.fetch_add(len as u64, Relaxed);
                    if number % 7 == 0 {
                        aborted.fetch_add(1, Relaxed);
                        drop(sender.reserve(len / 2).unwrap());
                    }
                    let mut reserved = sender.reserve(len).unwrap();
                    compose(&mut reserved, me, number);
                    reserved.commit();
                }
            });
        }
        drop(sender);
        let joined = receivers.into_iter().map(|one| one.join().unwrap());
        joined.flatten().collect()
    });
    all.sort_by_key(|&(_, sequence)| sequence);
    for me in 0..SENDERS {
        let from_me = all.iter().filter(|((sender, _), _)| *sender == me);
        assert!(from_me.map(|((_, number), _)| *number).eq(0..EACH));
    }
    assert_eq!(bytes_in.into_inner(), bytes_out.into_inner());
    let stats = receiver.stats().unwrap();
    assert_eq!((stats.received, stats.queued), (SENDERS * EACH, 0));
    assert_eq!(stats.aborted, aborted.into_inner());
    assert_eq!(stats.reserved, stats.received + stats.aborted);
}

/// A step to take with a queue and its oracle.
#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    SendBurst(Vec<usize>),
    Reserve(usize),
    Commit(usize),
    Abort(usize),
    Recv(usize),
    Take,
    TakeBurst(usize),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..2000_usize).prop_map(Step::Send),
        proptest::collection::vec(0..600_usize, 1..8).prop_map(Step::SendBurst),
        (0..1000_usize).prop_map(Step::Reserve),
        any::<usize>().prop_map(Step::Commit),
        any::<usize>().prop_map(Step::Abort),
        (0..2500_usize).prop_map(Step::Recv),
        Just(Step::Take),
        (1..6_usize).prop_map(Step::TakeBurst),
        any::<usize>().prop_map(Step::Release),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Busy,
    Ready,
    Aborted,
    Held,
    Over,
}

/// The oracle: a list of each message's number, length and state, from the first one whose room is in use.
#[derive(Default)]
struct Oracle {
    frames: VecDeque<(u64, usize, State)>,
    next: u64,
    dropped: u64,
}

impl Oracle {
    fn settle(&mut self) {
        while let Some(&(_, _, state)) = self.frames.front()
            && state == State::Over
        {
            self.frames.pop_front();
        }
    }
    fn used(&self) -> usize {
        let spans = self.frames.iter();
        spans.map(|(_, len, _)| frame::span(*len) as usize).sum()
    }
    fn set(&mut self, sequence: u64, state: State) {
        let mut frames = self.frames.iter_mut();
        frames.find(|frame| frame.0 == sequence).unwrap().2 = state;
    }
    /// The next message to take; passes over aborted ones.
    fn head(&mut self) -> Option<(u64, usize)> {
        for frame in &mut self.frames {
            match frame.2 {
                State::Held | State::Over => {}
                State::Aborted => frame.2 = State::Over,
                State::Busy => return None,
                State::Ready => return Some((frame.0, frame.1)),
            }
        }
        None
    }
    fn send(&mut self, len: usize, state: State, drops: bool) -> Option<u64> {
        self.settle();
        while self.used() + frame::span(len) as usize > 4096 {
            let first = self.frames.front_mut().unwrap();
            match first.2 {
                State::Ready if drops => self.dropped += 1,
                State::Aborted if drops => {}
                _ => return None,
            }
            first.2 = State::Over;
            self.settle();
        }
        self.frames.push_back((self.next, len, state));
        self.next += 1;
        Some(self.next - 1)
    }
}

fn text(sequence: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (sequence as usize * 7 + i) as u8)
        .collect()
}

fn agrees_with_oracle(steps: Vec<Step>, when_full: WhenFull) {
    let (sender, receiver) = page(when_full);
    if sender.capacity_bytes() != 4096 {
        eprintln!("skipped: needs pages of 4096 bytes");
        return;
    }
    let drops = when_full == WhenFull::DropOldest;
    let (mut oracle, mut reserved, mut held) = (Oracle::default(), Vec::new(), Vec::new());
    let mut buffer = vec![0; 4096];
    for step in steps {
        match step {
            Step::Send(len) => {
                let sent = sender.try_send(text(oracle.next, len));
                let expected = oracle.send(len, State::Ready, drops);
                assert_eq!(sent, expected.map(drop).ok_or(SendError::Full));
            }
            Step::SendBurst(lens) => {
                let numbered = lens.iter().zip(oracle.next..);
                let texts: Vec<_> = numbered.map(|(&len, number)| text(number, len)).collect();
                let sent = sender.try_send_burst(&texts);
                // A burst drops the oldest messages only for its first message.
                let first = oracle.send(lens[0], State::Ready, drops);
                let others = lens[1..]
                    .iter()
                    .map_while(|&len| oracle.send(len, State::Ready, false));
                let expected = first.map(|_| 1 + others.count());
                assert_eq!(sent, expected.ok_or(SendError::Full));
            }
            Step::Reserve(len) => {
                let got = sender.try_reserve(len);
                let expected = oracle.send(len, State::Busy, drops);
                assert_eq!(got.as_ref().ok().map(ReservedMessage::sequence), expected);
                reserved.extend(got);
            }
            Step::Commit(which) if !reserved.is_empty() => {
                let mut one = reserved.swap_remove(which % reserved.len());
                let (sequence, len) = (one.sequence(), one.len());
                one.copy_from_slice(&text(sequence, len));
                oracle.set(sequence, State::Ready);
                one.commit();
            }
            Step::Abort(which) if !reserved.is_empty() => {
                let one = reserved.swap_remove(which % reserved.len());
                oracle.set(one.sequence(), State::Aborted);
            }
            Step::Recv(fits) => {
                let received = receiver.try_recv(&mut buffer[..fits]);
                let expected = match oracle.head() {
                    None => Err(RecvError::Empty),
                    Some((_, needed)) if needed > fits => Err(RecvError::TooSmall { needed }),
                    Some((sequence, len)) => {
                        oracle.set(sequence, State::Over);
                        assert_eq!(buffer[..len], text(sequence, len));
                        Ok(Received {
                            len,
                            sequence,
                            redelivered: false,
                        })
                    }
                };
                assert_eq!(received, expected);
            }
            Step::Take => {
                let taken = receiver.try_take();
                let expected = oracle.head().inspect(|&(sequence, _)| {
                    oracle.set(sequence, State::Held);
                });
                let got = taken.as_ref().ok().map(|m| (m.sequence(), m.len()));
                assert_eq!(got, expected);
                held.extend(taken);
            }
            Step::TakeBurst(most) => {
                let burst = receiver.try_take_burst(most);
                for (sequence, message) in burst.iter().flat_map(Burst::iter) {
                    assert_eq!(oracle.head(), Some((sequence, message.len())));
                    assert_eq!(message, text(sequence, message.len()));
                    oracle.set(sequence, State::Over);
                }
                let taken = burst.as_ref().map_or(0, Burst::len);
                assert!(taken == most || oracle.head().is_none());
            }
            Step::Release(which) if !held.is_empty() => {
                let one = held.swap_remove(which % held.len());
                assert_eq!(*one, text(one.sequence(), one.len()));
                oracle.set(one.sequence(), State::Over);
            }
            Step::Commit(_) | Step::Abort(_) | Step::Release(_) => {}
        }
    }
    let stats = sender.stats().unwrap();
    assert_eq!(
        (stats.reserved, stats.dropped),
        (oracle.next, oracle.dropped)
    );
    assert_eq!(
        stats.reserved,
        stats.received + stats.dropped + stats.aborted + stats.queued
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(256)))]

    #[test]
    fn random_steps_agree_with_a_list(steps in proptest::collection::vec(step(), 1..times(200, 50))) {
        agrees_with_oracle(steps, WhenFull::Wait);
    }

    #[test]
    fn random_steps_that_drop_the_oldest_agree_with_a_list(
        steps in proptest::collection::vec(step(), 1..times(200, 50))
    ) {
        agrees_with_oracle(steps, WhenFull::DropOldest);
    }
}

#[test]
fn a_message_longer_than_the_buffer_stays_in_the_queue() {
    let (sender, receiver) = page(WhenFull::Wait);
    sender.send([1; 100]).unwrap();
    sender.send([2; 10]).unwrap();
    let mut small = [0; 50];
    let no = Err(RecvError::TooSmall { needed: 100 });
    assert_eq!(receiver.recv(&mut small), no);
    assert_eq!(receiver.try_recv(&mut small), no);
    assert_eq!(receiver.take().unwrap().len(), 100);
    assert_eq!(receiver.recv(&mut small).unwrap().len, 10);
}

#[test]
fn closing_lets_nothing_in_and_lets_everything_out_and_wakes_everybody() {
    let (sender, receiver) = page(WhenFull::Wait);
    sender.send(b"left").unwrap();
    thread::scope(|scope| {
        let receivers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| std::iter::from_fn(|| receiver.take().ok()).count()))
            .collect();
        let rest = sender.reserve(sender.largest() - 100).unwrap();
        let blocked: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| sender.send([0; 200])))
            .collect();
        sender.close();
        for one in blocked {
            assert_eq!(one.join().unwrap(), Err(SendError::Closed));
        }
        rest.commit(); // reserved before the close
        let got = receivers.into_iter().map(|one| one.join().unwrap());
        assert_eq!(got.sum::<usize>(), 2);
    });
    assert_eq!(receiver.try_take().err(), Some(RecvError::Closed));
}

#[test]
fn the_last_end_of_a_kind_closes_the_queue() {
    let (sender, receiver) = page(WhenFull::Wait);
    let other = receiver.clone();
    drop(receiver);
    assert_eq!(sender.try_send(b"x"), Ok(()));
    drop(other);
    assert_eq!(sender.try_send(b"x"), Err(SendError::Closed));
}

#[test]
fn a_full_queue_refuses_where_that_is_its_policy() {
    let (sender, _receiver) = page(WhenFull::Refuse);
    let _rest = sender.reserve(sender.largest()).unwrap();
    assert_eq!(sender.send(b""), Err(SendError::Full));
}

#[test]
fn the_oldest_are_dropped_but_never_what_is_being_read_or_filled() {
    let (sender, receiver) = page(WhenFull::DropOldest);
    let half = sender.largest() / 2;
    let long = vec![0; half];
    sender.send(&long).unwrap();
    let held = receiver.take().unwrap();
    sender.send([1]).unwrap();
    assert_eq!(sender.send_timeout(&long, SOON), Err(SendError::TimedOut));
    assert_eq!(
        sender.stats().unwrap().dropped,
        0,
        "nothing is dropped in vain"
    );
    drop(held);
    let filling = sender.reserve(half).unwrap();
    assert_eq!(receiver.take().unwrap().sequence(), 1);
    assert_eq!(sender.try_send(&long), Err(SendError::Full));
    filling.commit();
    sender.send_timeout(vec![0; 2 * half], SOON).unwrap();
    assert_eq!(
        (
            sender.stats().unwrap().dropped,
            sender.stats().unwrap().queued
        ),
        (1, 1)
    );
}

#[test]
fn a_long_message_gets_its_turn_among_short_ones() {
    let (sender, receiver) = page(WhenFull::Wait);
    let long = vec![1; sender.largest()];
    thread::scope(|scope| {
        for _ in 0..2 {
            let sender = sender.clone();
            scope.spawn(move || while sender.send([0; 8]).is_ok() {});
        }
        scope.spawn(|| sender.send(&long).unwrap());
        while receiver.take().unwrap().len() != long.len() {}
        receiver.close();
    });
}

#[test]
fn messages_of_one_sender_to_one_receiver_wrap_and_stay_whole() {
    let (mut sender, mut receiver) = spsc::queue(4096).unwrap();
    let rounds = if cfg!(any(miri, forebay_one_view)) {
        times(2000, 30)
    } else {
        50_000
    };
    let reader = thread::spawn(move || {
        let mut buffer = vec![0; 4096];
        for number in 0..rounds {
            let len = number as usize * 13 % 1900;
            if number % 2 == 0 {
                let message = receiver.take().unwrap();
                assert_eq!(message.sequence(), number);
                assert_eq!(*message, text(number, len));
            } else {
                let received = receiver.recv(&mut buffer).unwrap();
                assert_eq!(
                    received,
                    Received {
                        len,
                        sequence: number,
                        redelivered: false
                    }
                );
                assert_eq!(buffer[..len], text(number, len));
            }
        }
        assert_eq!(receiver.take().err(), Some(RecvError::Closed));
    });
    for number in 0..rounds {
        if number % 5 == 0 {
            drop(sender.reserve(70).unwrap());
        }
        let message = text(number, number as usize * 13 % 1900);
        sender.send(&message).unwrap();
    }
    drop(sender);
    reader.join().unwrap();
}

#[test]
fn one_sender_and_one_receiver_get_the_same_answers() {
    let (mut sender, mut receiver) = spsc::queue(64).unwrap();
    assert_eq!(receiver.try_recv(&mut []), Err(RecvError::Empty));
    assert_eq!(receiver.take_timeout(SOON).err(), Some(RecvError::TimedOut));
    assert_eq!(
        sender.send([0; 57]),
        Err(SendError::TooLong { largest: 56 })
    );
    assert_eq!(sender.try_send([7; 56]), Ok(()));
    assert_eq!(sender.try_send([]), Err(SendError::Full));
    assert_eq!(sender.send_timeout([], SOON), Err(SendError::TimedOut));
    assert_eq!(
        receiver.recv(&mut [0; 9]),
        Err(RecvError::TooSmall { needed: 56 })
    );
    drop(receiver);
    assert_eq!(sender.send([]), Err(SendError::Closed));
}

#[test]
fn an_empty_queue_has_no_bytes_in_use() {
    let (sender, receiver) = page(WhenFull::Wait);
    for _ in 0..50 {
        sender.send([7; 100]).unwrap();
        receiver.take().unwrap();
        assert_eq!(sender.stats().unwrap().used_bytes, 0);
    }
    sender.send([7; 8]).unwrap();
    let kept = receiver.take().unwrap();
    sender.send([7; 8]).unwrap();
    drop(receiver.take().unwrap());
    // Room of messages that were read after the one still being read cannot be reused yet.
    assert_eq!(sender.stats().unwrap().used_bytes, 48);
    drop(kept);
    assert_eq!(sender.stats().unwrap().used_bytes, 0);
}

#[test]
fn a_forgotten_message_of_one_sender_is_taken_once_and_its_room_is_reused() {
    let (mut sender, mut receiver) = spsc::queue(64).unwrap();
    // More often than the queue has room, with one, two and three forgotten messages by turns. The last one ends where
    // the memory ends, so the next ones also fit without a second view.
    for number in 0..102_u64 {
        let burst = 1 + number % 3;
        for i in 0..burst {
            sender.try_send([i as u8; 5]).unwrap();
        }
        for i in 0..burst {
            let message = receiver.take().unwrap();
            assert_eq!(*message, [i as u8; 5]);
            assert_eq!(message.sequence(), sent_before(number, i));
            std::mem::forget(message);
        }
        assert_eq!(receiver.try_take().err(), Some(RecvError::Empty));
    }
    // Unless the receiver finds the queue empty, the room is released with the next message that is dropped.
    sender.try_send([1; 20]).unwrap();
    sender.try_send([2; 20]).unwrap();
    std::mem::forget(receiver.take().unwrap());
    assert_eq!(sender.try_send([3; 56]), Err(SendError::Full));
    drop(receiver.take().unwrap());
    sender.try_send([3; 56]).unwrap();
    std::mem::forget(receiver.take().unwrap());
    drop(sender);
    assert_eq!(receiver.take().err(), Some(RecvError::Closed));
}

/// The number of message `i` of round `number`, where the rounds have one, two and three messages by turns.
fn sent_before(number: u64, i: u64) -> u64 {
    (0..number).map(|round| 1 + round % 3).sum::<u64>() + i
}

/// How each form of a call answers when the queue is full, and when it is empty again. Its longest message has `$len` bytes.
macro_rules! four_forms {
    ($sender:ident, $receiver:ident, $len:expr) => {{
        let (past, timeout) = (Instant::now(), Duration::ZERO);
        let len = $len;
        // There is room: nothing waits.
        $sender.send_deadline(vec![1; len], past).unwrap();
        let full = [
            $sender.try_send("").err(),
            $sender.try_reserve(0).err(),
            $sender.send_timeout("", timeout).err(),
            $sender.send_deadline("", past).err(),
            $sender.reserve_timeout(0, timeout).err(),
            $sender.reserve_deadline(0, past).err(),
        ];
        assert_eq!(full[..2], [Some(SendError::Full); 2]);
        assert_eq!(full[2..], [Some(SendError::TimedOut); 4]);
        assert_eq!($receiver.take_deadline(past).unwrap().len(), len);
        let buffer = &mut [0; 8];
        let empty = [
            $receiver.try_recv(buffer).err(),
            $receiver.try_take().err(),
            $receiver.recv_timeout(buffer, timeout).err(),
            $receiver.recv_deadline(buffer, past).err(),
            $receiver.take_timeout(timeout).err(),
            $receiver.take_deadline(past).err(),
        ];
        assert_eq!(empty[..2], [Some(RecvError::Empty); 2]);
        assert_eq!(empty[2..], [Some(RecvError::TimedOut); 4]);
    }};
}

#[test]
fn the_four_forms_of_a_call_differ_only_in_how_long_they_wait() {
    let (sender, receiver) = queue(1).unwrap();
    four_forms!(sender, receiver, sender.largest());
    let empty = receiver.try_take_burst(1).err();
    assert_eq!(empty, Some(RecvError::Empty));
    let timed_out = receiver.take_burst_timeout(1, Duration::ZERO).err();
    assert_eq!(timed_out, Some(RecvError::TimedOut));
    let (mut sender, mut receiver) = spsc::queue(8).unwrap();
    four_forms!(sender, receiver, sender.largest());
}

#[test]
fn iterators_take_what_is_there_or_all_until_the_end() {
    let (sender, receiver) = queue(1).unwrap();
    sender.send("one").unwrap();
    sender.send("two").unwrap();
    let taken: Vec<_> = receiver
        .try_iter()
        .map(|message| message.to_vec())
        .collect();
    assert_eq!(taken, [b"one", b"two"]);
    assert!(receiver.try_iter().next().is_none());
    let sending = thread::spawn(move || {
        for number in 0..5000_u32 {
            sender.send(number.to_ne_bytes()).unwrap();
        }
    });
    let mut next = 0_u32;
    for message in &receiver {
        assert_eq!(*message, next.to_ne_bytes());
        next += 1;
    }
    assert_eq!(next, 5000);
    sending.join().unwrap();
    assert_eq!(receiver.try_take().err(), Some(RecvError::Closed));
}

#[test]
fn a_burst_of_no_messages_is_empty_and_takes_none() {
    let (sender, receiver) = queue(1).unwrap();
    assert!(receiver.take_burst(0).unwrap().is_empty()); // does not wait
    sender.send("a").unwrap();
    assert_eq!(receiver.try_take_burst(0).unwrap().len(), 0);
    assert_eq!(receiver.stats().unwrap().queued, 1);
}
