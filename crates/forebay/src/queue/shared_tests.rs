//! Deaths at chosen points, without processes: a peer that forgets what it holds and detaches is as dead as a killed process.

use super::{
    core::Core,
    frame::{Kind, span},
    shared::{AfterDeath, Shared, SharedQueueConfig, attach, create, create_nameless, remove},
    *,
};
use crate::sync::{Deadline, atomic::Ordering::Relaxed};
use std::{
    fs,
    io::ErrorKind,
    mem,
    os::unix::fs::{FileExt, MetadataExt},
    time::Duration,
};

pub(super) const SOON: Duration = Duration::from_millis(1);
/// Longer than it takes until the dead are found.
pub(super) const LATER: Duration = Duration::from_secs(10);

pub(super) fn page(after_death: AfterDeath) -> Shared {
    create_nameless(&SharedQueueConfig {
        capacity_bytes: 1,
        after_death,
        ..SharedQueueConfig::default()
    })
    .unwrap()
}

pub(super) fn other(queue: &Shared) -> Shared {
    Shared::from_descriptor(queue.descriptor().try_clone_to_owned().unwrap()).unwrap()
}

/// Runs `last_act` as a peer that then dies: it releases nothing, but its byte of the file is unlocked.
fn dies_after(queue: &Shared, last_act: impl FnOnce(&Shared)) {
    let peer = other(queue);
    last_act(&peer);
}

fn core(queue: &Shared) -> &Core {
    queue.core()
}

#[test]
fn what_a_dead_sender_was_filling_is_passed_over_and_counted() {
    let queue = page(AfterDeath::Redeliver);
    dies_after(&queue, |peer| {
        let sender = peer.sender();
        sender.send(b"whole").unwrap();
        mem::forget(sender.reserve(100).unwrap());
    });
    queue.sender().send(b"second").unwrap();
    let receiver = queue.receiver();
    assert_eq!(&*receiver.take_timeout(LATER).unwrap(), b"whole");
    assert_eq!(&*receiver.take_timeout(LATER).unwrap(), b"second");
    let stats = receiver.stats().unwrap();
    assert_eq!((stats.reserved, stats.received, stats.torn), (3, 2, 1));
}

#[test]
fn what_a_dead_receiver_held_is_given_to_another_one_and_marked() {
    let queue = page(AfterDeath::Redeliver);
    let (sender, receiver) = (queue.sender(), queue.receiver());
    sender.send(b"first").unwrap();
    sender.send(b"second").unwrap();
    dies_after(&queue, |peer| mem::forget(peer.receiver().take().unwrap()));
    assert_eq!(&*receiver.take_timeout(LATER).unwrap(), b"second");
    let again = receiver.take_timeout(LATER).unwrap();
    assert_eq!((&*again, again.is_redelivered()), (&b"first"[..], true));
    drop(again);
    assert_eq!(receiver.take_timeout(SOON).err(), Some(RecvError::TimedOut));
    let stats = receiver.stats().unwrap();
    assert_eq!(
        (stats.received, stats.redelivered, stats.abandoned),
        (2, 1, 0)
    );
}

#[test]
fn messages_of_a_dead_receiver_are_redelivered_before_the_end_is_reported() {
    let queue = page(AfterDeath::Redeliver);
    queue.sender().send(b"last").unwrap();
    queue.sender().close();
    dies_after(&queue, |peer| mem::forget(peer.receiver().take().unwrap()));
    let receiver = queue.receiver();
    assert!(receiver.try_take().unwrap().is_redelivered());
    assert_eq!(receiver.take().err(), Some(RecvError::Closed));
}

#[test]
fn messages_of_a_dead_receiver_are_counted_if_so_configured_and_their_room_is_reused() {
    let queue = page(AfterDeath::Abandon);
    let sender = queue.sender();
    let most = vec![0; sender.largest()];
    sender.send(&most).unwrap();
    dies_after(&queue, |peer| mem::forget(peer.receiver().take().unwrap()));
    sender.send_timeout(&most, LATER).unwrap();
    let stats = sender.stats().unwrap();
    assert_eq!((stats.received, stats.abandoned, stats.queued), (1, 1, 1));
}

