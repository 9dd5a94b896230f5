//! Producers that lend their memory to the pipe, and rely on its size to know when the memory is theirs again.

use crate::support::*;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{SpliceFlags, fcntl_getpipe_size, splice},
};
use std::{
    fs::File,
    io::{PipeReader, PipeWriter, Read, Write, pipe as kernel_pipe},
    os::unix::fs::FileExt,
    process::{Child, Stdio},
};

/// `forebay pipe` between two kernel pipes.
struct Between {
    child: Child,
    producer: PipeWriter,
    consumer: PipeReader,
    /// The end of the consumer's pipe that the child writes to.
    output: PipeWriter,
}

fn between(arguments: &str) -> Between {
    let (input, producer) = kernel_pipe().unwrap();
    let (consumer, output) = kernel_pipe().unwrap();
    let child = forebay!("pipe {arguments}")
        .stdin(input)
        .stdout(output.try_clone().unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Between {
        child,
        producer,
        consumer,
        output,
    }
}

/// Whether a write would wait.
fn is_full(pipe: &PipeWriter) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() == 0
}

#[test]
fn where_every_byte_is_copied_no_pipe_is_resized() {
    let (_folder, file) = Folder::with("file");
    let two_outputs = format!("-o - -o {file}");
    for arguments in ["-C", "--hash crc32", "-R 900G", &two_outputs] {
        let mut it = between(arguments);
        let size = |pipe: &PipeWriter| fcntl_getpipe_size(pipe).unwrap();
        let before = (size(&it.producer), size(&it.output));
        it.producer.write_all(b"hello").unwrap();
        it.consumer.read_exact(&mut [0; 5]).unwrap();
        let after = (size(&it.producer), size(&it.output));
        assert_eq!(after, before, "{arguments}");
        drop(it.producer);
        it.child.wait_with_output().unwrap().succeeds();
    }
}

#[test]
fn copied_bytes_are_those_that_a_lender_wrote_before_it_reused_their_memory() {
    let Between {
        child,
        producer,
        mut consumer,
        output,
    } = between("-C -m 4k");
    let half = fcntl_getpipe_size(&producer).unwrap();
    const HALVES: usize = 64;
    // A file's pages are lent with splice as memory is with vmsplice. When all of one half is in the pipe, no page of the
    // other half is, so that half can be overwritten.
    let (_folder, path) = Folder::with("lent");
    let file = File::create_new(&path).unwrap();
    let source = File::open(&path).unwrap();
    let input = producer.try_clone().unwrap();
    let lending = std::thread::spawn(move || {
        for number in 0..HALVES {
            let from = (number % 2 * half) as u64;
            file.write_all_at(&vec![number as u8; half], from).unwrap();
            let (mut offset, mut left) = (from, half);
            while left > 0 {
                let at = Some(&mut offset);
                left -= splice(&source, at, &producer, None, left, SpliceFlags::empty()).unwrap();
            }
        }
    });
    // Nobody reads before both pipes are full.
    while !(is_full(&output) && is_full(&input)) {
        std::thread::yield_now();
    }
    drop((input, output));
    let mut received = Vec::new();
    consumer.read_to_end(&mut received).unwrap();
    lending.join().unwrap();
    let wrong = received.iter().enumerate();
    let wrong = wrong.filter(|&(at, &byte)| byte != (at / half) as u8);
    assert_eq!((received.len(), wrong.count()), (HALVES * half, 0));
    assert!(child.wait_with_output().unwrap().status.success());
}
