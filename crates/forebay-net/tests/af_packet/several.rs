//! Several interfaces, in one session.

use crate::support::{lab, sender::Sender};
use forebay::time::Clock;
use forebay_net::{
    Control, Output, Session, SessionConfig,
    open::{self, Name, Options},
};
use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

fn names(names: &[&str]) -> Vec<Name> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

#[test]
fn packets_of_two_interfaces_are_in_the_order_of_time() {
    lab(&[], || {
        let ports = open::ports(&names(&["va", "vb"]), &Options::default(), &Clock::real());
        let config = SessionConfig {
            count: Some(600),
            ..SessionConfig::default()
        };
        let control = Control::new().unwrap();
        let session = Session::open(
            ports.unwrap(),
            Output::Count,
            config,
            Clock::real(),
            control,
        );
        let seen = Arc::new(Mutex::new(Vec::new()));
        let times = seen.clone();
        let session = session.unwrap().each(move |frame, interface| {
            times
                .lock()
                .unwrap()
                .push((frame.time_ns, interface.name.clone()));
            true
        });
        // Each is sent by one end and received by the other; their blocks are closed at different times.
        let sending = thread::spawn(|| {
            let (va, vb) = (Sender::open("va"), Sender::open("vb"));
            for number in 0..300 {
                let from = if number % 3 == 0 { &va } else { &vb };
                from.numbers(number..number + 1, 60).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let summary = session.run(&mut |_| {});
        sending.join().unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen.is_sorted_by_key(|it| it.0), "{seen:?}");
        assert_eq!((seen.len(), summary.odd.late), (600, 0));
        for name in ["va", "vb"] {
            assert_eq!(seen.iter().filter(|it| it.1 == name).count(), 300, "{name}");
        }
    });
}
