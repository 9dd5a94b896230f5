//! Models of recovery, in every interleaving of a few steps: one process dies before its first, second, … store, and others
//! continue.
//!
//! The processes are threads of a model ([`mortal`](crate::sync::mortal)). A word (`peers::process`) stands for the kernel's
//! list of the dead. A dying process forgets all local values; everything that it stored stays.

use super::{
    core::{Core, TryError},
    frame::span,
    peers::{Peers, process::be},
};
use crate::{
    memory::MapConfig,
    sync::{Arc, Deadline, model_of, mortal::dies, thread},
};
use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// A received message: its number, its byte, and whether it is marked as redelivered.
type Acquired = (u64, u8, bool);

/// A queue for three messages of one byte each.
fn core(redelivers: bool) -> Arc<Core> {
    let config = MapConfig {
        populate: false,
        huge_pages: false,
    };
    let mut core = Core::new(3 * span(1) as usize, &config).unwrap();
    core.peers = Peers::Processes(Default::default());
    core.redelivers = redelivers;
    Arc::new(core)
}

fn at_once() -> Deadline {
    Deadline::now()
}

fn record_death(core: &Core, number: u32) {
    if let Peers::Processes(deaths) = &core.peers {
        deaths.record_death(number);
    }
}

fn send(core: &Core, byte: u8) {
    let mut reserved = None;
    core.reserve([1].into_iter(), &at_once(), |frame| reserved = Some(frame))
        .unwrap();
    let mut frame = reserved.unwrap();
    core.fill(&mut frame)[0] = byte;
    core.commit(frame);
}

/// Takes the next message, passes it to `see`, and releases it.
fn take(core: &Core, see: impl FnOnce(Acquired)) -> Result<(), TryError> {
    let mut taken = None;
    core.take_within(1, 1, &at_once(), |frame| taken = Some(frame))?;
    let frame = taken.unwrap();
    see((frame.sequence, core.read(&frame)[0], frame.again));
    core.release(frame);
    Ok(())
}

/// Takes all messages that are there.
fn take_all(core: &Core, got: &mut Vec<Acquired>) {
    while let Ok(()) = take(core, |one| got.push(one)) {}
}

/// Runs `scene` with each number of stores after which its mortal process dies, until `scene` returns that it survived.
fn wherever_it_dies(scene: impl Fn(u32) -> bool + Send + Sync + 'static) {
    let scene = std::sync::Arc::new(scene);
    for stores in 0.. {
        let died = std::sync::Arc::new(AtomicBool::new(false));
        let (scene, says) = (scene.clone(), died.clone());
        model_of(3, move || says.store(scene(stores), Relaxed));
        if !died.load(Relaxed) {
            assert!(stores > 3, "the mortal process stores nothing");
            return;
        }
    }
}

/// Starts process 2, which dies after `stores` stores of `life`, unless `life` ends first; returns whether it died.
fn mortal(
    core: &Arc<Core>,
    stores: u32,
    life: impl FnOnce(&Core) + Send + 'static,
) -> thread::JoinHandle<bool> {
    let core = core.clone();
    thread::spawn(move || {
        be(2);
        let died = dies(stores, || life(&core));
        record_death(&core, 2); // also correct if it survived: then it leaves
        died
    })
}

/// What a mortal process reports about itself, outside the modelled memory.
#[derive(Clone, Default)]
struct Deeds(std::sync::Arc<(AtomicBool, std::sync::Mutex<Vec<Acquired>>)>);

#[test]
fn a_dying_sender_loses_no_sent_message_and_leaves_no_partial_one() {
    wherever_it_dies(|stores| {
        let (core, sent) = (core(true), Deeds::default());
        let says = sent.clone();
        let sender = mortal(&core, stores, move |core| {
            send(core, 1);
            says.0.0.store(true, Relaxed);
        });
        let mut got = Vec::new();
        send(&core, 2);
        take_all(&core, &mut got);
        let died = sender.join().unwrap();
        take_all(&core, &mut got);
        let stats = core.stats(&at_once()).unwrap();
        assert!(stats.adds_up() && stats.queued == 0, "{stats:?}");
        assert_eq!(stats.received, got.len() as u64);
        assert!(got.is_sorted() && got.iter().all(|got| !got.2), "{got:?}");
        let of = |byte| got.iter().filter(|got| got.1 == byte).count();
        assert!(of(2) == 1 && of(1) <= 1, "{got:?}");
        assert!(of(1) == 1 || !sent.0.0.load(Relaxed));
        died
    });
}

