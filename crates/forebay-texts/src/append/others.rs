//! What the standard library offers: `BufWriter`, and a channel to a thread that has one.

use super::{
    entry::{ENTRIES, Entry},
    target::{Flushes, Rewound, Target},
    way::{FAILED, Way, rounds},
};
use anyhow::Result;
use forebay_bench::method::processors;
use std::{
    hint::black_box,
    io::{BufWriter, Write},
    sync::mpsc,
    thread,
};

pub fn ways<T: Entry>(target: Target, buffer_bytes: usize, iterations: u64) -> Result<Vec<Way>> {
    type Buffered = BufWriter<Rewound>;
    let buffered = || -> Result<(Buffered, Flushes)> {
        let (file, flushes) = target.open(size_of::<T>())?;
        Ok((BufWriter::with_capacity(buffer_bytes, file), flushes))
    };
    let flush = |writer: &mut Buffered| writer.flush().expect(FAILED);
    let (writer, flushes) = buffered()?;
    let fields = |writer: &mut Buffered, i| T::write_fields(i, writer).expect(FAILED);
    let mut ways = vec![Way {
        name: "BufWriter, four fields",
        work: Box::new(rounds(iterations, writer, fields, flush)),
        flushes,
    }];
    let (writer, flushes) = buffered()?;
    let built = |writer: &mut Buffered, i| {
        writer.write_all(T::new(i).as_bytes()).expect(FAILED);
    };
    ways.push(Way {
        name: "BufWriter, built in the loop",
        work: Box::new(rounds(iterations, writer, built, flush)),
        flushes,
    });
    let (writer, flushes) = buffered()?;
    let entry = black_box(T::new(7));
    let ready = move |writer: &mut Buffered, _| {
        writer
            .write_all(black_box(&entry).as_bytes())
            .expect(FAILED);
    };
    ways.push(Way {
        name: "BufWriter, entry hoisted, ready bytes",
        work: Box::new(rounds(iterations, writer, ready, flush)),
        flushes,
    });
    if let [_, second, ..] = processors::processors()?[..] {
        let (mut writer, flushes) = buffered()?;
        // Each entry takes as long as twenty elsewhere.
        let iterations = (iterations / 10).max(1);
        let work = move || {
            let (sender, receiver) = mpsc::sync_channel::<T>(1024);
            thread::scope(|scope| {
                let writer = &mut writer;
                scope.spawn(move || {
                    processors::pin(second).expect("it may run there");
                    for entry in receiver {
                        writer.write_all(entry.as_bytes()).expect(FAILED);
                    }
                    writer.flush().expect(FAILED);
                });
                for i in 0..iterations * ENTRIES {
                    sender.send(T::new(i)).expect("somebody receives");
                }
                drop(sender);
            });
            iterations * ENTRIES
        };
        ways.push(Way {
            name: "a channel of 1024 to a thread with a BufWriter",
            work: Box::new(work),
            flushes,
        });
    }
    Ok(ways)
}
