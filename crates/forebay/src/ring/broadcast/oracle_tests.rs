//! Random operations on both halves, compared with a plain list of all messages.

use super::{
    RecvError,
    layout::{Layout, NOTES},
    reading::Reading,
    writing::Writing,
};
use crate::memory::words;
use forebay_testing::dice::{rounds, times};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Appends a message of the sum of these lengths, and publishes it if so.
    Append(usize, usize, bool),
    /// Receives into a buffer of this length.
    Take(usize),
    Seek(u64),
    /// Writes a note of this length.
    Note(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..40_usize, 0..400_usize, any::<bool>()).prop_map(|(first, second, publish)| Step::Append(first, second, publish)),
        6 => Just(Step::Take(1 << 12)),
        2 => (0..300_usize).prop_map(Step::Take),
        1 => (0..500_u64).prop_map(Step::Seek),
        1 => (0..30_usize).prop_map(Step::Note),
    ]
}

fn bytes(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at * 7) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(256)))]

    #[test]
    fn readers_agree_with_the_oracle(entries in 0..7_u32, steps in prop::collection::vec(step(), 1..times(600, 20))) {
        let mut layout = Layout { notes: 20, entries: 1 << entries, data: 60 };
        let (ours, theirs) = words::both(NOTES + layout.words().unwrap());
        layout.data += ours.len() - layout.words().unwrap();
        let mut writing = Writing::new(ours, layout);
        let mut reading = Reading::new(theirs).unwrap();
        let (mut appended, mut published, mut notes) = (Vec::new(), 0, Vec::new());
        // Sequence number of the next message; and how many messages a seek has skipped, or has made the reader see again.
        let (mut next, mut skipped) = (0, 0_i64);
        for step in steps {
            match step {
                Step::Append(first, second, publish) => {
                    let (number, oldest) = (appended.len() as u64, writing.oldest);
                    let message = bytes(appended.len(), first + second);
                    let (first, second) = message.split_at(first);
                    prop_assert_eq!(writing.append(&[first, second]), Ok(number));
                    appended.push(message);
                    if writing.oldest > oldest {
                        published = number;
                    }
                    if publish {
                        writing.publish();
                        published = number + 1;
                    }
                    // Nothing is given up without need: the last message is intact, and as many more as surely have room.
                    let intact = appended.len() as u64 - writing.oldest;
                    let spans = appended.iter().rev().map(|message| message.len().div_ceil(8));
                    let mut room = (layout.data - layout.data / 64 - 2 * 55) as i64;
                    let fit = spans.take_while(|span| { room -= *span as i64; room >= 0 }).count() as u64;
                    prop_assert!(intact >= fit.min(layout.entries - layout.entries / 64).max(1));
                }
                Step::Take(len) => {
                    let mut buffer = vec![0; len];
                    match reading.take(&mut buffer) {
                        Ok(received) => {
                            prop_assert_eq!(received.sequence, next);
                            prop_assert_eq!(&buffer[..received.len], &appended[next as usize][..]);
                            next += 1;
                        }
                        Err(RecvError::Overrun { lost }) => {
                            prop_assert!(next < writing.oldest && next + lost >= writing.oldest);
                            prop_assert!(next + lost <= published);
                            next += lost;
                        }
                        Err(RecvError::Empty) => prop_assert_eq!(next, published),
                        Err(RecvError::TooSmall { needed }) => {
                            prop_assert_eq!(needed, appended[next as usize].len());
                            prop_assert!(needed > len);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                Step::Seek(sequence) => {
                    let to = reading.seek(sequence);
                    prop_assert_eq!(to, sequence.clamp(writing.oldest, published));
                    skipped += to as i64 - next as i64;
                    next = to;
                }
                Step::Note(len) => match writing.note(&bytes(notes.len(), len)) {
                    Ok(()) => notes.push(bytes(notes.len(), len)),
                    Err(full) => prop_assert!(full.left < len || full.left == 0),
                },
            }
            prop_assert_eq!((reading.received + reading.lost) as i64 + skipped, next as i64);
            prop_assert_eq!(reading.intact(), writing.oldest..published);
            prop_assert_eq!(writing.stats().published, published);
        }
        let all: Vec<_> = (0..).map_while(|number| reading.note(number, usize::MAX)).collect();
        prop_assert_eq!(all, notes);
        writing.end();
        while let Ok(_) | Err(RecvError::Overrun { .. }) = reading.take(&mut [0; 1 << 12]) {}
        prop_assert_eq!(reading.next, appended.len() as u64);
        prop_assert_eq!(reading.take(&mut []), Err(RecvError::Closed));
    }
}
