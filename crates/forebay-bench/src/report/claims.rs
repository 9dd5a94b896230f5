//! What the five texts claim, a row each: the text's figure, the figures of a run, and the measured reason.
//!
//! A reason is computed from named figures of the run ([`Reason::of`]). Without one of them there is no reason: the row says
//! [`NOT_SHOWN`].

use super::results::{At, Results};

/// What stands where the run does not show something.
pub const NOT_SHOWN: &str = "not shown here";

/// The texts, in the order in which the page has them: title and author.
pub const TEXTS: [(&str, &str); 5] = [
    (
        "Using black magic to make a fast circular buffer",
        "Travis Mick, 2017",
    ),
    ("CS 144 Checkpoint 0 – Byte Stream", "a student's notes"),
    ("A Tale of Two Copies", "Jeff Wendling, 2021"),
    (
        "Device Driver Queues",
        "chapter 18 of a book on data structures",
    ),
    (
        "The one with shrinking structure, part II",
        "a blog on packet processing, 2019",
    ),
];

/// A number of a run.
pub enum Figure {
    /// One figure.
    One(At),
    /// How many times the second the first is.
    Ratio(At, At),
    /// Something computed.
    Computed(Vec<At>, fn(&[f64]) -> f64),
}

impl Figure {
    fn of(&self) -> Vec<At> {
        match self {
            Figure::One(at) => vec![*at],
            Figure::Ratio(one, other) => vec![*one, *other],
            Figure::Computed(all, _) => all.clone(),
        }
    }

    /// Its value, and the two figures of a ratio.
    pub fn value(&self, run: &Results) -> Option<(f64, Option<(f64, f64)>)> {
        let values: Option<Vec<f64>> = self.of().into_iter().map(|at| run.figure(at)).collect();
        let values = values?;
        Some(match (self, &values[..]) {
            (Figure::Ratio(..), &[one, other]) => (one / other, Some((one, other))),
            (Figure::Computed(_, compute), all) => (compute(all), None),
            (_, all) => (*all.first()?, None),
        })
    }
}

/// When a claim holds.
pub enum Bound {
    /// At least the first: it holds. At least the second: in part.
    AtLeast(f64, f64),
    /// At most the first; at most the second.
    AtMost(f64, f64),
}

/// What a run says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    InPart,
    DoesNot,
    NotShown,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InPart => "holds in part",
            Verdict::DoesNot => "does not hold",
            Verdict::NotShown => NOT_SHOWN,
        }
    }
}

/// Why a figure is what it is: figures that show it, and what they say. It compares them, and names no cause that the figures
/// do not show.
pub struct Reason {
    of: Vec<At>,
    says: fn(&[f64]) -> String,
}

/// One row.
pub struct Claim {
    /// Which of [`TEXTS`].
    pub text: usize,
    pub says: &'static str,
    /// The text's figure with its unit, as a number and as it is printed.
    pub published: f64,
    pub printed: &'static str,
    /// `×`, `%` and the like.
    pub unit: &'static str,
    /// This machine's figure for the text's own code.
    pub here: Option<Figure>,
    /// Forebay's.
    pub ours: Option<Figure>,
    pub bound: Bound,
    pub reason: Option<Reason>,
}

impl Claim {
    pub fn verdict(&self, run: &Results) -> Verdict {
        // A row that is about forebay alone has no other figure.
        let figure = self.here.as_ref().or(self.ours.as_ref());
        let value = figure.and_then(|figure| figure.value(run));
        let Some((value, _)) = value else {
            return Verdict::NotShown;
        };
        let (holds, in_part) = match self.bound {
            Bound::AtLeast(holds, in_part) => (value >= holds, value >= in_part),
            Bound::AtMost(holds, in_part) => (value <= holds, value <= in_part),
        };
        match (holds, in_part) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::InPart,
            _ => Verdict::DoesNot,
        }
    }

    /// The reason and the figures that it is computed from.
    pub fn reason(&self, run: &Results) -> Option<(String, &[At])> {
        let reason = self.reason.as_ref()?;
        let values: Option<Vec<f64>> = reason.of.iter().map(|&at| run.figure(at)).collect();
        Some(((reason.says)(&values?), &reason.of))
    }

    /// Every figure that the row is made of.
    pub fn figures(&self) -> Vec<At> {
        let figures = [&self.here, &self.ours].into_iter().flatten();
        let mut all: Vec<_> = figures.flat_map(Figure::of).collect();
        all.extend(self.reason.iter().flat_map(|reason| &reason.of));
        all
    }
}

