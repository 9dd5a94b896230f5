//! Callers with a misbehaving `AsRef` or a panic, memory that another process has overwritten, and other users' files.

use super::{
    core::Core,
    frame::{Kind, Owner, span},
    peers::Peers,
    shared::{AfterDeath, Shared, SharedQueueConfig, attach, create, remove},
    shared_tests::{LATER, SOON, other, page},
    *,
};
use crate::sync::{Deadline, atomic::Ordering::Relaxed, mortal};
use std::{
    cell::Cell,
    fs::{self, File, Permissions},
    io::ErrorKind,
    mem,
    os::{fd::AsFd, unix::fs::PermissionsExt},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::AtomicBool,
    thread,
};

/// A text that sends to the queue on each `as_ref`, is longer each time, and panics at call number `last`.
struct Liar<'a> {
    sender: &'a Sender,
    calls: Cell<usize>,
    last: usize,
}

impl AsRef<[u8]> for Liar<'_> {
    fn as_ref(&self) -> &[u8] {
        let calls = self.calls.get() + 1;
        self.calls.set(calls);
        if calls >= self.last {
            resume_unwind(Box::new(())); // a panic without a message
        }
        assert_eq!(self.sender.try_send(b"from as_ref"), Ok(()));
        &[b'x'; 4096][..calls * 100]
    }
}

#[test]
fn a_burst_asks_each_text_once_and_never_under_a_lock() {
    let (sender, receiver) = queue(1 << 16).unwrap();
    let liar = |last| Liar {
        sender: &sender,
        calls: Cell::new(0),
        last,
    };
    let texts = [liar(2), liar(2)];
    assert_eq!(sender.try_send_burst(&texts), Ok(2));
    let burst = receiver.try_take_burst(9).unwrap();
    let lens: Vec<_> = burst.iter().map(|(_, text)| text.len()).collect();
    assert_eq!(lens, [11, 11, 100, 100]);
}

/// A text that panics once `as_ref` was called a given number of times on all texts of its burst together.
struct Bomb<'a>(&'a Cell<usize>);

impl AsRef<[u8]> for Bomb<'_> {
    fn as_ref(&self) -> &[u8] {
        match self.0.get().checked_sub(1) {
            Some(left) => self.0.set(left),
            None => resume_unwind(Box::new(())),
        }
        b"quiet"
    }
}

#[test]
fn a_burst_that_panics_takes_nothing_from_other_senders() {
    const SENT: u64 = if cfg!(forebay_one_view) {
        2000
    } else {
        100_000
    };
    let (sender, receiver) = queue(1 << 14).unwrap();
    let sending = sender.clone();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..SENT {
                sending.send_timeout(number.to_ne_bytes(), LATER).unwrap();
            }
        });
        scope.spawn(|| {
            for fuse in [30, 64 + 60, 3 * 64 - 1].into_iter().cycle() {
                let left = Cell::new(fuse);
                let bombs: Vec<_> = (0..64).map(|_| Bomb(&left)).collect();
                let burst = AssertUnwindSafe(|| sender.try_send_burst(&bombs));
                let _ = catch_unwind(burst);
                if is_over.load(Relaxed) {
                    break;
                }
            }
        });
        let mut next = 0;
        while next < SENT {
            let Ok(message) = receiver.take_timeout(LATER) else {
                break;
            };
            let Ok(number) = <[u8; 8]>::try_from(&*message) else {
                continue; // the text of a `Bomb`, which is not a number
            };
            if u64::from_ne_bytes(number) != next {
                break;
            }
            next += 1;
        }
        is_over.store(true, Relaxed);
        receiver.close();
        assert_eq!(next, SENT);
    });
}

#[test]
fn a_returned_message_of_an_absurd_length_is_an_error() {
    let queue = page(AfterDeath::Redeliver);
    queue.sender().send(b"0123").unwrap();
    mem::forget(other(&queue).receiver().take().unwrap()); // and the peer dies
    let header = queue.core().header(0);
    header.state.store(Kind::Returned.word(), Relaxed);
    header.len.store(1 << 30, Relaxed);
    queue.core().control.head.returned.store(1, Relaxed);
    let taken = queue
        .receiver()
        .take_timeout(SOON)
        .map(|message| message.len());
    assert_eq!(taken, Err(RecvError::Broken));
}

