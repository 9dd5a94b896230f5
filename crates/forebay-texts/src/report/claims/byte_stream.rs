//! The claims of the text on the byte stream.

use super::claim::{Bound, Claim, Figure, claim, computed};
use crate::report::results::At;

pub fn all() -> Vec<Claim> {
    let test = |row| At("stream/test", row, "Gbit/s");
    let copy = |row| At("stream/copy", row, "Gbit/s");
    let view = |row| At("stream/view", row, "Gbit/s");
    let time = |row| At("stream/profile", row, "ns");
    let share = |row| At("stream/profile", row, "share of the copy");
    const QUEUE: &str = "queue of characters, popped one by one";
    const DEQUE: &str = "deque, copied out to be read";
    const STRING: &str = "string, erased at the front";
    const LOOPS: &str = "sliding vector, loops, 2×";
    const SMALL: &str = "sliding vector, block copies, 1.25×";
    const BLOCKS: &str = "sliding vector, block copies, 2×";
    const LARGE: &str = "sliding vector, block copies, 4×";
    const OURS: &str = "forebay's LocalStream, for one thread";
    const TEST: &str = "the text's test, a KB";
    const NO_OUTPUT: &str = "the text's test without its output, a KB";
    const NO_COPY: &str = "pop without its copy";
    fn percent(share: At) -> Figure {
        computed([share], |[share]| 100.0 * share)
    }
    /// Ours over the best of the vectors.
    fn over_best(of: fn(&'static str) -> At) -> Figure {
        let all = [of(OURS), of(SMALL), of(BLOCKS), of(LARGE)];
        computed(all, |[ours, vectors @ ..]| {
            ours / vectors.into_iter().fold(0.0, f64::max)
        })
    }
    fn sampled(says: &'static str, samples: At, left_out: At) -> Claim {
        claim(says)
            .here(percent(samples))
            .because([samples, left_out], |shares| {
                let [samples, left_out] = shares.map(|share| 100.0 * share);
                format!(
                    "perf finds {samples:.0} % of the samples of a process in memcpy; the time falls by {left_out:.0} % if the copy is left out"
                )
            })
    }
    vec![
        claim("A deque of characters, copied for each read, is slowest: a string is 25 times as fast")
            .published(25.6, "25× (2.3 and 0.09 Gbit/s)")
            .here(test(STRING) / test(DEQUE))
            .ours(test(OURS) / test(DEQUE))
            .because([view(QUEUE), view(DEQUE), view(STRING)], |[queue, deque, string]| {
                format!(
                    "Read without an output: popping characters one by one {queue:.2} Gbit/s, copying the whole deque for a look {deque:.2}, \
                     a string's view {string:.2}: what costs is the copy of everything for each look"
                )
            }),
        claim("A vector with two indices is 4 times as fast as the string")
            .published(4.35, "4× (10 and 2.3 Gbit/s)")
            .here(test(LOOPS) / test(STRING))
            .ours(test(OURS) / test(STRING))
            .because([view(STRING), view(BLOCKS)], |[string, blocks]| {
                format!(
                    "Popping moves an index instead of all content: without an output {string:.1} Gbit/s becomes {blocks:.1}"
                )
            }),
        claim("Block copies instead of loops make it 3 times as fast")
            .published(3.0, "3× (30 and 10 Gbit/s)")
            .here(test(BLOCKS) / test(LOOPS))
            .ours(test(OURS) / test(LOOPS))
            .because([view(LOOPS), view(BLOCKS), share(TEST)], |[loops, blocks, output]| {
                format!(
                    "Without the output the ratio is {:.1}; in the test the output takes {:.0} % of the time, whatever the stream",
                    blocks / loops,
                    100.0 * output
                )
            }),
        claim("All in all, more than 300 times the deque")
            .published(333.0, "more than 300× (30.30 and 0.09 Gbit/s)")
            .here(test(BLOCKS) / test(DEQUE))
            .ours(test(OURS) / test(DEQUE))
            .because([view(BLOCKS), view(DEQUE)], |[blocks, deque]| {
                format!("Without the output: {:.0}×", blocks / deque)
            }),
        claim("The vector's throughput in the course's test")
            .published(30.3, "30.30 Gbit/s; 23.50 elsewhere")
            .unit(" Gbit/s", Bound::AtLeast(23.5, 10.0))
            .here(test(BLOCKS))
            .ours(test(OURS))
            .because(
                [
                    time("page faults of the test"),
                    time("page faults without its output"),
                    time(TEST),
                    time(NO_OUTPUT),
                ],
                |[faults, fewer, test, no_output]| {
                    format!(
                        "The test has {faults:.0} page faults, {fewer:.0} without its output; of {test:.0} ns for 1000 bytes the output takes {:.0}",
                        test - no_output
                    )
                },
            ),
        claim("Read in place, from a hot source: forebay's stream for one thread over the text's best vector")
            .published(1.3, "not in the text")
            .unit("×", Bound::AtLeast(1.3, 1.0))
            .ours(over_best(view))
            .because([time("pop"), time(NO_COPY)], |[pop, no_copy]| {
                let moving = pop - no_copy;
                format!(
                    "Of a pop of {pop:.1} ns the vector spends {moving:.1} moving content to the front, which a mirror never does"
                )
            }),
        claim("Copied out, from a hot source: forebay's stream for one thread over the text's best vector")
            .published(1.0, "not in the text")
            .unit("×", Bound::AtLeast(1.0, 0.9))
            .ours(over_best(copy))
            .because([time("pop"), time(NO_COPY)], |[pop, no_copy]| {
                let moving = pop - no_copy;
                format!("Of a pop of {pop:.1} ns the vector spends {moving:.1} moving content to the front")
            }),
        claim("The vector's size matters: too small copies too often, too large leaves the cache")
            .published(1.1, "named, not measured")
            .here(computed([view(SMALL), view(BLOCKS), view(LARGE)], |rates| {
                rates.into_iter().fold(0.0, f64::max) / rates.into_iter().fold(f64::MAX, f64::min)
            }))
            .because([view(SMALL), view(BLOCKS), view(LARGE)], |[small, blocks, large]| {
                format!(
                    "1.25, 2 and 4 times the capacity: {small:.0}, {blocks:.0} and {large:.0} Gbit/s"
                )
            }),
        claim("memcpy takes all the time of a push")
            .published(100.0, "all (a flame graph)")
            .unit(" %", Bound::AtLeast(90.0, 50.0))
            .here(percent(share("push")))
            .because([time("push"), time("push without its copy")], |[push, no_copy]| {
                format!("A push takes {push:.1} ns, and {no_copy:.1} with the copy left out")
            }),
        claim("memcpy takes half the time of a pop")
            .published(50.0, "half (a flame graph)")
            .unit(" %", Bound::AtLeast(40.0, 20.0))
            .here(percent(share("pop")))
            .because([time("pop"), time(NO_COPY)], |[pop, no_copy]| {
                format!("A pop takes {pop:.1} ns, and {no_copy:.1} with the copy left out")
            }),
        sampled(
            "memcpy takes all the time of a push, by sampled stacks",
            share("push: samples in memcpy"),
            share("push"),
        )
        .published(100.0, "all (a flame graph)")
        .unit(" %", Bound::AtLeast(90.0, 50.0)),
        sampled(
            "memcpy takes half the time of a pop, by sampled stacks",
            share("pop: samples in memcpy"),
            share("pop"),
        )
        .published(50.0, "half (a flame graph)")
        .unit(" %", Bound::AtLeast(40.0, 20.0)),
        claim("Appending to the output takes more than 70 % of the test")
            .published(70.0, "more than 70 %")
            .unit(" %", Bound::AtLeast(70.0, 40.0))
            .here(percent(share(TEST)))
            .because([time(TEST), time(NO_OUTPUT)], |[test, no_output]| {
                format!("{test:.0} ns for 1000 bytes, and {no_output:.0} with the output left out")
            }),
    ]
}
