use super::*;
use crate::archive::counted::Reads;
use forebay_testing::folder::Folder;
use std::{net::TcpListener, sync::Arc};

fn config(archive: Archive, server: &str, once: bool) -> GatherConfig {
    GatherConfig {
        archive,
        queue: Queue::new(server.parse().unwrap()),
        batch: 1,
        wait: Duration::from_secs(1),
        hold: Duration::from_secs(1),
        tries: 1,
        once,
        snapshots: true,
    }
}

/// A store that does not answer must not hold up the end.
#[test]
fn no_clock_of_a_sensor_is_read_after_a_signal() {
    let folder = Folder::new();
    let plain = Archive::open(&folder.path("to"), true).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (once, has_signal) in [(true, true), (false, true), (false, false)] {
        let reads = Arc::<Reads>::default();
        let config = config(plain.counted(&reads), "nats://127.0.0.1:1", once);
        let mut reports = 0;
        let mut report = |it: Event<'_>| reports += u32::from(matches!(it, Event::Progress(..)));
        let mut gather = Gather::new(config, &mut report);
        gather.shipped.insert("hall".into());
        match has_signal {
            true => runtime
                .block_on(gather.run(std::future::ready(())))
                .unwrap(),
            false => runtime.block_on(gather.after_pass(false)),
        }
        let requests = u64::from(!has_signal);
        assert_eq!((reads.index.requests(), reports), (requests, 1), "{once}");
    }
}

/// A server that was restarted, for example, and accepts connections before it answers.
#[test]
fn a_signal_ends_it_while_a_server_does_not_answer_after_a_failure() {
    let folder = Folder::new();
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("nats://{}", server.local_addr().unwrap());
    let (signal, stop) = tokio::sync::oneshot::channel();
    let silent = std::thread::spawn(move || {
        // Taking messages fails.
        drop(server.accept().unwrap());
        let asked = server.accept().unwrap();
        signal.send(()).unwrap();
        (server, asked) // open until the end
    });
    let (mut reports, mut warnings) = (0, 0);
    let mut report = |it: Event<'_>| match it {
        Event::Progress(_, left, _) => {
            assert_eq!(left, None);
            reports += 1;
        }
        Event::Warning(_) => warnings += 1,
        _ => {}
    };
    let mut gather = Gather::new(config(archive, &address, false), &mut report);
    let stop = async { stop.await.unwrap() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(gather.run(stop)).unwrap();
    // It did not wait until asking had failed, too.
    assert_eq!((reports, warnings), (1, 0));
    drop(silent.join().unwrap());
}