#[test]
fn locks_of_the_dead_are_taken_over() {
    let queue = page(AfterDeath::Redeliver);
    dies_after(&queue, |peer| {
        let forever = Deadline::never();
        mem::forget(core(peer).hold_head(&forever).unwrap());
        mem::forget(core(peer).hold_tail(&forever).unwrap());
        assert!(
            core(peer)
                .control
                .turn
                .acquire(&core(peer).peers, &forever)
                .is_some()
        );
    });
    let (sender, receiver) = (queue.sender(), queue.receiver());
    sender.try_send(vec![1; sender.largest()]).unwrap();
    assert_eq!(sender.send_timeout(b"", SOON), Err(SendError::TimedOut));
    receiver.try_take().unwrap();
    sender.send_timeout(b"", LATER).unwrap();
}

#[test]
fn a_living_holder_of_a_lock_costs_a_time_limit_and_nothing_else() {
    let queue = page(AfterDeath::Redeliver);
    let stopped = other(&queue);
    let held = core(&stopped).hold_tail(&Deadline::never()).unwrap();
    let sender = queue.sender();
    assert_eq!(sender.try_send(b"x"), Err(SendError::TimedOut));
    drop(held);
    assert_eq!(sender.try_send(b"x"), Ok(()));
}

#[test]
fn a_reservation_that_was_not_counted_is() {
    let queue = page(AfterDeath::Redeliver);
    queue.sender().send(b"0").unwrap();
    dies_after(&queue, |peer| {
        mem::forget(peer.sender().reserve(1).unwrap());
        let tail = &core(peer).control.tail;
        mem::forget(core(peer).hold_tail(&Deadline::never()).unwrap());
        tail.next.fetch_sub(1, Relaxed); // as if killed before the store
    });
    queue.sender().send_timeout(b"2", LATER).unwrap();
    let receiver = queue.receiver();
    assert_eq!(receiver.take_timeout(LATER).unwrap().sequence(), 0);
    assert_eq!(receiver.take_timeout(LATER).unwrap().sequence(), 2);
}

/// A receiver takes the message at the head and dies after `stores` of the three stores that taking needs.
fn dies_taking(stores: u32) {
    let queue = page(AfterDeath::Redeliver);
    queue.sender().send(b"0").unwrap();
    queue.sender().send(b"1").unwrap();
    dies_after(&queue, |peer| {
        let (core, head) = (core(peer), &core(peer).control.head);
        mem::forget(core.hold_head(&Deadline::never()).unwrap());
        if stores > 0 {
            let state = Kind::Taken.of_owner(core.peers.me());
            core.header(0).state.store(state, Relaxed);
        }
        if stores > 1 {
            head.received.fetch_add(1, Relaxed);
        }
        if stores > 2 {
            head.position.store(span(1), Relaxed);
        }
    });
    let receiver = queue.receiver();
    let got = [(); 2].map(|()| {
        let message = receiver.take_timeout(LATER).unwrap();
        (message.sequence(), message.is_redelivered())
    });
    match stores {
        0 => assert_eq!(got, [(0, false), (1, false)]),
        _ => assert_eq!(got, [(1, false), (0, true)]),
    }
    let stats = receiver.stats().unwrap();
    assert_eq!((stats.received, stats.queued), (2, 0));
}

#[test]
fn a_message_that_was_being_taken_is_neither_lost_nor_counted_twice() {
    (0..=3).for_each(dies_taking);
}

#[test]
fn a_name_leads_to_the_same_queue_until_it_is_removed() {
    let name = format!("test-{}", std::process::id());
    let config = SharedQueueConfig::default();
    let queue = create(&name, &config).unwrap();
    let error = create(&name, &config).unwrap_err();
    assert_eq!(error.cause().unwrap().kind(), ErrorKind::AlreadyExists);
    attach(&name).unwrap().sender().send(b"x").unwrap();
    assert_eq!(queue.receiver().try_take().unwrap().len(), 1);
    remove(&name).unwrap();
    let error = attach(&name).unwrap_err();
    assert_eq!(error.cause().unwrap().kind(), ErrorKind::NotFound);
    assert!(create("../etc", &config).is_err());
}

/// Number of mappings and descriptors of `file` in this process.
fn traces(file: &fs::Metadata) -> usize {
    let (major, minor) = (libc::major(file.dev()), libc::minor(file.dev()));
    let in_maps = format!(" {major:02x}:{minor:02x} {} ", file.ino());
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    // Other tests may close their descriptors meanwhile.
    let files = descriptors.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok());
    let same = files.filter(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()));
    maps.lines().filter(|line| line.contains(&in_maps)).count() + same.count()
}