/// A claim of a ratio: it holds if most of it is there, and in part if there is any.
fn ratio(
    text: usize,
    says: &'static str,
    (published, printed): (f64, &'static str),
    here: Figure,
    ours: Option<Figure>,
    reason: Option<Reason>,
) -> Claim {
    Claim {
        text,
        says,
        published,
        printed,
        unit: "×",
        here: Some(here),
        ours,
        bound: Bound::AtLeast(0.8 * published, 1.1),
        reason,
    }
}

fn because(of: &[At], says: fn(&[f64]) -> String) -> Option<Reason> {
    let of = of.to_vec();
    Some(Reason { of, says })
}

/// Every claim.
pub fn all() -> Vec<Claim> {
    let mut all = circular_buffer();
    all.extend(byte_stream());
    all.extend(two_copies());
    all.extend(driver());
    all.extend(descriptors());
    all
}

fn circular_buffer() -> Vec<Claim> {
    const fn micro(row: &'static str) -> At {
        At("mirror/micro", row, "ns")
    }
    const BYTES: At = micro("the source text's, byte by byte");
    const TWO: At = micro("the source text's slow one: two copies");
    const ONE: At = micro("the source text's fast one: one copy");
    const OURS: At = micro("forebay's mirror, one copy");
    const fn queue(row: &'static str) -> At {
        At("mirror/64 B", row, "ns")
    }
    const QUEUE_TWO: At = queue("the source text's, two copies, %");
    const QUEUE_MASK: At = queue("two copies, mask and branch");
    const QUEUE_ONE: At = queue("the source text's mirror");
    const fn page(row: &'static str, column: &'static str) -> At {
        At("mirror/pages", row, column)
    }
    const FIRST: At = page("first round, pages of 4 KiB", "ns");
    const FIRST_HUGE: At = page("first round, huge pages", "ns");
    const LATER: At = page("later rounds, pages of 4 KiB", "ns");
    const FAULTS: At = page("first round, pages of 4 KiB", "page faults");
    const FAULTS_HUGE: At = page("first round, huge pages", "page faults");
    const SCATTERED: At = page("scattered, pages of 4 KiB", "ns");
    const SCATTERED_HUGE: At = page("scattered, huge pages", "ns");
    vec![
        ratio(
            0,
            "A write of 32 bytes by one copy is about three times as fast as by two",
            (3.03, "3.03× (12.196 and 4.024 ns)"),
            Figure::Ratio(TWO, ONE),
            Some(Figure::Ratio(TWO, OURS)),
            because(&[QUEUE_TWO, QUEUE_MASK, QUEUE_ONE], |v| {
                let (saved, left) = (v[0] - v[1], v[1] - v[2]);
                format!(
                    "In the whole queue a mask and a branch instead of the division and the second copy save {saved:.2} ns of \
                     {:.2}; the mirror saves {left:.2} ns more: {}",
                    v[0],
                    match saved > left {
                        true => "most of the gain needs no mirror",
                        false => "most of the gain is the mirror's",
                    }
                )
            }),
        ),
        ratio(
            0,
            "… and much faster than byte by byte with a division each",
            (26.1, "26.1× (104.943 and 4.024 ns)"),
            Figure::Ratio(BYTES, ONE),
            Some(Figure::Ratio(BYTES, OURS)),
            because(&[BYTES, TWO], |v| {
                let each = (v[0] - v[1]) / 32.0;
                format!(
                    "The loop takes {each:.2} ns a byte more than two block copies, which divide once"
                )
            }),
        ),
        ratio(
            0,
            "The whole queue gains, too: put and get of 64 bytes",
            (3.03, "not measured; taken as the write's 3×"),
            Figure::Ratio(QUEUE_TWO, QUEUE_ONE),
            Some(Figure::Ratio(
                QUEUE_TWO,
                queue("forebay, a LocalStream, copied"),
            )),
            because(&[QUEUE_MASK, QUEUE_ONE], |v| {
                format!(
                    "Beside two copies with a mask and a branch the text's mirror is {:.2} times as fast",
                    v[0] / v[1]
                )
            }),
        ),
        ratio(
            0,
            "Page faults could change the result",
            (1.1, "named, not measured"),
            Figure::Ratio(FIRST, LATER),
            Some(Figure::Ratio(FIRST_HUGE, LATER)),
            because(&[FAULTS, FIRST, LATER, FAULTS_HUGE], |v| {
                format!(
                    "By the kernel's counter the first round has {:.2} page faults a write of 4096 bytes, later rounds none; \
                     a fault costs {:.0} ns. With huge pages there are {:.3} a write",
                    v[0],
                    (v[1] - v[2]) / v[0],
                    v[3]
                )
            }),
        ),
        ratio(
            0,
            "TLB misses could change the result",
            (1.1, "named, not measured"),
            Figure::Ratio(SCATTERED, SCATTERED_HUGE),
            Some(Figure::Ratio(SCATTERED, SCATTERED_HUGE)),
            because(
                &[SCATTERED, SCATTERED_HUGE, FAULTS, FAULTS_HUGE],
                |v| match v[3] < v[2] / 2.0 {
                    true => format!(
                        "Scattered writes differ only in the pages' size: 4 KiB instead of huge ones cost {:.1} ns each",
                        v[0] - v[1]
                    ),
                    false => "The kernel gave no huge pages: the two differ in nothing".into(),
                },
            ),
        ),
    ]
}

fn byte_stream() -> Vec<Claim> {
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

fn two_copies() -> Vec<Claim> {
    const NULL: &str = "append/forwarding, /dev/null";
    const FILE: &str = "append/forwarding, a file";
    const MCA: &str = "append/llvm-mca";
    const T28: &str = "the source text's, 28 bytes, hoisted";
    const T32: &str = "the source text's, 32 bytes, hoisted";
    const STRIDED: &str = "the source text's, 28 bytes, 32 apart";
    const BUILT28: &str = "the source text's, 28 bytes, built in the loop";
    const BUILT32: &str = "the source text's, 32 bytes, built in the loop";
    const ONE_STORE: &str = "variant: 28 bytes, each load from one store";
    const DISJOINT: &str = "variant: 28 bytes, stores that do not overlap";
    const LATER: &str = "variant: 28 bytes, loaded 63 entries later";
    const LATER32: &str = "variant: 32 bytes, loaded 63 entries later";
    const fn file(row: &'static str) -> At {
        At(FILE, row, "ns")
    }
    const fn null(row: &'static str) -> At {
        At(NULL, row, "ns")
    }
    const fn flushes(row: &'static str) -> At {
        At(FILE, row, "flushes in 100,000")
    }
    const fn records(bytes: &'static str, row: &'static str) -> At {
        At(bytes, row, "ns")
    }
    const R28: &str = "append/28/28 bytes, a buffer of 16 KiB, to a file";
    const R32: &str = "append/32/32 bytes, a buffer of 16 KiB, to a file";
    const IN_PLACE: &str = "ours, built in place";
    const READY: &str = "ours, entry hoisted, ready bytes";
    const WRITER: &str = "BufWriter, entry hoisted, ready bytes";
    let isolated = || {
        because(
            &[
                null(T28),
                null(ONE_STORE),
                null(DISJOINT),
                null(LATER),
                null(T32),
            ],
            |v| {
                let saved = v[0] - v[1];
                let word = match saved > 0.2 * v[0] {
                    true => "a load that needs two stores costs that",
                    false => "loads that need two stores cost little here",
                };
                format!(
                    "Same stores, each load from one of them: {saved:.2} ns less of {:.2} ({word}); stores that do not overlap, \
                     the same loads: {:.2}; loaded 63 entries later: {:.2}; 32 bytes: {:.2}",
                    v[0], v[2], v[3], v[4]
                )
            },
        )
    };
    let count = |says, published, printed, row| Claim {
        text: 2,
        says,
        published,
        printed,
        unit: "",
        here: Some(Figure::One(flushes(row))),
        ours: None,
        bound: Bound::AtMost(published, published),
        reason: because(&[flushes(row)], |v| {
            format!("{:.0} writes counted in 100,000 entries", v[0])
        }),
    };
    let mut claims = vec![
        ratio(
            2,
            "28 bytes, built before the loop, take 1.7 times as long as 32",
            (1.68, "1.68× (7.343 and 4.362 ns)"),
            Figure::Ratio(file(T28), file(T32)),
            Some(Figure::Ratio(
                records(R28, IN_PLACE),
                records(R32, IN_PLACE),
            )),
            isolated(),
        ),
        count("28 bytes are flushed 171 times", 171.0, "171", T28),
        count("32 bytes are flushed 196 times", 196.0, "196", T32),
        count(
            "28 bytes that are 32 apart are still flushed 171 times",
            171.0,
            "171",
            STRIDED,
        ),
        ratio(
            2,
            "Neither the multiplication nor the alignment is the cause: 28 bytes that are 32 apart are as slow",
            (1.0, "1.11× (8.135 and 7.343 ns)"),
            Figure::Ratio(file(STRIDED), file(T28)),
            None,
            because(
                &[null(STRIDED), null(T28), null(LATER), null(LATER32)],
                |v| {
                    format!(
                        "To /dev/null {:.2} and {:.2} ns; without blocked loads, 28 bytes take {:.2} ns and 32 bytes {:.2}",
                        v[0], v[1], v[2], v[3]
                    )
                },
            ),
        ),
        ratio(
            2,
            "28 bytes built in the loop instead of before it are faster",
            (1.80, "1.80× (7.343 and 4.075 ns)"),
            Figure::Ratio(file(T28), file(BUILT28)),
            Some(Figure::Ratio(
                records(R28, "the source text's, built in the loop, by value"),
                records(R28, IN_PLACE),
            )),
            isolated(),
        ),
        ratio(
            2,
            "… and then beat 32 bytes, which are written more often",
            (1.09, "1.09× (4.462 and 4.075 ns)"),
            Figure::Ratio(file(BUILT32), file(BUILT28)),
            Some(Figure::Ratio(records(R32, READY), records(R28, READY))),
            because(&[flushes(BUILT28), flushes(BUILT32)], |v| {
                format!("{:.0} and {:.0} writes", v[0], v[1])
            }),
        ),
        ratio(
            2,
            "32 bytes gain nothing from it",
            (0.98, "0.98× (4.362 and 4.462 ns)"),
            Figure::Ratio(file(T32), file(BUILT32)),
            None,
            because(&[null(T32), null(BUILT32)], |v| {
                format!(
                    "To /dev/null: {:.2} and {:.2} ns, so the two loads and stores {}",
                    v[0],
                    v[1],
                    match v[0] > 1.2 * v[1] {
                        true => "are not free here",
                        false => "are as good as free",
                    }
                )
            }),
        ),
        Claim {
            text: 2,
            says: "The processor counts blocked store-forwards for the slow one: several an entry",
            published: 1.0,
            printed: "1,006,025,599 in a run, 500 times as many as for 32 bytes",
            unit: " an entry",
            here: Some(Figure::One(At(NULL, T28, "blocked"))),
            ours: Some(Figure::One(At(
                "append/28/28 bytes, a buffer of 16 KiB, to /dev/null",
                IN_PLACE,
                "blocked",
            ))),
            bound: Bound::AtLeast(0.8, 0.1),
            reason: because(&[At(NULL, T28, "blocked"), At(NULL, T32, "blocked")], |v| {
                format!(
                    "By the processor's counter: {:.2} an entry, and {:.2} of 32 bytes",
                    v[0], v[1]
                )
            }),
        },
        ratio(
            2,
            "Blocked store-forwards are the cause",
            (1.68, "shown by the counter"),
            Figure::Ratio(null(T28), null(ONE_STORE)),
            None,
            isolated(),
        ),
        ratio(
            2,
            "Port pressure is not: it can explain less than a factor of two",
            (1.0, "0.5 and 1.0 cycles by llvm-mca"),
            Figure::Ratio(
                At(MCA, "28 bytes: the whole copy", "cycles"),
                At(MCA, "32 bytes: the whole copy", "cycles"),
            ),
            None,
            because(
                &[
                    At(MCA, "28 bytes: imul, lea", "cycles"),
                    At(MCA, "32 bytes: shl, lea", "cycles"),
                    null(T28),
                    null(T32),
                ],
                |v| {
                    format!(
                        "llvm-mca gives the two instructions {:.2} and {:.2} cycles; measured, the copies differ by a factor of {:.2}",
                        v[0],
                        v[1],
                        v[2] / v[3]
                    )
                },
            ),
        ),
        ratio(
            2,
            "Any real work between the store and the load makes the effect vanish",
            (1.68, "stated, not measured"),
            Figure::Ratio(null(T28), null(LATER)),
            None,
            because(&[null(LATER), null(LATER32)], |v| {
                format!(
                    "Loaded 63 entries later, 28 bytes take {:.2} ns and 32 take {:.2}",
                    v[0], v[1]
                )
            }),
        ),
    ];
    for (says, table) in READY_BYTES {
        claims.push(Claim {
            text: 2,
            says,
            published: 0.95,
            printed: "not in the text",
            unit: "×",
            here: None,
            ours: Some(Figure::Ratio(records(table, WRITER), records(table, READY))),
            bound: Bound::AtLeast(0.95, 0.8),
            reason: because(
                &[records(table, WRITER), records(table, READY), records(table, "ours, a hundred at once")],
                |v| {
                    format!(
                        "BufWriter takes {:.2} ns a record, forebay {:.2}, and {:.2} if a hundred are appended at once: the rest is paid for each call",
                        v[0], v[1], v[2]
                    )
                },
            ),
        });
    }
    claims
}

/// Ready bytes beside BufWriter.
const READY_BYTES: [(&str, &str); 6] = [
    (
        "Ready bytes over BufWriter: a file, 16 KiB",
        "append/28/28 bytes, a buffer of 16 KiB, to a file",
    ),
    (
        "Ready bytes over BufWriter: tmpfs, 16 KiB",
        "append/28/28 bytes, a buffer of 16 KiB, to /dev/shm",
    ),
    (
        "Ready bytes over BufWriter: /dev/null, 16 KiB",
        "append/28/28 bytes, a buffer of 16 KiB, to /dev/null",
    ),
    (
        "Ready bytes over BufWriter: a file, 64 KiB",
        "append/28/28 bytes, a buffer of 64 KiB, to a file",
    ),
    (
        "Ready bytes over BufWriter: tmpfs, 64 KiB",
        "append/28/28 bytes, a buffer of 64 KiB, to /dev/shm",
    ),
    (
        "Ready bytes over BufWriter: /dev/null, 64 KiB",
        "append/28/28 bytes, a buffer of 64 KiB, to /dev/null",
    ),
];

fn driver() -> Vec<Claim> {
    const CARD: &str = "driver/1 Gb/s of 64-byte frames, 1.488 million a second";
    const LIST: &str = "textbook: list, spinlock, malloc, an interrupt a packet";
    const POOLED: &str = "+ a pool";
    const BATCHES: &str = "+ batches of 32";
    const POLLED: &str = "+ polling with a budget of 64";
    const BATCHED: &str = "+ packets sent in batches";
    const LAST: &str = "the same by forebay's receive driver";
    const fn card(row: &'static str, column: &'static str) -> At {
        At(CARD, row, column)
    }
    const fn alone(row: &'static str, column: &'static str) -> At {
        At("ring/alone", row, column)
    }
    const fn pass(row: &'static str) -> At {
        At("ring/pass/1024 slots, one by one", row, "NEAR|FAR")
    }
    const fn split(row: &'static str) -> At {
        At("driver/split", row, "ns")
    }
    const fn batch(row: &'static str, column: &'static str) -> At {
        At("driver/batches", row, column)
    }
    const fn pool(row: &'static str, column: &'static str) -> At {
        At("pool/one by one, not touched", row, column)
    }
    const fn header(row: &'static str, column: &'static str) -> At {
        At("header/add and remove 14 bytes/4000", row, column)
    }
    const A_LIST: &str = "a list and a spinlock (Device Driver Queues)";
    const A_RING: &str = "a ring (Device Driver Queues)";
    const MALLOC: &str = "malloc and free (glibc)";
    const FREE: &str = "a ring of free buffers (Device Driver Queues)";
    const OURS: &str = "forebay, put_back";
    const ONE: &str = "the source text's ring and pool, one at a time";
    const MANY: &str = "the source text's ring and pool, 32 at a time";
    const OUR_ONE: &str = "forebay, one at a time";
    const OUR_MANY: &str = "forebay, 32 at a time";
    const FETCHED: &str = "forebay, 32 at a time, the next one prefetched";
    const ALL: At = split("list, spinlock, malloc, copy, processing");
    const NO_MALLOC: At = split("without malloc and free");
    const NO_COPY: At = split("without the copy, too");
    const NO_LOCK: At = split("without the lock, too");
    const BARE: At = split("without processing, too: the list");
    let mbit = |row| Figure::Computed(vec![card(row, "million/s")], |v| 672.0 * v[0]);
    let interrupts = || {
        because(
            &[
                card(LIST, "cycles a packet"),
                card(LIST, "interrupts aside"),
                card(POOLED, "lost %"),
                card(POLLED, "lost %"),
            ],
            |v| {
                format!(
                    "Of {:.0} cycles a packet {:.0} are interrupts. With the ring and the pool, but an interrupt a packet, {:.1} % \
                     are lost; with polling {:.2} %",
                    v[0],
                    v[0] - v[1],
                    v[2],
                    v[3]
                )
            },
        )
    };
    let misses = |says, published, printed, one: At, other: At, ours| {
        ratio(
            3,
            says,
            (published, printed),
            Figure::Ratio(one, other),
            Some(ours),
            because(&[one, other], |v| {
                format!("By the processor's counter: {:.2} and {:.2}", v[0], v[1])
            }),
        )
    };
    vec![
        Claim {
            text: 3,
            says: "The first driver loses packets at the line rate",
            published: 31.1,
            printed: "31.1 %",
            unit: " %",
            here: Some(Figure::One(card(LIST, "lost %"))),
            ours: Some(Figure::One(card(LAST, "lost %"))),
            bound: Bound::AtLeast(15.0, 2.0),
            reason: interrupts(),
        },
        Claim {
            text: 3,
            says: "The last driver loses almost none",
            published: 0.12,
            printed: "0.12 %",
            unit: " %",
            here: Some(Figure::One(card(POLLED, "lost %"))),
            ours: Some(Figure::One(card(LAST, "lost %"))),
            bound: Bound::AtMost(0.12, 2.0),
            reason: interrupts(),
        },
        Claim {
            text: 3,
            says: "The first driver's throughput",
            published: 599.0,
            printed: "599 Mbit/s",
            unit: " Mbit/s",
            here: Some(mbit(LIST)),
            ours: Some(mbit(LAST)),
            bound: Bound::AtMost(800.0, 900.0),
            reason: interrupts(),
        },
        ratio(
            3,
            "The last driver's throughput is 1.7 times the first's",
            (1.70, "1.70× (599 and 1020 Mbit/s)"),
            Figure::Ratio(card(POLLED, "million/s"), card(LIST, "million/s")),
            Some(Figure::Ratio(
                card(LAST, "million/s"),
                card(LIST, "million/s"),
            )),
            interrupts(),
        ),
        ratio(
            3,
            "… with less of the processor",
            (1.40, "1.40× (95 and 68 %)"),
            Figure::Ratio(card(LIST, "CPU %"), card(POLLED, "CPU %")),
            Some(Figure::Ratio(card(LIST, "CPU %"), card(LAST, "CPU %"))),
            because(
                &[
                    card(POLLED, "cycles a packet"),
                    card(BATCHED, "cycles a packet"),
                    card(LAST, "cycles a packet"),
                ],
                |v| {
                    format!(
                        "Polling alone takes {:.0} cycles a packet, and {:.0} if the sender hands over what one poll found at once; \
                         the library's driver takes {:.0}",
                        v[0], v[1], v[2]
                    )
                },
            ),
        ),
        misses(
            "The last driver has 6.6 times fewer cache misses",
            6.6,
            "6.6× (18.5 and 2.8 million a second)",
            card(LIST, "cache misses"),
            card(POLLED, "cache misses"),
            Figure::Ratio(card(LIST, "cache misses"), card(LAST, "cache misses")),
        ),
        ratio(
            3,
            "A ring is 5.3 times as fast as a list under a spinlock: one thread",
            (5.3, "5.3× (450 and 85 cycles)"),
            Figure::Ratio(alone(A_LIST, "ns"), alone(A_RING, "ns")),
            Some(Figure::Ratio(alone(A_LIST, "ns"), alone("forebay", "ns"))),
            because(&[NO_COPY, NO_LOCK, BARE], |v| {
                format!(
                    "An uncontended lock costs {:.1} ns of {:.1}, the bare list {:.1}",
                    v[0] - v[1],
                    v[0],
                    v[2]
                )
            }),
        ),
        ratio(
            3,
            "… two threads",
            (5.3, "5.3× (450 and 85 cycles)"),
            Figure::Ratio(pass(A_RING), pass(A_LIST)),
            Some(Figure::Ratio(pass("forebay"), pass(A_LIST))),
            because(
                &[
                    pass(A_LIST),
                    alone(A_LIST, "ns"),
                    pass(A_RING),
                    alone(A_RING, "ns"),
                ],
                |v| {
                    format!(
                        "Two threads instead of one: the list takes {:.0} ns instead of {:.1} for a number, the ring {:.0} instead of {:.1}",
                        1e3 / v[0],
                        v[1],
                        1e3 / v[2],
                        v[3]
                    )
                },
            ),
        ),
        misses(
            "… with 6.6 times fewer cache misses",
            6.6,
            "6.6× (18.5 and 2.8 million)",
            alone(A_LIST, "cache misses"),
            alone(A_RING, "cache misses"),
            Figure::Ratio(
                alone(A_LIST, "cache misses"),
                alone("forebay", "cache misses"),
            ),
        ),
        Claim {
            text: 3,
            says: "The list and its lock take 70.8 % of the first driver's time",
            published: 70.8,
            printed: "70.8 % (42.3 enqueue and dequeue, 28.5 contention; 18.7 processing, 10.5 other)",
            unit: " %",
            here: Some(Figure::Computed(vec![ALL, NO_COPY, NO_LOCK, BARE], |v| {
                100.0 * (v[1] - v[2] + v[3]) / v[0]
            })),
            ours: None,
            bound: Bound::AtLeast(55.0, 30.0),
            reason: because(&[ALL, NO_MALLOC, NO_COPY, NO_LOCK, BARE], |v| {
                let share = |part: f64| 100.0 * part / v[0];
                format!(
                    "One thread, each part left out, of {:.1} ns: malloc and free {:.0} %, copy {:.0} %, lock {:.0} %, \
                     processing {:.0} %, list {:.0} %",
                    v[0],
                    share(v[0] - v[1]),
                    share(v[1] - v[2]),
                    share(v[2] - v[3]),
                    share(v[3] - v[4]),
                    share(v[4])
                )
            }),
        },
        Claim {
            text: 3,
            says: "Contention for the lock takes 28.5 %, and none with a ring",
            published: 28.5,
            printed: "28.5 %",
            unit: " %",
            here: Some(Figure::Computed(
                vec![pass(A_LIST), alone(A_LIST, "ns")],
                |v| 100.0 * (1.0 - v[1] / (1e3 / v[0])),
            )),
            ours: Some(Figure::Computed(
                vec![pass("forebay"), alone("forebay", "ns")],
                |v| 100.0 * (1.0 - v[1] / (1e3 / v[0])).max(0.0),
            )),
            bound: Bound::AtLeast(20.0, 5.0),
            reason: because(&[pass(A_LIST), alone(A_LIST, "ns")], |v| {
                format!(
                    "A number through the list takes {:.1} ns with two threads, {:.1} with one",
                    1e3 / v[0],
                    v[1]
                )
            }),
        },
        ratio(
            3,
            "A pool is 40 times as fast as malloc",
            (40.0, "40× (200 and 5 cycles)"),
            Figure::Ratio(pool(MALLOC, "ns"), pool(FREE, "ns")),
            Some(Figure::Ratio(pool(MALLOC, "ns"), pool(OURS, "ns"))),
            because(
                &[
                    pool(MALLOC, "cycles"),
                    pool(FREE, "cycles"),
                    pool(OURS, "cycles"),
                ],
                |v| {
                    format!(
                        "malloc and free take {:.0} cycles where the text has 200; the text's ring of free buffers {:.1}, ours {:.1}",
                        v[0], v[1], v[2]
                    )
                },
            ),
        ),
        Claim {
            text: 3,
            says: "A buffer from the text's pool takes 5 cycles",
            published: 5.0,
            printed: "5 cycles",
            unit: " cycles",
            here: Some(Figure::One(pool(FREE, "cycles"))),
            ours: Some(Figure::One(pool(OURS, "cycles"))),
            bound: Bound::AtMost(6.0, 12.0),
            reason: because(&[pool(FREE, "ns"), pool(OURS, "ns")], |v| {
                format!(
                    "Not touched, the text's pool takes {:.2} ns and ours, which also checks and counts, {:.2}",
                    v[0], v[1]
                )
            }),
        },
        misses(
            "… with 12 times fewer cache misses",
            12.0,
            "12× (12 and 1 million)",
            pool(MALLOC, "cache misses"),
            pool(FREE, "cache misses"),
            Figure::Ratio(pool(MALLOC, "cache misses"), pool(OURS, "cache misses")),
        ),
        ratio(
            3,
            "32 packets at a time are 1.6 times as fast as one: no card, no interrupts",
            (1.6, "1.6× (850 and 520 cycles)"),
            Figure::Ratio(batch(ONE, "ns"), batch(MANY, "ns")),
            Some(Figure::Ratio(batch(OUR_ONE, "ns"), batch(OUR_MANY, "ns"))),
            because(
                &[
                    batch(ONE, "cycles"),
                    batch(MANY, "cycles"),
                    batch(OUR_ONE, "cycles"),
                    batch(OUR_MANY, "cycles"),
                ],
                |v| {
                    format!(
                        "Drained by one thread: {:.0} and {:.0} cycles a packet; ours {:.0} and {:.0}",
                        v[0], v[1], v[2], v[3]
                    )
                },
            ),
        ),
        ratio(
            3,
            "… in the driver, with an interrupt a packet",
            (1.6, "1.6× (850 and 520 cycles)"),
            Figure::Ratio(
                card(POOLED, "interrupts aside"),
                card(BATCHES, "interrupts aside"),
            ),
            None,
            because(
                &[
                    card(POOLED, "interrupts aside"),
                    card(BATCHES, "interrupts aside"),
                ],
                |v| {
                    format!(
                        "Interrupts aside, {:.0} and {:.0} cycles a packet",
                        v[0], v[1]
                    )
                },
            ),
        ),
        misses(
            "… with 1.6 times fewer cache misses",
            1.6,
            "1.6× (45 and 28 million)",
            batch(ONE, "cache misses"),
            batch(MANY, "cache misses"),
            Figure::Ratio(
                batch(OUR_ONE, "cache misses"),
                batch(OUR_MANY, "cache misses"),
            ),
        ),
        ratio(
            3,
            "The next packet of a batch can be prefetched",
            (1.1, "named, not measured"),
            Figure::Ratio(batch(OUR_MANY, "ns"), batch(FETCHED, "ns")),
            Some(Figure::Ratio(batch(OUR_MANY, "ns"), batch(FETCHED, "ns"))),
            because(&[batch(OUR_MANY, "ns"), batch(FETCHED, "ns")], |v| {
                format!(
                    "{:.2} ns a packet without and {:.2} with: {}",
                    v[0],
                    v[1],
                    match v[0] > 1.05 * v[1] {
                        true => "it helps",
                        false => "it does not help, and forebay does not do it",
                    }
                )
            }),
        ),
        Claim {
            text: 3,
            says: "Interrupts at the line rate take more than a whole processor",
            published: 124.0,
            printed: "124 % (1000 cycles each at 1.2 GHz)",
            unit: " %",
            here: Some(Figure::Computed(
                vec![
                    card(LIST, "cycles a packet"),
                    card(LIST, "interrupts aside"),
                    card(LIST, "CPU %"),
                    card(LIST, "million/s"),
                ],
                |v| (v[0] - v[1]) / v[0] * v[2] * 1.488 / v[3],
            )),
            ours: None,
            bound: Bound::AtLeast(100.0, 60.0),
            reason: because(&[card(LIST, "CPU %"), card(LIST, "million/s")], |v| {
                format!(
                    "Modelled: each interrupt spins for the text's 1000 cycles at 1.2 GHz. The driver takes {:.0} % of a processor at \
                     {:.2} million packets a second",
                    v[0], v[1]
                )
            }),
        },
        ratio(
            3,
            "Polling instead of interrupts: throughput",
            (1.48, "1.48× (690 and 1020 Mbit/s)"),
            Figure::Ratio(card(POLLED, "million/s"), card(BATCHES, "million/s")),
            Some(Figure::Ratio(
                card(LAST, "million/s"),
                card(BATCHES, "million/s"),
            )),
            interrupts(),
        ),
        ratio(
            3,
            "A header is added by moving a pointer 37.5 times as fast as by copying",
            (37.5, "37.5× (450 and 12 cycles)"),
            Figure::Ratio(
                header("memmove, with the header written", "ns"),
                header("forebay, with the header written", "ns"),
            ),
            Some(Figure::Ratio(
                header("memmove, with the header written", "ns"),
                header("forebay, push and pull", "ns"),
            )),
            because(
                &[
                    header("memmove, with the header written", "cycles"),
                    header("forebay, with the header written", "cycles"),
                    At(
                        "header/add and remove 14 bytes/64",
                        "memmove, with the header written",
                        "cycles",
                    ),
                ],
                |v| {
                    format!(
                        "4000 bytes moved take {:.0} cycles, the pointer {:.0}; 64 bytes moved take {:.0}",
                        v[0], v[1], v[2]
                    )
                },
            ),
        ),
    ]
}

fn descriptors() -> Vec<Claim> {
    const TRIVIAL: &str = "descriptor/trivial";
    const RX: &str = "descriptor/read (RX)";
    const TX: &str = "descriptor/write (TX)";
    const CACHED_RX: &str = "descriptor/cached read (RX)";
    const CACHED_TX: &str = "descriptor/cached write (TX)";
    const fn rate(table: &'static str, row: &'static str) -> At {
        At(table, row, "million a second")
    }
    const fn bytes(row: &'static str) -> At {
        At(TRIVIAL, row, "bytes")
    }
    const fn pointer(row: &'static str) -> At {
        At("descriptor/pointers", row, "ns")
    }
    let speed = |says, published: f64, printed, table, row| Claim {
        text: 4,
        says,
        published,
        printed,
        unit: " million/s",
        here: Some(Figure::One(rate(table, row))),
        ours: Some(Figure::One(rate(table, "forebay"))),
        bound: Bound::AtLeast(0.8 * published, 0.4 * published),
        reason: because(&[rate(table, row), bytes(row)], |v| {
            format!(
                "{:.0} million of {:.0} bytes are {:.1} GB/s through the loop",
                v[0],
                v[1],
                v[0] * v[1] / 1e3
            )
        }),
    };
    let fields = || {
        because(
            &[
                rate(CACHED_TX, "packed"),
                rate(CACHED_TX, "with assumptions"),
                rate(CACHED_TX, "tagged"),
                rate(CACHED_TX, "stamped"),
            ],
            |v| {
                format!(
                    "Within the first cache, where memory costs nothing: packed {:.0} million/s; bit-fields {:.0}, {:.0} and {:.0}",
                    v[0], v[1], v[2], v[3]
                )
            },
        )
    };
    let mut claims = vec![ratio(
        4,
        "A descriptor shrinks from 48 bytes to 22",
        (2.18, "2.18× (48 and 22 bytes)"),
        Figure::Ratio(bytes("plain"), bytes("stamped")),
        Some(Figure::Ratio(bytes("plain"), bytes("forebay"))),
        because(&[bytes("forebay")], |v| {
            format!(
                "Ours of {:.0} bytes keeps 16 bits of the hash and a slot number, where the text's keep 64 bits and an address",
                v[0]
            )
        }),
    )];
    for (row, rx, tx, rx_printed, tx_printed) in [
        ("with assumptions", 310.0, 228.0, "310", "228"),
        ("tagged", 321.0, 222.0, "321", "222"),
        ("stamped", 347.0, 228.0, "347", "228"),
    ] {
        let says = match row {
            "tagged" => ("Tagged, 24 bytes: read (RX)", "Tagged: write (TX)"),
            "stamped" => ("Stamped, 22 bytes: read (RX)", "Stamped: write (TX)"),
            _ => (
                "Bit-fields under assumptions, 25 bytes: read (RX)",
                "Bit-fields under assumptions: write (TX)",
            ),
        };
        claims.push(speed(says.0, rx, rx_printed, RX, row));
        claims.push(speed(says.1, tx, tx_printed, TX, row));
    }
    for (row, says) in [
        (
            "plain",
            "Plain, 48 bytes: read (RX), the first article's start",
        ),
        ("reordered", "Reordered, 32 bytes: read (RX)"),
        ("packed", "Packed, 28 bytes: read (RX)"),
    ] {
        claims.push(Claim {
            published: 0.0,
            printed: "in a chart only",
            bound: Bound::AtLeast(0.0, 0.0),
            ..speed(says, 0.0, "", RX, row)
        });
    }
    claims.extend([
        ratio(
            4,
            "Bit-fields cost writing (TX): under assumptions it is slower than packed",
            (1.1, "\"performance loss\"; in a chart only"),
            Figure::Ratio(rate(TX, "packed"), rate(TX, "with assumptions")),
            Some(Figure::Ratio(rate(TX, "forebay"), rate(TX, "packed"))),
            fields(),
        ),
        ratio(
            4,
            "24 bytes are faster to read than 25, because they are aligned",
            (1.04, "1.04× (321 and 310 million/s)"),
            Figure::Ratio(rate(RX, "tagged"), rate(RX, "with assumptions")),
            None,
            because(
                &[
                    rate(CACHED_RX, "tagged"),
                    rate(CACHED_RX, "with assumptions"),
                ],
                |v| {
                    format!(
                        "Within the first cache {:.0} and {:.0} million/s: {}",
                        v[0],
                        v[1],
                        match v[0] > 1.05 * v[1] {
                            true => "also without memory the aligned one is faster",
                            false => "without memory alignment gains nothing",
                        }
                    )
                },
            ),
        ),
        Claim {
            text: 4,
            says: "Over all loops packed is best of the six",
            published: 1.0,
            printed: "in a chart only",
            unit: "×",
            here: Some(Figure::Computed(geometric(), |v| {
                let of = |layout: usize| v[3 * layout] * v[3 * layout + 1] * v[3 * layout + 2];
                let best = (1..6).map(of).fold(0.0, f64::max);
                (of(0) / best).cbrt()
            })),
            ours: Some(Figure::Computed(
                [TRIVIAL, RX, TX]
                    .into_iter()
                    .flat_map(|table| [rate(table, "forebay"), rate(table, "packed")])
                    .collect(),
                |v| (v[0] / v[1] * v[2] / v[3] * v[4] / v[5]).cbrt(),
            )),
            bound: Bound::AtLeast(1.0, 0.95),
            reason: because(
                &[
                    rate(TX, "packed"),
                    rate(TX, "stamped"),
                    rate(RX, "packed"),
                    rate(RX, "stamped"),
                ],
                |v| {
                    format!(
                        "Beside stamped: write {:.0} and {:.0} million/s, read {:.0} and {:.0}; the figure is the geometric mean of three \
                         loops, packed over the best other",
                        v[0], v[1], v[2], v[3]
                    )
                },
            ),
        },
        Claim {
            text: 4,
            says: "The trivial loop gains most from smaller descriptors",
            published: 1.0,
            printed: "in a chart only",
            unit: "×",
            here: Some(Figure::Computed(
                [TRIVIAL, RX, TX]
                    .into_iter()
                    .flat_map(|table| [rate(table, "stamped"), rate(table, "plain")])
                    .collect(),
                |v| v[0] / v[1] / (v[2] / v[3]).max(v[4] / v[5]),
            )),
            ours: None,
            bound: Bound::AtLeast(1.0, 0.95),
            reason: because(
                &[
                    rate(TRIVIAL, "stamped"),
                    rate(TRIVIAL, "plain"),
                    rate(RX, "stamped"),
                    rate(RX, "plain"),
                    rate(TX, "stamped"),
                    rate(TX, "plain"),
                ],
                |v| {
                    format!(
                        "From 48 to 22 bytes the trivial loop gains {:.2}×, reading {:.2}× and writing {:.2}×",
                        v[0] / v[1],
                        v[2] / v[3],
                        v[4] / v[5]
                    )
                },
            ),
        },
        ratio(
            4,
            "Numbers in the spare bits of a pointer cost masking wherever it is followed",
            (1.0, "\"some overhead\", not measured"),
            Figure::Ratio(pointer("TaggedPtr"), pointer("an address and a number")),
            Some(Figure::Ratio(
                pointer("StampedPtr"),
                pointer("an address and a number"),
            )),
            because(
                &[
                    pointer("an address and a number"),
                    pointer("TaggedPtr"),
                    pointer("StampedPtr"),
                ],
                |v| {
                    format!(
                        "Followed in the cache, an address with a number beside it takes {:.2} ns, a tagged pointer {:.2} and a stamped one \
                         {:.2}",
                        v[0], v[1], v[2]
                    )
                },
            ),
        ),
        Claim {
            text: 4,
            says: "Pointers use no more than 48 bits of virtual addresses",
            published: 48.0,
            printed: "48 bits (/proc/cpuinfo)",
            unit: " bits",
            here: Some(Figure::One(At("machine", "virtual addresses", "bits"))),
            ours: None,
            bound: Bound::AtMost(48.0, 48.0),
            reason: because(&[At("machine", "virtual addresses", "bits")], |v| {
                format!("/proc/cpuinfo names {:.0} bits", v[0])
            }),
        },
        Claim {
            text: 4,
            says: "Single cores of servers are far slower than those of desktops",
            published: 1.0,
            printed: "in a chart only",
            unit: "×",
            here: None,
            ours: None,
            bound: Bound::AtLeast(1.0, 1.0),
            reason: None,
        },
    ]);
    claims
}

/// The three loops of packed, and of the other five layouts.
fn geometric() -> Vec<At> {
    let layouts = [
        "packed",
        "plain",
        "reordered",
        "with assumptions",
        "tagged",
        "stamped",
    ];
    let tables = [
        "descriptor/trivial",
        "descriptor/read (RX)",
        "descriptor/write (TX)",
    ];
    let of = |layout| tables.map(|table| At(table, layout, "million a second"));
    layouts.into_iter().flat_map(of).collect()
}
