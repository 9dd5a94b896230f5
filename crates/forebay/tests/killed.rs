//! Processes killed with `kill -9` at any point of using a queue: the other processes lose no message.
//!
//! Each test runs this program again as its children, and selects their role by the environment.

use forebay::queue::{
    RecvError,
    shared::{AfterDeath, Shared, SharedQueueConfig, attach, create, remove},
};
use forebay_testing::{
    children::{self, Mortal},
    dice::{self, Dice},
    folder::Folder,
};
use std::{
    collections::BTreeMap,
    env,
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Kills in each test: `FOREBAY_KILLS`, or [`dice::rounds`] of 300.
fn kills() -> u32 {
    let said = env::var("FOREBAY_KILLS").ok();
    said.map_or_else(
        || dice::rounds(300),
        |said| said.parse().expect("FOREBAY_KILLS is a number"),
    )
}

const LIMIT: Duration = Duration::from_secs(20);

/// A queue and a folder for a test, both removed at its end.
struct Lab {
    name: String,
    folder: Folder,
}

impl Lab {
    fn new(test: &str) -> Lab {
        let name = format!("{test}-{}", std::process::id());
        let folder = Folder::new();
        Lab { name, folder }
    }

    /// Starts this program again, as `role` number `number`.
    fn child(&self, role: &str, number: u32) -> Mortal {
        let child = children::role("child")
            .env("FOREBAY_ROLE", role)
            .env("FOREBAY_QUEUE", &self.name)
            .env("FOREBAY_FILE", self.file(number))
            .env("FOREBAY_NUMBER", number.to_string())
            .spawn();
        Mortal(child.unwrap())
    }

    fn file(&self, number: u32) -> PathBuf {
        self.folder.join(number.to_string())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = remove(&self.name);
    }
}

fn message(sender: u32, number: u64) -> Vec<u8> {
    let len = 16 + (number * 37 + u64::from(sender) * 11) % 300;
    let mut bytes = u64::from(sender).to_ne_bytes().to_vec();
    bytes.extend(number.to_ne_bytes());
    bytes.resize(len as usize, sender as u8 ^ number as u8);
    bytes
}

/// The sender and the number of a message, which is checked to the last byte.
fn check(bytes: &[u8]) -> (u32, u64) {
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let (sender, number) = (word(0) as u32, word(8));
    assert_eq!(bytes, message(sender, number));
    (sender, number)
}

/// Runs a child until it is killed. It is a test only so that the program can be run as a child.
#[test]
#[ignore = "it is what the other tests run as a child"]
fn child() {
    let Ok(role) = env::var("FOREBAY_ROLE") else {
        return;
    };
    let name = env::var("FOREBAY_QUEUE").unwrap();
    let me: u32 = env::var("FOREBAY_NUMBER").unwrap().parse().unwrap();
    let mut open = OpenOptions::new();
    let mut file = (open.create(true).append(role == "receiver").write(true))
        .open(env::var("FOREBAY_FILE").unwrap())
        .unwrap();
    let queue = match role.as_str() {
        "creator" => create(&name, &small(AfterDeath::Redeliver)),
        _ => attach(&name),
    }
    .unwrap();
    match role.as_str() {
        "receiver" => {
            let receiver = queue.receiver();
            loop {
                let message = receiver.take().unwrap();
                let (_, number) = check(&message);
                let record = number << 1 | u64::from(message.is_redelivered());
                file.write_all(&record.to_ne_bytes()).unwrap();
            }
        }
        _ => {
            let sender = queue.sender();
            for number in 0.. {
                if number % 5 == 0 {
                    drop(sender.reserve(number as usize % 200).unwrap());
                }
                let message = message(me, number);
                let mut place = sender.reserve(message.len()).unwrap();
                for (place, byte) in place.iter_mut().zip(message) {
                    *place = byte;
                    std::hint::spin_loop(); // slow, so that many children die here
                }
                place.commit();
                // How many messages were certainly sent.
                file.write_all_at(&(number + 1_u64).to_ne_bytes(), 0)
                    .unwrap();
            }
        }
    }
}

fn small(after_death: AfterDeath) -> SharedQueueConfig {
    SharedQueueConfig {
        capacity_bytes: 4096,
        after_death,
        ..SharedQueueConfig::default()
    }
}

fn words(mut file: File) -> Vec<u64> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    let whole = bytes.chunks_exact(8); // the last record may be torn
    whole
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
        .collect()
}