#[test]
fn no_descriptor_no_map_and_no_name_is_left() {
    let name = format!("gone-{}", std::process::id());
    let queue = create(&name, &SharedQueueConfig::default()).unwrap();
    let other = attach(&name).unwrap();
    let (sender, receiver) = (queue.sender(), other.receiver());
    sender.send(b"x").unwrap();
    let message = receiver.take().unwrap();
    let file = fs::metadata(format!("/dev/shm/forebay.{name}")).unwrap();
    // Each attachment has a descriptor to hand over, one with its lock, one mapping of the front and two of the frames.
    assert_eq!(traces(&file), 2 * 5);
    drop(message);
    drop((queue, other, receiver));
    // A sender has no descriptor to hand over.
    assert_eq!(traces(&file), 4);
    drop(sender);
    assert_eq!(traces(&file), 0);
    remove(&name).unwrap();
    assert!(attach(&name).is_err());
}

#[test]
fn a_file_that_is_no_queue_is_refused() {
    for (at, bytes) in [
        (0, b"forebayX"),
        (8, &[9; 8]),
        (24, &[9; 8]),
        (32, &[255; 8]),
    ] {
        let queue = page(AfterDeath::Redeliver);
        let descriptor = queue.descriptor().try_clone_to_owned().unwrap();
        let file = std::fs::File::from(descriptor);
        file.write_all_at(bytes, at).unwrap();
        assert!(Shared::from_descriptor(file.into()).is_err(), "{at}");
    }
}

#[test]
fn words_that_make_no_sense_are_an_error_and_nothing_worse() {
    let queue = page(AfterDeath::Redeliver);
    let (sender, receiver) = (queue.sender(), queue.receiver());
    sender.send(b"0123").unwrap();
    core(&queue).header(0).len.store(u32::MAX, Relaxed);
    assert_eq!(receiver.take_timeout(SOON).err(), Some(RecvError::Broken));
    core(&queue).header(0).len.store(4, Relaxed);
    core(&queue).header(0).state.store(77, Relaxed);
    assert_eq!(receiver.take_timeout(SOON).err(), Some(RecvError::Broken));
    core(&queue).control.tail.position.store(u64::MAX, Relaxed);
    core(&queue).control.head.cached_tail.store(0, Relaxed);
    assert_eq!(receiver.take_timeout(SOON).err(), Some(RecvError::Broken));
    assert!(sender.send_timeout(b"0123", SOON).is_err());
}

#[test]
fn a_lock_of_the_dead_that_could_not_be_mended_in_time_is_mended_later() {
    let queue = page(AfterDeath::Redeliver);
    let stopped = other(&queue);
    queue.sender().send(b"0").unwrap();
    queue.sender().send(b"1").unwrap();
    dies_after(&queue, |peer| {
        let core = core(peer);
        mem::forget(core.hold_head(&Deadline::never()).unwrap());
        let state = Kind::Taken.of_owner(core.peers.me());
        core.header(0).state.store(state, Relaxed); // as if killed before the next store
    });
    let receiver = queue.receiver();
    let held = core(&stopped).hold_tail(&Deadline::never()).unwrap();
    for _ in 0..3 {
        assert_eq!(receiver.take_timeout(SOON).err(), Some(RecvError::TimedOut));
    }
    drop(held);
    assert_eq!(&*receiver.take_timeout(LATER).unwrap(), b"1");
    assert_eq!(&*receiver.take_timeout(LATER).unwrap(), b"0");
}

#[test]
fn a_process_that_attaches_gets_first_what_the_dead_held() {
    let queue = page(AfterDeath::Redeliver);
    for text in ["1", "2", "3", "4"] {
        queue.sender().send(text.as_bytes()).unwrap();
    }
    dies_after(&queue, |peer| {
        let receiver = peer.receiver();
        (0..3).for_each(|_| mem::forget(receiver.take().unwrap()));
    });
    let newcomer = other(&queue);
    let receiver = newcomer.receiver();
    for expected in ["1", "2", "3", "4"] {
        let message = receiver.try_take().unwrap();
        assert_eq!(&*message, expected.as_bytes());
        assert_eq!(message.is_redelivered(), expected != "4");
    }
}

