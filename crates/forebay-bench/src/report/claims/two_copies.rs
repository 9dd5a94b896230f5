//! The claims of the text on two copies.

use super::{super::results::At, Bound, Claim, Figure, because, ratio};

pub fn all() -> Vec<Claim> {
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
