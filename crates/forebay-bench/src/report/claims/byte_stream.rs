//! The claims of the text on the byte stream.

use super::{super::results::At, Bound, Claim, Figure, because, ratio};

pub fn all() -> Vec<Claim> {
    const fn test(row: &'static str) -> At {
        At("stream/test", row, "Gbit/s")
    }
    const fn copy(row: &'static str) -> At {
        At("stream/copy", row, "Gbit/s")
    }
    const fn view(row: &'static str) -> At {
        At("stream/view", row, "Gbit/s")
    }
    const fn part(row: &'static str, column: &'static str) -> At {
        At("stream/profile", row, column)
    }
    const QUEUE: &str = "queue of characters, popped one by one";
    const DEQUE: &str = "deque, copied out to be read";
    const STRING: &str = "string, erased at the front";
    const LOOPS: &str = "sliding vector, loops, 2×";
    const SMALL: &str = "sliding vector, block copies, 1.25×";
    const BLOCKS: &str = "sliding vector, block copies, 2×";
    const LARGE: &str = "sliding vector, block copies, 4×";
    const OURS: &str = "forebay's LocalStream, for one thread";
    let share = |at: At| Figure::Computed(vec![at], |v| 100.0 * v[0]);
    let sampled = |call, published, printed, bound| {
        let (says, row) = match call {
            "push" => (
                "memcpy takes all the time of a push, by sampled stacks",
                "push: samples in memcpy",
            ),
            _ => (
                "memcpy takes half the time of a pop, by sampled stacks",
                "pop: samples in memcpy",
            ),
        };
        let samples = part(row, "share of the copy");
        Claim {
            text: 1,
            says,
            published,
            printed,
            unit: " %",
            here: Some(share(samples)),
            ours: None,
            bound,
            reason: because(&[samples, part(call, "share of the copy")], |v| {
                format!(
                    "perf finds {:.0} % of the samples of a process in memcpy; the time falls by {:.0} % if the copy is left out",
                    100.0 * v[0],
                    100.0 * v[1]
                )
            }),
        }
    };
    vec![
        ratio(
            1,
            "A deque of characters, copied for each read, is slowest: a string is 25 times as fast",
            (25.6, "25× (2.3 and 0.09 Gbit/s)"),
            Figure::Ratio(test(STRING), test(DEQUE)),
            Some(Figure::Ratio(test(OURS), test(DEQUE))),
            because(&[view(QUEUE), view(DEQUE), view(STRING)], |v| {
                format!(
                    "Read without an output: popping characters one by one {:.2} Gbit/s, copying the whole deque for a look {:.2}, \
                     a string's view {:.2}: what costs is the copy of everything for each look",
                    v[0], v[1], v[2]
                )
            }),
        ),
        ratio(
            1,
            "A vector with two indices is 4 times as fast as the string",
            (4.35, "4× (10 and 2.3 Gbit/s)"),
            Figure::Ratio(test(LOOPS), test(STRING)),
            Some(Figure::Ratio(test(OURS), test(STRING))),
            because(&[view(STRING), view(BLOCKS)], |v| {
                format!(
                    "Popping moves an index instead of all content: without an output {:.1} Gbit/s becomes {:.1}",
                    v[0], v[1]
                )
            }),
        ),
        ratio(
            1,
            "Block copies instead of loops make it 3 times as fast",
            (3.0, "3× (30 and 10 Gbit/s)"),
            Figure::Ratio(test(BLOCKS), test(LOOPS)),
            Some(Figure::Ratio(test(OURS), test(LOOPS))),
            because(
                &[
                    view(LOOPS),
                    view(BLOCKS),
                    part("the text's test, a KB", "share of the copy"),
                ],
                |v| {
                    format!(
                        "Without the output the ratio is {:.1}; in the test the output takes {:.0} % of the time, whatever the stream",
                        v[1] / v[0],
                        100.0 * v[2]
                    )
                },
            ),
        ),
        ratio(
            1,
            "All in all, more than 300 times the deque",
            (333.0, "more than 300× (30.30 and 0.09 Gbit/s)"),
            Figure::Ratio(test(BLOCKS), test(DEQUE)),
            Some(Figure::Ratio(test(OURS), test(DEQUE))),
            because(&[view(BLOCKS), view(DEQUE)], |v| {
                format!("Without the output: {:.0}×", v[0] / v[1])
            }),
        ),
        Claim {
            text: 1,
            says: "The vector's throughput in the course's test",
            published: 30.3,
            printed: "30.30 Gbit/s; 23.50 elsewhere",
            unit: " Gbit/s",
            here: Some(Figure::One(test(BLOCKS))),
            ours: Some(Figure::One(test(OURS))),
            bound: Bound::AtLeast(23.5, 10.0),
            reason: because(
                &[
                    part("page faults of the test", "ns"),
                    part("page faults without its output", "ns"),
                    part("the text's test, a KB", "ns"),
                    part("the text's test without its output, a KB", "ns"),
                ],
                |v| {
                    format!(
                        "The test has {:.0} page faults, {:.0} without its output; of {:.0} ns for 1000 bytes the output takes {:.0}",
                        v[0],
                        v[1],
                        v[2],
                        v[2] - v[3]
                    )
                },
            ),
        },
        Claim {
            text: 1,
            says: "Read in place, from a hot source: forebay's stream for one thread over the text's best vector",
            published: 1.3,
            printed: "not in the text",
            unit: "×",
            here: None,
            ours: Some(Figure::Computed(
                vec![view(OURS), view(SMALL), view(BLOCKS), view(LARGE)],
                |v| v[0] / v[1..].iter().copied().fold(0.0, f64::max),
            )),
            bound: Bound::AtLeast(1.3, 1.0),
            reason: because(
                &[part("pop", "ns"), part("pop without its copy", "ns")],
                |v| {
                    format!(
                        "Of a pop of {:.1} ns the vector spends {:.1} moving content to the front, which a mirror never does",
                        v[0],
                        v[0] - v[1]
                    )
                },
            ),
        },
        Claim {
            text: 1,
            says: "Copied out, from a hot source: forebay's stream for one thread over the text's best vector",
            published: 1.0,
            printed: "not in the text",
            unit: "×",
            here: None,
            ours: Some(Figure::Computed(
                vec![copy(OURS), copy(SMALL), copy(BLOCKS), copy(LARGE)],
                |v| v[0] / v[1..].iter().copied().fold(0.0, f64::max),
            )),
            bound: Bound::AtLeast(1.0, 0.9),
            reason: because(
                &[part("pop", "ns"), part("pop without its copy", "ns")],
                |v| {
                    format!(
                        "Of a pop of {:.1} ns the vector spends {:.1} moving content to the front",
                        v[0],
                        v[0] - v[1]
                    )
                },
            ),
        },
        ratio(
            1,
            "The vector's size matters: too small copies too often, too large leaves the cache",
            (1.1, "named, not measured"),
            Figure::Computed(vec![view(SMALL), view(BLOCKS), view(LARGE)], |v| {
                let most = v.iter().copied().fold(0.0, f64::max);
                most / v.iter().copied().fold(f64::MAX, f64::min)
            }),
            None,
            because(&[view(SMALL), view(BLOCKS), view(LARGE)], |v| {
                format!(
                    "1.25, 2 and 4 times the capacity: {:.0}, {:.0} and {:.0} Gbit/s",
                    v[0], v[1], v[2]
                )
            }),
        ),
        Claim {
            text: 1,
            says: "memcpy takes all the time of a push",
            published: 100.0,
            printed: "all (a flame graph)",
            unit: " %",
            here: Some(share(part("push", "share of the copy"))),
            ours: None,
            bound: Bound::AtLeast(90.0, 50.0),
            reason: because(
                &[part("push", "ns"), part("push without its copy", "ns")],
                |v| {
                    format!(
                        "A push takes {:.1} ns, and {:.1} with the copy left out",
                        v[0], v[1]
                    )
                },
            ),
        },
        Claim {
            text: 1,
            says: "memcpy takes half the time of a pop",
            published: 50.0,
            printed: "half (a flame graph)",
            unit: " %",
            here: Some(share(part("pop", "share of the copy"))),
            ours: None,
            bound: Bound::AtLeast(40.0, 20.0),
            reason: because(
                &[part("pop", "ns"), part("pop without its copy", "ns")],
                |v| {
                    format!(
                        "A pop takes {:.1} ns, and {:.1} with the copy left out",
                        v[0], v[1]
                    )
                },
            ),
        },
        sampled(
            "push",
            100.0,
            "all (a flame graph)",
            Bound::AtLeast(90.0, 50.0),
        ),
        sampled(
            "pop",
            50.0,
            "half (a flame graph)",
            Bound::AtLeast(40.0, 20.0),
        ),
        Claim {
            text: 1,
            says: "Appending to the output takes more than 70 % of the test",
            published: 70.0,
            printed: "more than 70 %",
            unit: " %",
            here: Some(share(part("the text's test, a KB", "share of the copy"))),
            ours: None,
            bound: Bound::AtLeast(70.0, 40.0),
            reason: because(
                &[
                    part("the text's test, a KB", "ns"),
                    part("the text's test without its output, a KB", "ns"),
                ],
                |v| {
                    format!(
                        "{:.0} ns for 1000 bytes, and {:.0} with the output left out",
                        v[0], v[1]
                    )
                },
            ),
        },
    ]
}
