//! Bytes that go past the buffer and through it: none is lost or early, and all are counted.

use super::*;
use forebay_testing::folder::Folder;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    pipe::fcntl_setpipe_size,
};
use std::os::fd::AsRawFd;

/// A configuration that sends every byte through the buffer, and otherwise behaves as without it.
fn through_the_buffer(capacity_bytes: usize) -> PipeConfig {
    PipeConfig {
        read_rate: Some(u64::MAX >> 8),
        ..config(capacity_bytes)
    }
}

/// Moves bytes from `source` to `target`; reports progress if requested.
fn between(
    source: impl Into<OwnedFd>,
    target: impl Into<OwnedFd>,
    config: PipeConfig,
    control: &Control,
    tell: Option<mpsc::Sender<Progress>>,
) -> JoinHandle<Summary> {
    let [source, target] = [source.into(), target.into()].map(File::from);
    let inputs = vec![Input::new(source, "source").unwrap()];
    let outputs = vec![Output::new(target, "target").unwrap()];
    let pipe = Pipe::open(inputs, outputs, config, control.clone()).unwrap();
    thread::spawn(move || {
        pipe.run(&mut |progress| {
            if let Some(tell) = &tell {
                let _ = tell.send(progress.clone());
            }
        })
    })
}

#[test]
fn what_pipes_hold_goes_past_the_buffer_and_the_rest_into_it() {
    let total = 8 << 20;
    for (beside, most_passed) in [(0, 0), (1 << 20, 4 << 20), (16 << 20, total)] {
        let mut lab = lab_beside(config(16 << 20), 1, Some(beside));
        // Nothing is read until everything is taken: the pipes at both ends hold at most 1 MiB each.
        assert_eq!(produce(lab.producer, noise(total)).join().unwrap(), total);
        assert!(all_of(lab.consumers.remove(0)) == noise(total));
        let summary = lab.running.join().unwrap();
        assert!(summary.is_fine());
        let (len, passed) = (total as u64, summary.bytes_passed);
        assert_eq!((summary.bytes_read, summary.bytes_written), (len, len));
        assert_eq!(summary.outputs[0].bytes, len);
        assert_eq!(passed > 0, beside > 0);
        assert!(passed <= most_passed as u64, "{passed} of {beside} bytes");
    }
}

#[test]
fn pages_with_few_bytes_do_not_keep_the_buffer_from_being_filled() {
    // Sixteen pages, as large as the buffer.
    let mut lab = lab_beside(config(1 << 16), 1, Some(1 << 16));
    let consumer = lab.consumers.remove(0);
    fcntl_setpipe_size(&consumer, 4096).unwrap();
    let sent = noise(60_000);
    for piece in sent.chunks(100) {
        lab.producer.write_all(piece).unwrap();
        // Everything is taken at once, a page for each record.
        until_read(&lab.producer);
    }
    drop(lab.producer);
    assert!(all_of(consumer) == sent);
    let summary = lab.running.join().unwrap();
    assert!((1..30_000).contains(&summary.bytes_passed));
}

#[test]
fn the_whole_buffer_can_be_filled_before_the_output_is_read() {
    // Full pages, and pages that cannot hold a second record; pipes as large as the buffer, and smaller ones.
    for (record, beside) in [(1 << 16, 1 << 20), (3500, 1 << 20), (1 << 16, 1 << 18)] {
        let mut lab = lab_beside(config(1 << 20), 1, Some(beside));
        // The output's pipe holds next to nothing.
        fcntl_setpipe_size(&lab.consumers[0], 4096).unwrap();
        let sent = noise(1 << 20);
        for piece in sent.chunks(record) {
            lab.producer.write_all(piece).unwrap();
        }
        // Everything is taken: nothing remains in the input's pipe.
        until_read(&lab.producer);
        drop(lab.producer);
        assert!(all_of(lab.consumers.remove(0)) == sent);
        assert!(lab.running.join().unwrap().is_fine());
    }
}

