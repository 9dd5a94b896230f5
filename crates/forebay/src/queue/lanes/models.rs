//! Models of a lane: loom runs every interleaving of a few steps; other builds run one.
//!
//! The lane has room for two messages of 8 bytes, and bells replace the sockets. `planted_bugs_are_found` tests these tests: it
//! runs this binary again with a bug planted, and requires that the model fails.

use super::{
    Left,
    lane::{FRONT, Found, Inlet, Outlet, RECEIPT, fence_after_arming},
};
use crate::{
    memory::words,
    sync::{Arc, model_of, thread},
};
#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};

/// Models the rings of a socket: they stay until they are taken, and no thread sleeps while there are any.
#[derive(Default)]
struct Bell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.is_rung.lock().unwrap() = true;
        self.rung.notify_one();
    }

    fn take(&self) {
        *self.is_rung.lock().unwrap() = false;
    }

    fn sleep(&self) {
        let mut is_rung = self.is_rung.lock().unwrap();
        while !*is_rung {
            is_rung = self.rung.wait(is_rung).unwrap();
        }
    }
}

/// The halves of a lane for `messages` messages of 8 bytes. Outside loom it is rounded up to a page.
fn lane(messages: usize) -> (Outlet, Inlet) {
    let (lane, lane_read) = words::both(FRONT + 2 * messages);
    let (receipt, receipt_read) = words::both(RECEIPT);
    (
        Outlet::new(lane, receipt_read),
        Inlet::new(lane_read, receipt),
    )
}

/// Sends like `Sender`.
fn send(outlet: &mut Outlet, number: u64, arrived: &Bell, room: &Bell) {
    if !outlet.has_room(8).unwrap() {
        let take_rings = || {
            room.take();
            Ok(())
        };
        while !outlet.arm(8, take_rings).unwrap() {
            room.sleep();
        }
    }
    outlet.disarm();
    if outlet.put(&number.to_ne_bytes()) {
        arrived.ring();
    }
}

fn try_recv(inlet: &mut Inlet, room: &Bell) -> Option<u64> {
    let mut buffer = [0; 8];
    match inlet.take(&mut buffer).unwrap() {
        Found::Message { len, rings, .. } => {
            assert_eq!(len, 8);
            if rings {
                room.ring();
            }
            Some(u64::from_ne_bytes(buffer))
        }
        _ => None,
    }
}

/// Receives like `Hub`.
fn recv(inlets: &mut [Inlet], arrived: &Bell, room: &Bell) -> u64 {
    let look = |inlets: &mut [Inlet]| inlets.iter_mut().find_map(|inlet| try_recv(inlet, room));
    let mut found = look(inlets);
    while found.is_none() {
        inlets.iter_mut().for_each(Inlet::arm);
        fence_after_arming();
        found = look(inlets);
        if found.is_none() {
            arrived.sleep();
            arrived.take();
        }
    }
    inlets.iter().for_each(Inlet::disarm);
    found.unwrap()
}

#[test]
fn three_messages_pass_through_room_for_two() {
    model_of(3, || {
        let (mut outlet, inlet) = lane(2);
        let bells = Arc::new((Bell::default(), Bell::default()));
        let theirs = bells.clone();
        let thread = thread::spawn(move || {
            (1..=3).for_each(|number| send(&mut outlet, number, &theirs.0, &theirs.1));
        });
        let mut inlets = [inlet];
        for expected in 1..=3 {
            assert_eq!(recv(&mut inlets, &bells.0, &bells.1), expected);
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_message_in_either_of_two_lanes_wakes_the_receiver() {
    model_of(3, || {
        let ((one, first), (two, second)) = (lane(1), lane(1));
        let bells = Arc::new((Bell::default(), Bell::default()));
        let threads = [(one, 1), (two, 2)].map(|(mut outlet, number)| {
            let theirs = bells.clone();
            thread::spawn(move || send(&mut outlet, number, &theirs.0, &theirs.1))
        });
        let mut inlets = [first, second];
        let mut sum = 0;
        for _ in 0..2 {
            sum += recv(&mut inlets, &bells.0, &bells.1);
        }
        assert_eq!(sum, 3);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn what_was_sent_before_its_sender_left_is_there() {
    model_of(5, || {
        let (mut outlet, mut inlet) = lane(1);
        let thread = thread::spawn(move || {
            outlet.put(&7_u64.to_ne_bytes());
            outlet.leave();
        });
        if inlet.how_it_left() == Left::Closed {
            assert_eq!(try_recv(&mut inlet, &Bell::default()), Some(7));
        }
        thread.join().unwrap();
    });
}

#[cfg(loom)]
#[test]
fn planted_bugs_are_found() {
    const THREE: &str = "three_messages_pass_through_room_for_two";
    const EITHER: &str = "a_message_in_either_of_two_lanes_wakes_the_receiver";
    const LEFT: &str = "what_was_sent_before_its_sender_left_is_there";
    let plants = [
        ("lane-publish-relaxed", THREE),
        ("lane-credit-relaxed", THREE),
        ("lane-ring-without-fence", THREE),
        ("lane-arm-without-fence", EITHER),
        ("lane-want-without-fence", THREE),
        ("lane-rings-taken-late", THREE),
        ("lane-pass-without-fence", THREE),
        ("lane-leave-relaxed", LEFT),
    ];
    crate::sync::planted_bugs_are_found("queue::lanes::models", &plants);
}