#[test]
fn tasks_at_both_ends_wait_for_other_processes() {
    const MESSAGES: u32 = 2000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let queue = page(AfterDeath::Redeliver);
    let peer = other(&queue);
    // A thread with the end of another process at each side of the tasks: lengths differ, so that room is awaited, too.
    let sends = std::thread::spawn(move || {
        let sender = peer.sender();
        (0..MESSAGES).for_each(|number| sender.send(vec![1; 1 + number as usize % 900]).unwrap());
        (0..2).for_each(|_| sender.send(b"").unwrap());
    });
    let receive = async |mut receiver: AsyncReceiver| {
        let mut received = 0;
        while !receiver.take().await.unwrap().is_empty() {
            received += 1;
        }
        received
    };
    let receiver = queue.receiver().into_async().unwrap();
    let received =
        runtime.block_on(async { receive(receiver.clone()).await + receive(receiver).await });
    sends.join().unwrap();
    assert_eq!(received, MESSAGES);

    let peer = other(&queue);
    let receives = std::thread::spawn(move || {
        let receiver = peer.receiver();
        (0..MESSAGES).for_each(|number| {
            assert_eq!(receiver.take().unwrap().len(), 1 + number as usize % 900)
        });
    });
    let mut sender = queue.sender().into_async().unwrap();
    runtime.block_on(async {
        for number in 0..MESSAGES {
            sender
                .send(vec![1; 1 + number as usize % 900])
                .await
                .unwrap();
        }
    });
    receives.join().unwrap();
    // Cancelled, and closed.
    let mut receiver = queue.receiver().into_async().unwrap();
    runtime.block_on(async {
        let mut pending = std::pin::pin!(receiver.take());
        std::future::poll_fn(|context| {
            assert!(pending.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    });
    other(&queue).sender().close();
    assert_eq!(
        runtime.block_on(receiver.take()).err(),
        Some(RecvError::Closed)
    );
}

#[test]
fn a_poll_loop_waits_for_other_processes() {
    use rustix::event::{PollFd, PollFlags, poll};
    fn wait_for(watch: &mut Watch) {
        while watch.arm() {
            let answer = poll(&mut [PollFd::new(&*watch, PollFlags::IN)], None);
            assert_eq!(answer, Ok(1));
        }
    }
    const MESSAGES: u32 = 2000;
    let queue = page(AfterDeath::Redeliver);
    let peer = other(&queue);
    let thread = std::thread::spawn(move || {
        let sender = peer.sender();
        let mut watch = sender.watch(100).unwrap();
        for _ in 0..MESSAGES {
            while sender.try_send([1; 100]).is_err() {
                wait_for(&mut watch);
            }
        }
        sender.close();
    });
    let receiver = queue.receiver();
    let mut watch = receiver.watch().unwrap();
    let mut received = 0;
    loop {
        match receiver.try_take() {
            Ok(message) => received += u32::from(message[0]),
            Err(RecvError::Closed) => break,
            Err(_) => wait_for(&mut watch),
        }
    }
    thread.join().unwrap();
    assert_eq!(received, MESSAGES);
}

#[test]
fn a_watch_that_lacks_room_passes_the_signal_on_to_a_sender_that_has_enough() {
    let queue = page(AfterDeath::Redeliver);
    let (sender, receiver) = (queue.sender(), queue.receiver());
    for _ in 0..40 {
        sender.try_send([0; 80]).unwrap();
    }
    let mut watch = sender.watch(4000).unwrap();
    assert!(watch.arm());
    let peer = other(&queue);
    let waiting = std::thread::spawn(move || {
        let sender = peer.sender();
        (0..100).all(|_| sender.send_timeout([0; 80], LATER).is_ok())
    });
    for _ in 0..140 {
        receiver.take_timeout(LATER).unwrap();
    }
    assert!(waiting.join().unwrap());
    assert!(!watch.arm()); // now there is room for all
}

#[test]
fn a_dropped_watch_ends_its_thread_and_detaches_the_process() {
    let queue = page(AfterDeath::Redeliver);
    let peer = other(&queue);
    let mut watch = peer.receiver().watch().unwrap();
    assert!(watch.arm());
    drop(peer);
    assert_eq!(queue.processes(), 2);
    drop(watch);
    while queue.processes() > 1 {
        std::thread::yield_now();
    }
}