#[test]
fn no_more_is_held_than_the_buffer_and_pipes_as_large() {
    let (source, producer) = pipe().unwrap();
    let (consumer, target) = pipe().unwrap();
    let control = Control::new().unwrap();
    let (tell, message) = mpsc::channel();
    let config = PipeConfig {
        progress_every: Some(Duration::from_millis(1)),
        ..config(1 << 20)
    };
    let running = between(source, target, config, &control, Some(tell));
    let producing = produce(producer, noise(16 << 20));
    // Nothing is read until all of the input is taken.
    let mut most = 0;
    for progress in message.iter().take(100) {
        most = most.max(progress.bytes_read - progress.bytes_written);
    }
    assert!(all_of(consumer) == noise(16 << 20));
    producing.join().unwrap();
    assert!(message.iter().all(|progress| progress.fill <= 1.0));
    assert!(most <= 2 << 20, "{most} bytes");
    assert!(running.join().unwrap().is_fine());
}

/// Yields the processor up to 200 times, on every eighth call.
fn dawdle(dice: &mut Dice) {
    if dice.below(8) == 0 {
        (0..dice.below(200)).for_each(|_| thread::yield_now());
    }
}

#[test]
fn order_and_counts_hold_however_the_neighbours_stall() {
    let sent = noise(6_000_000);
    let mut passed = 0;
    for seed in 1..=16 {
        // The pipes hold hardly any bytes, a part of them, or all.
        let beside = [1 << 14, 1 << 16, 1 << 18][seed as usize % 3];
        let mut lab = lab_beside(config(1 << 18), 1, Some(beside));
        let mut consumer = lab.consumers.remove(0);
        if seed % 2 == 0 {
            // Full after one page: bytes change paths all the time.
            fcntl_setpipe_size(&consumer, 4096).unwrap();
        }
        let (mut producer, bytes) = (lab.producer, sent.clone());
        let producing = thread::spawn(move || {
            let (mut left, mut dice) = (&bytes[..], Dice(seed));
            while !left.is_empty() {
                let most = dice.one_of(&[10, 5000, 400_000]);
                let size = 1 + dice.below(most);
                let (piece, rest) = left.split_at(left.len().min(size));
                producer.write_all(piece).unwrap();
                left = rest;
                dawdle(&mut dice);
            }
        });
        let (mut received, mut dice) = (Vec::new(), Dice(seed << 32));
        let mut piece = vec![0; 200_000];
        loop {
            let most = 1 + dice.below(piece.len());
            match consumer.read(&mut piece[..most]).unwrap() {
                0 => break,
                bytes => received.extend_from_slice(&piece[..bytes]),
            }
            dawdle(&mut dice);
        }
        assert!(received == sent, "seed {seed}");
        producing.join().unwrap();
        let summary = lab.running.join().unwrap();
        let len = sent.len() as u64;
        assert_eq!((summary.bytes_read, summary.bytes_written), (len, len));
        assert_eq!(summary.outputs[0].bytes, len);
        passed += summary.bytes_passed;
    }
    assert!(0 < passed && passed < 16 * sent.len() as u64);
}

#[test]
fn whatever_has_to_look_at_the_bytes_or_to_hold_them_closes_the_way_past() {
    let closed: [fn(&mut PipeConfig); 7] = [
        |config| config.splice = false,
        |config| config.hash = Some(Hash::Crc32),
        |config| config.block_bytes = Some(4096),
        |config| config.start_writing = 1,
        |config| config.start_reading = 99,
        |config| config.read_rate = Some(1 << 40),
        |config| config.write_rate = Some(1 << 40),
    ];
    let passed = |config: PipeConfig, outputs| {
        let lab = lab(config, outputs);
        let producing = produce(lab.producer, noise(100_000));
        // The second input's pipe holds all of its bytes while the first one is read.
        for consumer in &lab.consumers {
            fcntl_setpipe_size(consumer, 1 << 20).unwrap();
        }
        for consumer in lab.consumers {
            assert!(all_of(consumer) == noise(100_000));
        }
        producing.join().unwrap();
        lab.running.join().unwrap().bytes_passed
    };
    assert!(passed(config(1 << 20), 1) > 0);
    assert_eq!(passed(config(1 << 20), 2), 0);
    for change in closed {
        let mut config = config(1 << 20);
        change(&mut config);
        assert_eq!(passed(config.clone(), 1), 0, "{config:?}");
    }
}

