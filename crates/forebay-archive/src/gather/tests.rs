use super::*;
use crate::archive::counted::Reads;
use forebay_testing::folder::Folder;
use std::sync::Arc;

/// A store that does not answer must not hold up the end.
#[test]
fn no_clock_of_a_sensor_is_read_after_a_signal() {
    let folder = Folder::new();
    let plain = Archive::open(&folder.path("to"), true).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (once, requests) in [(true, 1), (false, 0)] {
        let reads = Arc::<Reads>::default();
        let config = GatherConfig {
            archive: plain.counted(&reads),
            queue: Queue::new("nats://127.0.0.1:1".parse().unwrap()),
            batch: 1,
            wait: Duration::from_secs(1),
            hold: Duration::from_secs(1),
            tries: 1,
            once,
            snapshots: true,
        };
        let mut reports = 0;
        let mut report = |it: Event<'_>| reports += u32::from(matches!(it, Event::Progress(..)));
        let mut gather = Gather::new(config, &mut report);
        gather.shipped.insert("hall".into());
        let signal = std::future::ready(());
        runtime.block_on(gather.run(signal)).unwrap();
        assert_eq!((reads.index.requests(), reports), (requests, 1), "{once}");
    }
}