fn dying_receiver(redelivers: bool) {
    wherever_it_dies(move |stores| {
        let (core, deeds) = (core(redelivers), Deeds::default());
        send(&core, 1);
        send(&core, 2);
        let says = deeds.clone();
        let receiver = mortal(&core, stores, move |core| {
            let taken = take(core, |got| says.0.1.lock().unwrap().push(got));
            says.0.0.store(taken.is_ok(), Relaxed);
        });
        let mut got = Vec::new();
        take_all(&core, &mut got);
        let died = receiver.join().unwrap();
        take_all(&core, &mut got);
        let stats = core.stats(&at_once()).unwrap();
        assert!(stats.adds_up() && stats.queued == 0, "{stats:?}");
        assert_eq!(stats.received, 2);
        let seen = deeds.0.1.lock().unwrap().clone();
        // It may have died between its release and its report.
        let has_released = deeds.0.0.load(Relaxed);
        let again = got.iter().filter(|got| got.2).count() as u64;
        assert_eq!(stats.redelivered, again);
        for byte in [1, 2] {
            let here: Vec<_> = got.iter().filter(|got| got.1 == byte).collect();
            let there = seen.iter().filter(|got| got.1 == byte).count();
            let unmarked = there + here.iter().filter(|got| !got.2).count();
            assert!(here.len() <= 1 && unmarked <= 1, "{got:?} and {seen:?}");
            assert!(!(there == 1 && has_released && !here.is_empty()));
            if redelivers {
                assert!(here.len() + there >= 1, "{byte} is lost");
            }
        }
        let missing = 2 - got.len() as u64;
        match redelivers {
            true => assert_eq!(stats.abandoned, 0),
            // A released message is neither received here nor abandoned.
            false if has_released => assert_eq!((stats.abandoned, missing), (0, seen.len() as u64)),
            false => assert_eq!((stats.abandoned, again), (missing, 0)),
        }
        died
    });
}

#[test]
fn messages_of_a_dying_receiver_are_redelivered_and_marked_and_no_others() {
    dying_receiver(true);
}

#[test]
fn what_a_dying_receiver_holds_is_counted_and_nothing_else_is_missing() {
    dying_receiver(false);
}

fn dying_recoverer(redelivers: bool) {
    wherever_it_dies(move |stores| {
        let core = core(redelivers);
        send(&core, 1);
        be(3);
        let held = Cell::new(None);
        core.take(1, 1, &at_once(), |frame| held.set(Some(frame)))
            .unwrap();
        record_death(&core, 3);
        be(1);
        let recoverer = mortal(&core, stores, |core| {
            let _ = core.recover(&at_once());
        });
        let mut got = Vec::new();
        take_all(&core, &mut got);
        let died = recoverer.join().unwrap();
        take_all(&core, &mut got);
        let stats = core.stats(&at_once()).unwrap();
        assert!(stats.adds_up(), "{stats:?}");
        let expected = match redelivers {
            true => (vec![(0, 1, true)], 1, 0),
            false => (vec![], 0, 1),
        };
        assert_eq!((got, stats.redelivered, stats.abandoned), expected);
        died
    });
}

#[test]
fn a_process_that_recovers_from_a_death_may_die_too() {
    dying_recoverer(true);
    dying_recoverer(false);
}

/// Process 2 dies while it takes a message, while process 3 is stopped and holds the tail's lock. Process 1 then inherits the
/// head's lock, and cannot complete the repair before process 3 continues.
#[test]
fn after_a_stopped_process_continues_the_work_of_a_dead_one_is_repaired() {
    wherever_it_dies(|stores| {
        let core = core(true);
        send(&core, 1);
        send(&core, 2);
        be(3);
        let held = core.hold_tail(&at_once()).unwrap();
        be(1);
        let receiver = mortal(&core, stores, |core| {
            let _ = take(core, |_| ());
        });
        let mut got = Vec::new();
        let hasty = Deadline::not_even_for_locks();
        let mut taken = None;
        match core.take(1, 1, &hasty, |frame| taken = Some(frame)) {
            Ok(()) => {
                let frame = taken.unwrap();
                got.push((frame.sequence, core.read(&frame)[0], frame.again));
                core.release(frame);
            }
            Err(no) => assert_eq!(no, TryError::Time),
        }
        drop(held); // process 3 continues
        take_all(&core, &mut got);
        let died = receiver.join().unwrap();
        take_all(&core, &mut got);
        let stats = core.stats(&at_once()).unwrap();
        assert!(stats.adds_up() && stats.queued == 0, "{stats:?}");
        assert_eq!(stats.received, 2);
        for byte in [1, 2] {
            let of = got.iter().filter(|got| got.1 == byte).count();
            assert!(of <= 1, "{got:?}");
        }
        died
    });
}

#[test]
fn planted_bugs_are_found() {
    const SENDER: &str = "a_dying_sender_loses_no_sent_message_and_leaves_no_partial_one";
    const RECEIVER: &str = "messages_of_a_dying_receiver_are_redelivered_and_marked_and_no_others";
    const RECOVERER: &str = "a_process_that_recovers_from_a_death_may_die_too";
    const STOPPED: &str = "after_a_stopped_process_continues_the_work_of_a_dead_one_is_repaired";
    let plants = [
        ("queue-heir-repairs-nothing", RECEIVER),
        ("queue-recovery-at-first-sight", RECEIVER),
        ("queue-inherit-relaxed", SENDER),
        ("queue-abandon-without-a-note", RECOVERER),
        ("queue-unrepaired-lock-is-freed", STOPPED),
    ];
    crate::sync::planted_bugs_are_found("queue::recovery_models", &plants);
}
