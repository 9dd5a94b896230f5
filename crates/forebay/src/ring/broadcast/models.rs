//! Models of the broadcast ring: loom runs every interleaving of a few steps; other builds run one.

use super::{
    RecvError,
    layout::{Layout, NOTES},
    reading::Reading,
    writing::Writing,
};
use crate::{
    memory::words,
    sync::{Deadline, model_of, thread},
};

/// Both halves of a ring of two entries, and room for two messages of 8 bytes. Outside loom, the data is rounded up to a page.
fn ring() -> (Writing, Reading) {
    let mut layout = Layout {
        notes: 2,
        entries: 2,
        data: 2,
    };
    let (ours, theirs) = words::both(NOTES + 2 + 2 + 2);
    layout.data += ours.len() - layout.words().unwrap();
    let writing = Writing::new(ours, layout);
    (writing, Reading::new(theirs).unwrap())
}

fn append(writing: &mut Writing, number: u64) {
    assert_eq!(writing.append(&[&number.to_ne_bytes()]), Ok(number));
}

fn publish(writing: &mut Writing, number: u64) {
    append(writing, number);
    writing.publish();
}

/// Checks a message that was received.
fn check(reading: &mut Reading) -> Result<u64, RecvError> {
    let mut buffer = [0; 8];
    let received = reading.take(&mut buffer)?;
    assert_eq!(received.len, 8);
    assert_eq!(u64::from_ne_bytes(buffer), received.sequence);
    Ok(received.sequence)
}

#[test]
fn an_overtaken_reader_receives_whole_messages_and_counts_the_others() {
    model_of(3, || {
        let (mut writing, mut reading) = ring();
        let thread = thread::spawn(move || (0..4).for_each(|number| publish(&mut writing, number)));
        for _ in 0..3 {
            let before = reading.next;
            match check(&mut reading) {
                Ok(sequence) => assert_eq!(sequence, before),
                Err(RecvError::Overrun { lost }) => assert_eq!(reading.next, before + lost),
                Err(RecvError::Empty) => {}
                Err(error) => panic!("{error}"),
            }
        }
        thread.join().unwrap();
        while reading.next < 4 {
            let _ = check(&mut reading);
        }
        assert_eq!(reading.received + reading.lost, 4);
    });
}

#[test]
fn messages_that_were_appended_and_never_published_do_not_count_as_lost() {
    model_of(3, || {
        let (mut writing, mut reading) = ring();
        let thread = thread::spawn(move || {
            publish(&mut writing, 0);
            (1..4).for_each(|number| append(&mut writing, number));
            writing.stats().published // here, the producer dies
        });
        for _ in 0..2 {
            let _ = check(&mut reading);
        }
        let published = thread.join().unwrap();
        assert!(published < 4);
        while let Ok(_) | Err(RecvError::Overrun { .. }) = check(&mut reading) {}
        assert_eq!(reading.received + reading.lost, published);
    });
}

/// A message describes a word that lies elsewhere, and the producer retires it before it overwrites that word.
#[test]
fn what_a_message_describes_is_as_it_was_or_the_message_is_retired() {
    use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::Arc;
    model_of(3, || {
        let (mut writing, mut reading) = ring();
        let described = Arc::new(AtomicU64::new(0));
        let word = described.clone();
        let thread = thread::spawn(move || {
            publish(&mut writing, 0);
            if !crate::sync::planted("broadcast-retire-late") {
                writing.retire(1);
            }
            word.store(1, Relaxed);
            publish(&mut writing, 1);
            writing.retire(1);
        });
        if let Ok(sequence) = check(&mut reading) {
            let copy = described.load(Relaxed);
            if reading.is_intact(sequence) {
                assert_eq!(copy, sequence);
            }
        }
        thread.join().unwrap();
        while let Ok(_) | Err(RecvError::Overrun { .. }) = check(&mut reading) {}
        assert_eq!(reading.received + reading.lost, 2);
    });
}

#[test]
fn a_reader_that_sleeps_is_woken_and_notices_the_end() {
    model_of(3, || {
        let (mut writing, mut reading) = ring();
        let thread = thread::spawn(move || {
            publish(&mut writing, 0);
            writing.wake();
            publish(&mut writing, 1);
            writing.end();
        });
        let mut buffer = [0; 8];
        for sequence in 0..2 {
            let received = reading.wait(&mut buffer, &Deadline::never()).unwrap();
            assert_eq!(received.sequence, sequence);
        }
        let end = reading.wait(&mut buffer, &Deadline::never());
        assert_eq!(end, Err(RecvError::Closed));
        thread.join().unwrap();
    });
}

#[test]
fn the_last_message_is_there_when_the_ring_is_closed() {
    model_of(5, || {
        let (mut writing, mut reading) = ring();
        let thread = thread::spawn(move || {
            writing.note(b"note").unwrap();
            publish(&mut writing, 0);
            writing.end();
        });
        match check(&mut reading) {
            Ok(_) => assert_eq!(reading.note(0, 9).as_deref(), Some(&b"note"[..])),
            answer => assert_eq!(answer, Err(RecvError::Empty)),
        }
        thread.join().unwrap();
    });
}

#[cfg(loom)]
#[test]
fn planted_bugs_are_found() {
    const OVERTAKEN: &str = "an_overtaken_reader_receives_whole_messages_and_counts_the_others";
    const APPENDED: &str = "messages_that_were_appended_and_never_published_do_not_count_as_lost";
    const DESCRIBES: &str = "what_a_message_describes_is_as_it_was_or_the_message_is_retired";
    const SLEEPS: &str = "a_reader_that_sleeps_is_woken_and_notices_the_end";
    const LAST: &str = "the_last_message_is_there_when_the_ring_is_closed";
    let plants = [
        ("broadcast-publish-relaxed", OVERTAKEN),
        ("broadcast-publish-early", OVERTAKEN),
        ("broadcast-oldest-late", OVERTAKEN),
        ("broadcast-give-up-unpublished", APPENDED),
        ("broadcast-overwrite-without-fence", OVERTAKEN),
        ("broadcast-check-without-fence", OVERTAKEN),
        ("broadcast-retire-late", DESCRIBES),
        ("broadcast-intact-without-fence", DESCRIBES),
        ("broadcast-overwrite-without-fence", DESCRIBES),
        ("broadcast-bell-late", SLEEPS),
        ("broadcast-end-relaxed", LAST),
    ];
    crate::sync::planted_bugs_are_found("ring::broadcast::models", &plants);
}