#[test]
fn without_splice_a_files_pages_are_copied_since_its_owner_may_change_them() {
    let control = Control::new().unwrap();
    let config = PipeConfig {
        splice: false,
        ..config(1 << 20)
    };
    let folder = Folder::new();
    let path = folder.file("past", noise(500_000));
    let (mut consumer, target) = pipe().unwrap();
    fcntl_setpipe_size(&target, 1 << 20).unwrap();
    let source = File::open(&path).unwrap();
    let running = between(source, target, config.clone(), &control, None);
    // All bytes are in the output's pipe; the file does not matter any more.
    let summary = running.join().unwrap();
    std::fs::write(&path, [0; 500_000]).unwrap();
    let mut received = Vec::new();
    consumer.read_to_end(&mut received).unwrap();
    assert!(received == noise(500_000));
    assert_eq!((summary.bytes_written, summary.bytes_passed), (500_000, 0));

    // Writing to a file may also block, and belongs to the writing thread.
    let (source, producer) = pipe().unwrap();
    let target = File::create(&path).unwrap();
    let running = between(source, target, config, &control, None);
    produce(producer, noise(500_000)).join().unwrap();
    let summary = running.join().unwrap();
    assert_eq!((summary.bytes_written, summary.bytes_passed), (500_000, 0));
    assert!(std::fs::read(&path).unwrap() == noise(500_000));
}

#[test]
fn a_reader_that_leaves_in_the_middle_is_no_error_and_took_what_is_counted() {
    for config in [config(1 << 20), through_the_buffer(1 << 20)] {
        let mut lab = lab(config, 1);
        let producing = produce(lab.producer, noise(8 << 20));
        let mut consumer = lab.consumers.remove(0);
        let mut first = vec![0; 3_000_000];
        consumer.read_exact(&mut first).unwrap();
        assert!(first == noise(3_000_000));
        drop(consumer);
        let summary = lab.running.join().unwrap();
        producing.join().unwrap();
        assert!(summary.is_fine() && summary.outputs[0].reader_left);
        assert!((3_000_000..=8 << 20).contains(&summary.outputs[0].bytes));
        assert_eq!(summary.outputs[0].bytes, summary.bytes_written);
        assert!(summary.bytes_written <= summary.bytes_read);
    }
}

#[test]
fn a_stop_at_any_moment_keeps_what_was_read_and_leaves_the_rest_where_it_was() {
    for config in [config(1 << 16), through_the_buffer(1 << 16)] {
        for pieces in 0..20 {
            let (source, producer) = pipe().unwrap();
            let (mut consumer, target) = pipe().unwrap();
            let rest = source.try_clone().unwrap();
            let control = Control::new().unwrap();
            let running = between(source, target, config.clone(), &control, None);
            let producing = produce(producer, noise(2_000_000));
            let mut received = vec![0; pieces * 90_000];
            consumer.read_exact(&mut received).unwrap();
            control.stop();
            consumer.read_to_end(&mut received).unwrap();
            let summary = running.join().unwrap();
            assert!(summary.is_fine());
            assert_eq!(summary.bytes_read, received.len() as u64);
            assert_eq!(summary.bytes_written, received.len() as u64);
            received.extend(all_of(rest));
            assert!(received == noise(2_000_000), "{pieces} pieces");
            producing.join().unwrap();
        }
    }
}

/// Opens a file with this content, which never has to be waited for.
fn in_memory(content: &[u8]) -> impl Fn() -> File + use<> {
    let file = memfd_create("source", MemfdFlags::CLOEXEC).unwrap();
    let mut file = File::from(file);
    file.write_all(content).unwrap();
    move || File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
}