#[test]
fn killed_senders_and_the_killed_creator_lose_nothing_that_was_sent() {
    let lab = Lab::new("senders");
    let mut dice = Dice(0x9E37_79B9);
    let mut children = vec![lab.child("creator", 0)];
    let queue = wait_for_queue(&lab);
    for number in 1..3 {
        children.push(lab.child("sender", number));
    }
    let receiver = queue.receiver();
    let mut next: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut last, mut received) = (None, 0);
    let mut see = |limit| -> Result<(), RecvError> {
        let message = receiver.take_timeout(limit)?;
        let (sender, number) = check(&message);
        let next = next.entry(sender).or_default();
        assert_eq!(number, *next, "sender {sender}");
        *next += 1;
        assert!(last < Some(message.sequence()) && !message.is_redelivered());
        last = Some(message.sequence());
        received += 1;
        Ok(())
    };
    for round in 0..kills() {
        for _ in 0..dice.below(2000) {
            see(LIMIT).expect("others are still sending");
        }
        drop(children.swap_remove(dice.below(3)));
        children.push(lab.child("sender", round + 3));
    }
    drop(children);
    while see(Duration::from_millis(300)).is_ok() {}
    for (number, next) in next {
        let sent = words(File::open(lab.file(number)).unwrap());
        let sent = sent.first().copied().unwrap_or_default();
        assert!(
            (sent..=sent + 1).contains(&next),
            "sender {number}: {next} of {sent}"
        );
    }
    let stats = receiver.stats().unwrap();
    assert_eq!((stats.received, stats.queued), (received, 0));
    assert_eq!(stats.reserved, stats.received + stats.aborted + stats.torn);
    assert!(stats.torn <= u64::from(kills()) + 3);
    eprintln!("{} senders killed: {stats:?}", kills());
}