/// The words of a queue's memory that hold positions or counts.
fn words(core: &Core) -> Vec<(&'static str, &mortal::AtomicU64)> {
    let (head, tail) = (&core.control.head, &core.control.tail);
    vec![
        ("tail", &tail.position),
        ("free", &tail.free),
        ("next", &tail.next),
        ("head", &head.position),
        ("known tail", &head.cached_tail),
        ("received", &head.received),
        ("dropped", &head.dropped),
        ("returned", &head.returned),
        ("abandoning", &head.abandoning),
        ("abandoned then", &head.abandoned_then),
        ("redelivered", &head.redelivered),
        ("sequence", &core.header(span(4)).sequence),
    ]
}

/// Makes all calls that a queue has; the test is that each of them returns.
fn use_it(queue: &Shared) {
    let (sender, receiver) = (queue.sender(), queue.receiver());
    let see = |bytes: &[u8]| drop(std::hint::black_box(bytes.to_vec()));
    for _ in 0..3 {
        let _ = sender.try_send(b"one more");
        let _ = sender.try_send_burst(&[b"two", b"moo"]);
        drop(sender.try_reserve(1000));
        let _ = receiver.try_take().map(|message| see(&message));
        let _ = receiver.try_take_burst(100).map(|burst| {
            burst.iter().for_each(|(_, message)| see(message));
        });
        let _ = receiver.try_recv(&mut [0; 2]);
        let deadline = Deadline::now();
        let core = queue.core();
        let _ = core.recover(&deadline);
        let _ = core.stats(&deadline);
        let _ = core.drop_oldest(&deadline);
        let _ = core
            .hold_head(&deadline)
            .map(|_held| core.repair_head(&deadline));
        let _ = core.hold_tail(&deadline).map(|_held| core.repair_tail());
    }
}

#[test]
fn no_word_that_a_peer_may_write_leads_outside_the_memory_or_to_a_panic() {
    let nasty = |page: u64| {
        let mut values = vec![0, 1, 3, 7, 8, 24, u64::MAX, u64::MAX - 7, 1 << 63, 1 << 32];
        values.extend([
            page - 1,
            page,
            page - 8,
            page - 4,
            2 * page,
            1 << 30,
            page + 24,
        ]);
        values
    };
    for after_death in [AfterDeath::Redeliver, AfterDeath::Abandon] {
        let spoil = |spoil: &dyn Fn(&Core)| {
            let queue = page(after_death);
            let sender = queue.sender();
            for text in ["0123", "4567", "89ab", "cdef"] {
                sender.send(text.as_bytes()).unwrap();
            }
            let peer = other(&queue);
            let receiver = peer.receiver();
            mem::forget(receiver.take().unwrap());
            drop(receiver.take().unwrap());
            mem::forget(peer.sender().reserve(4).unwrap());
            drop((receiver, peer)); // the peer is dead
            spoil(queue.core());
            use_it(&queue);
        };
        let page_bytes = page(after_death).receiver().capacity_bytes() as u64;
        for index in 0..words(page(after_death).core()).len() {
            for value in nasty(page_bytes) {
                spoil(&|core| words(core)[index].1.store(value, Relaxed));
            }
        }
        for value in nasty(page_bytes) {
            for position in (0..5).map(|frame| frame * span(4)) {
                spoil(&|core| core.header(position).len.store(value as u32, Relaxed));
                for kind in 0..16 {
                    spoil(&|core| {
                        let header = core.header(position);
                        header.len.store(value as u32, Relaxed);
                        header.state.store(kind | 0xFFFF_FF00, Relaxed);
                        core.control.head.returned.store(9, Relaxed);
                    });
                }
            }
        }
    }
}

#[test]
fn a_queue_whose_words_are_all_noise_is_an_error_and_nothing_worse() {
    let mut seed = 1_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let word = seed >> 20;
        if word.is_multiple_of(3) {
            word % 5000
        } else {
            word
        }
    };
    for _ in 0..500 {
        let queue = page(AfterDeath::Redeliver);
        for _ in 0..4 {
            queue.sender().send(b"0123").unwrap();
        }
        let core = queue.core();
        words(core)
            .iter()
            .for_each(|word| word.1.store(noise(), Relaxed));
        for position in (0..4096).step_by(8) {
            let header = core.header(position);
            header.len.store(noise() as u32, Relaxed);
            header.state.store(noise() as u32, Relaxed);
        }
        use_it(&queue);
    }
}