#[test]
fn a_file_goes_to_a_pipe_past_the_buffer_and_the_rest_of_the_inputs_follow() {
    let sent = noise(5 << 20);
    let open_file = in_memory(&sent);
    let (source, mut producer) = pipe().unwrap();
    let (consumer, target) = pipe().unwrap();
    let inputs = vec![
        Input::new(open_file(), "first").unwrap(),
        Input::new(File::from(OwnedFd::from(source)), "second").unwrap(),
        Input::new(open_file(), "third").unwrap(),
    ];
    let outputs = vec![Output::new(File::from(OwnedFd::from(target)), "target").unwrap()];
    let pipe = Pipe::open(inputs, outputs, config(1 << 20), Control::new().unwrap()).unwrap();
    let running = thread::spawn(move || pipe.run(&mut |_| {}));
    producer.write_all(&[7; 1000]).unwrap();
    drop(producer);
    assert!(all_of(consumer) == [&sent[..], &[7; 1000], &sent].concat());
    let summary = running.join().unwrap();
    assert!(summary.is_fine());
    let len = 2 * sent.len() as u64 + 1000;
    assert_eq!((summary.bytes_read, summary.bytes_written), (len, len));
    assert_eq!(summary.outputs[0].bytes, len);
    assert!(summary.bytes_passed >= sent.len() as u64, "{summary:?}");
}

#[test]
fn a_file_is_taken_only_as_its_reader_takes_it_and_a_stop_or_a_lost_reader_ends_it() {
    let open_file = in_memory(&noise(8 << 20));
    for is_stopped in [true, false] {
        let (mut consumer, target) = pipe().unwrap();
        let control = Control::new().unwrap();
        let source = open_file();
        let config = config(64 << 20);
        let running = between(source, target, config, &control, None);
        let mut first = vec![0; 1 << 16];
        consumer.read_exact(&mut first).unwrap();
        assert!(first == noise(8 << 20)[..1 << 16]);
        let summary = match is_stopped {
            true => {
                control.stop();
                let summary = running.join().unwrap();
                let rest = all_of(consumer);
                assert_eq!((first.len() + rest.len()) as u64, summary.bytes_written);
                summary
            }
            false => {
                drop(consumer);
                let summary = running.join().unwrap();
                assert!(summary.outputs[0].reader_left);
                summary
            }
        };
        // The pipe holds 1 MiB at most.
        assert!(
            summary.is_fine() && summary.bytes_written < 2 << 20,
            "{summary:?}"
        );
    }
}

#[test]
fn a_file_goes_to_a_file_past_the_buffer_and_to_the_end_of_one_through_it() {
    let folder = Folder::new();
    let sent = noise((5 << 20) + 1);
    let path = folder.file("source", &sent);
    let of_another = [format!("/dev/shm/forebay-past-{}", std::process::id())];
    let of_this = [folder.path("target"), folder.path("appended")];
    for target in of_this.iter().chain(&of_another) {
        std::fs::write(target, "").unwrap();
        let appends = target.ends_with("appended");
        let target_file = File::options().write(true).append(appends).open(target);
        let (source, mut producer) = pipe().unwrap();
        let inputs = vec![
            Input::new(File::from(OwnedFd::from(source)), "first").unwrap(),
            Input::new(File::open(&path).unwrap(), "second").unwrap(),
        ];
        let outputs = vec![Output::new(target_file.unwrap(), "target").unwrap()];
        let pipe = Pipe::open(inputs, outputs, config(1 << 20), Control::new().unwrap()).unwrap();
        let running = thread::spawn(move || pipe.run(&mut |_| {}));
        producer.write_all(&[7; 1000]).unwrap();
        drop(producer);
        let summary = running.join().unwrap();
        assert!(summary.is_fine(), "{target}: {summary:?}");
        assert!(std::fs::read(target).unwrap() == [&[7; 1000], &sent[..]].concat());
        let len = sent.len() as u64 + 1000;
        assert_eq!((summary.bytes_read, summary.bytes_written), (len, len));
        assert_eq!(summary.outputs[0].bytes, len);
        // The kernel copies to the end of a file only what it gets with `write`.
        assert_eq!(summary.bytes_passed == 0, appends, "{target}: {summary:?}");
    }
    std::fs::remove_file(&of_another[0]).unwrap();
}

#[test]
fn files_that_the_kernel_generates_are_copied_although_they_have_no_size() {
    let folder = Folder::new();
    let path = folder.path("target");
    let source = File::open("/proc/version").unwrap();
    let target = File::create(&path).unwrap();
    let control = Control::new().unwrap();
    let summary = between(source, target, config(1 << 20), &control, None);
    assert!(summary.join().unwrap().is_fine());
    let expected = std::fs::read("/proc/version").unwrap();
    assert!(std::fs::read(path).unwrap() == expected && !expected.is_empty());
}