fn wait_for_queue(lab: &Lab) -> Shared {
    let begun = Instant::now();
    loop {
        match attach(&lab.name) {
            Ok(queue) => return queue,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::yield_now();
    }
}

/// Kills receivers while numbers are sent. Returns how often each number was received, at first and again.
fn kill_receivers(lab: &Lab, after_death: AfterDeath) -> (Shared, Vec<(u64, u64)>) {
    let queue = create(&lab.name, &small(after_death)).unwrap();
    let mut dice = Dice(0xABCD_EF01);
    let mut children: Vec<_> = (0..3).map(|number| lab.child("receiver", number)).collect();
    let (sender, mut sent) = (queue.sender(), 0);
    for round in 0..kills() {
        for _ in 0..dice.below(1000) {
            sender.send_timeout(message(0, sent), LIMIT).unwrap();
            sent += 1;
        }
        drop(children.swap_remove(dice.below(3)));
        children.push(lab.child("receiver", round + 3));
    }
    drop(children);
    let mut counts = vec![(0, 0); sent as usize];
    let mut count = |number: u64, again: bool| {
        let counts: &mut (u64, u64) = &mut counts[number as usize];
        *(if again { &mut counts.1 } else { &mut counts.0 }) += 1;
    };
    let receiver = queue.receiver();
    while let Ok(message) = receiver.take_timeout(Duration::from_millis(300)) {
        count(check(&message).1, message.is_redelivered());
    }
    for number in 0..kills() + 3 {
        let Ok(file) = File::open(lab.file(number)) else {
            continue; // killed before it began
        };
        for record in words(file) {
            count(record >> 1, record & 1 == 1);
        }
    }
    let stats = receiver.stats().unwrap();
    assert_eq!((stats.reserved, stats.received), (sent, sent));
    eprintln!("{} receivers killed: {stats:?}", kills());
    (queue, counts)
}

#[test]
fn messages_of_killed_receivers_are_redelivered_and_marked_and_no_others() {
    let lab = Lab::new("redeliver");
    let (queue, counts) = kill_receivers(&lab, AfterDeath::Redeliver);
    for (number, (first, again)) in counts.iter().enumerate() {
        assert!(
            *first <= 1 && first + again >= 1,
            "{number}: {first}, {again}"
        );
    }
    let again: u64 = counts.iter().map(|(_, again)| again).sum();
    assert!(again <= queue.sender().stats().unwrap().redelivered);
}

#[test]
fn what_killed_receivers_held_is_counted_and_nothing_else_is_missing() {
    let lab = Lab::new("abandon");
    let (queue, counts) = kill_receivers(&lab, AfterDeath::Abandon);
    let missing = counts.iter().filter(|(first, _)| *first == 0).count() as u64;
    assert!(
        counts
            .iter()
            .all(|(first, again)| *first <= 1 && *again == 0)
    );
    assert!(missing <= queue.sender().stats().unwrap().abandoned);
}

#[test]
fn a_queue_is_never_broken_by_deaths_while_other_processes_are_stopped() {
    let lab = Lab::new("both");
    let queue = create(&lab.name, &small(AfterDeath::Redeliver)).unwrap();
    let mut dice = Dice(0x5151_7EAD);
    let role = |number: u32| ["sender", "receiver"][number as usize % 2];
    let mut children: Vec<_> = (0..4)
        .map(|number| lab.child(role(number), number))
        .collect();
    let receiver = queue.receiver();
    let (mut received, rounds) = (0, kills() / 3);
    for round in 0..rounds {
        // The process that dies may hold one lock, and the stopped one the other.
        let stopped = dice.below(4);
        children[stopped].signal(libc::SIGSTOP);
        let dies = (stopped + 1 + dice.below(3)) % 4;
        children[dies].signal(libc::SIGKILL);
        for _ in 0..3 {
            match receiver.take_timeout(Duration::from_millis(1)) {
                Ok(message) => {
                    check(&message);
                    received += 1;
                }
                Err(error) => assert_eq!(error, RecvError::TimedOut, "round {round}"),
            }
        }
        children[stopped].signal(libc::SIGCONT);
        // Senders have even numbers.
        let number = 4 + 2 * round + dies as u32 % 2;
        children[dies] = lab.child(role(number), number);
    }
    drop(children);
    while let Ok(message) = receiver.take_timeout(Duration::from_millis(300)) {
        check(&message);
        received += 1;
    }
    let stats = receiver.stats().unwrap();
    assert!(stats.adds_up() && stats.queued == 0, "{stats:?}");
    assert!(received > 0);
    eprintln!("{rounds} processes killed while others were stopped: {stats:?}");
}

#[test]
fn a_stopped_process_is_alive_and_costs_a_time_limit() {
    let lab = Lab::new("stopped");
    let queue = create(&lab.name, &small(AfterDeath::Redeliver)).unwrap();
    let child = lab.child("sender", 0);
    let receiver = queue.receiver();
    for _ in 0..100 {
        check(&receiver.take_timeout(LIMIT).unwrap());
    }
    child.signal(libc::SIGSTOP);
    let limit = Duration::from_millis(200);
    let mut next = 100;
    // The messages that it had sent, and then none, within the limit. None of them is lost.
    while let Ok(message) = receiver.take_timeout(limit) {
        assert_eq!(check(&message), (0, next));
        next += 1;
    }
    child.signal(libc::SIGCONT);
    for next in next..next + 100 {
        assert_eq!(check(&receiver.take_timeout(LIMIT).unwrap()), (0, next));
    }
    assert_eq!(receiver.stats().unwrap().torn, 0);
}