/// A named queue, removed at the end of its test.
struct Named(String);

impl Named {
    fn new(test: &str) -> Named {
        let name = format!("{test}-{}", std::process::id());
        drop(create(&name, &SharedQueueConfig::default()).unwrap());
        Named(name)
    }

    fn path(&self) -> String {
        format!("/dev/shm/forebay.{}", self.0)
    }

    fn refusal(&self) -> String {
        attach(&self.0).unwrap_err().to_string()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path());
    }
}

#[test]
fn a_queue_that_others_may_open_is_refused() {
    let queue = Named::new("open");
    for mode in [0o660, 0o604, 0o606, 0o666, 0o640] {
        fs::set_permissions(queue.path(), Permissions::from_mode(mode)).unwrap();
        let says = queue.refusal();
        assert!(says.contains(&format!("mode {mode:04o}")), "{says}");
    }
    fs::set_permissions(queue.path(), Permissions::from_mode(0o600)).unwrap();
    attach(&queue.0).unwrap();
}

#[test]
fn a_queue_of_another_user_is_refused_and_its_owner_named() {
    let queue = Named::new("foreign");
    if let Err(error) = std::os::unix::fs::chown(queue.path(), Some(1), None) {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        eprintln!("skipped: needs root, to give a file away");
        return;
    }
    let says = queue.refusal();
    assert!(says.contains("belongs to user 1 ("), "{says}");
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let name = format!("fifo-{}", std::process::id());
    let queue = Named(name);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let cwd = rustix::fs::CWD;
    rustix::fs::mknodat(cwd, queue.path(), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let says = queue.refusal();
    assert!(says.contains("not a regular file"), "{says}");
    fs::remove_file(queue.path()).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", queue.path()).unwrap();
    attach(&queue.0).unwrap_err();
}

#[test]
fn a_file_that_was_cut_is_refused_when_attaching() {
    let queue = Named::new("cut");
    let file = File::options().write(true).open(queue.path()).unwrap();
    for len in [0, 4096, 1 << 20] {
        file.set_len(len).unwrap();
        attach(&queue.0).unwrap_err();
    }
    remove(&queue.0).unwrap();
}

#[test]
fn the_memory_of_a_nameless_queue_can_neither_shrink_nor_grow() {
    let queue = page(AfterDeath::Redeliver);
    let file = File::from(queue.descriptor().try_clone_to_owned().unwrap());
    for len in [0, 1 << 24] {
        let error = file.set_len(len).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }
    assert_eq!(
        rustix::fs::fcntl_add_seals(queue.descriptor().as_fd(), rustix::fs::SealFlags::WRITE),
        Err(rustix::io::Errno::PERM)
    );
}

/// Returns a longer slice with each call.
struct Growing<'a>(Cell<usize>, &'a [u8]);

impl AsRef<[u8]> for Growing<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0.set(self.0.get() + 1);
        &self.1[..self.0.get()]
    }
}

#[test]
fn a_message_that_changes_its_length_is_sent_as_it_was_first() {
    let (sender, receiver) = super::queue(1).unwrap();
    let message = Growing(Cell::new(0), &[7; 100]);
    sender.send(&message).unwrap();
    sender.send_timeout(&message, SOON).unwrap();
    let lens = receiver.try_iter().map(|message| message.len());
    assert!(lens.eq([1, 2]));
    let (mut sender, mut receiver) = super::spsc::queue(64).unwrap();
    sender.send(&message).unwrap();
    assert_eq!(*receiver.take().unwrap(), [7; 3]);
}

#[test]
fn a_count_of_processes_that_is_damaged_or_wraps_gives_nobody_the_number_zero() {
    use std::sync::atomic::AtomicU32;
    for joined in [u32::MAX, (1 << Owner::BITS) - 1] {
        let file = crate::sys::sealed::nameless_file(4096).unwrap();
        let peers = Peers::join(file, &AtomicU32::new(joined), "queue").unwrap();
        assert_eq!(peers.me(), Owner::new(1));
    }
}
