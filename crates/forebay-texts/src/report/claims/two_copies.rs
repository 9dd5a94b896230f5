//! The claims of the text on two copies.

use super::claim::{Bound, Claim, claim};
use crate::report::results::At;

pub fn all() -> Vec<Claim> {
    const NULL: &str = "append/forwarding, /dev/null";
    const FILE: &str = "append/forwarding, a file";
    const T28: &str = "the source text's, 28 bytes, hoisted";
    const T32: &str = "the source text's, 32 bytes, hoisted";
    const STRIDED: &str = "the source text's, 28 bytes, 32 apart";
    const BUILT28: &str = "the source text's, 28 bytes, built in the loop";
    const BUILT32: &str = "the source text's, 32 bytes, built in the loop";
    const ONE_STORE: &str = "variant: 28 bytes, each load from one store";
    const DISJOINT: &str = "variant: 28 bytes, stores that do not overlap";
    const LATER: &str = "variant: 28 bytes, loaded 63 entries later";
    const LATER32: &str = "variant: 32 bytes, loaded 63 entries later";
    let file = |row| At(FILE, row, "ns");
    let null = |row| At(NULL, row, "ns");
    let flushes = |row| At(FILE, row, "flushes in 100,000");
    let blocked = |row| At(NULL, row, "blocked");
    let records = |bytes, row| At(bytes, row, "ns");
    let mca = |row| At("append/llvm-mca", row, "cycles");
    const R28: &str = "append/28/28 bytes, a buffer of 16 KiB, to a file";
    const R32: &str = "append/32/32 bytes, a buffer of 16 KiB, to a file";
    const IN_PLACE: &str = "ours, built in place";
    const READY: &str = "ours, entry hoisted, ready bytes";
    const WRITER: &str = "BufWriter, entry hoisted, ready bytes";
    const BY_VALUE: &str = "the source text's, built in the loop, by value";
    let isolated = |claim: Claim| {
        let of = [
            null(T28),
            null(ONE_STORE),
            null(DISJOINT),
            null(LATER),
            null(T32),
        ];
        claim.because(of, |[both, one_store, disjoint, later, t32]| {
            let saved = both - one_store;
            let word = match saved > 0.2 * both {
                true => "a load that needs two stores costs that",
                false => "loads that need two stores cost little here",
            };
            format!(
                "Same stores, each load from one of them: {saved:.2} ns less of {both:.2} ({word}); stores that do not overlap, \
                 the same loads: {disjoint:.2}; loaded 63 entries later: {later:.2}; 32 bytes: {t32:.2}"
            )
        })
    };
    let count = |says, published, printed, row| {
        claim(says)
            .published(published, printed)
            .unit("", Bound::AtMost(published, published))
            .here(flushes(row))
            .because([flushes(row)], |[count]| {
                format!("{count:.0} writes counted in 100,000 entries")
            })
    };
    let strided = "28 bytes that are 32 apart are still flushed 171 times";
    let mut claims = vec![
        isolated(claim("28 bytes, built before the loop, take 1.7 times as long as 32"))
            .published(1.68, "1.68× (7.343 and 4.362 ns)")
            .here(file(T28) / file(T32))
            .ours(records(R28, IN_PLACE) / records(R32, IN_PLACE)),
        count("28 bytes are flushed 171 times", 171.0, "171", T28),
        count("32 bytes are flushed 196 times", 196.0, "196", T32),
        count(strided, 171.0, "171", STRIDED),
        claim("Neither the multiplication nor the alignment is the cause: 28 bytes that are 32 apart are as slow")
            .published(1.0, "1.11× (8.135 and 7.343 ns)")
            .here(file(STRIDED) / file(T28))
            .because(
                [null(STRIDED), null(T28), null(LATER), null(LATER32)],
                |[strided, t28, later, later32]| {
                    format!(
                        "To /dev/null {strided:.2} and {t28:.2} ns; without blocked loads, 28 bytes take {later:.2} ns and 32 bytes {later32:.2}"
                    )
                },
            ),
        isolated(claim("28 bytes built in the loop instead of before it are faster"))
            .published(1.80, "1.80× (7.343 and 4.075 ns)")
            .here(file(T28) / file(BUILT28))
            .ours(records(R28, BY_VALUE) / records(R28, IN_PLACE)),
        claim("… and then beat 32 bytes, which are written more often")
            .published(1.09, "1.09× (4.462 and 4.075 ns)")
            .here(file(BUILT32) / file(BUILT28))
            .ours(records(R32, READY) / records(R28, READY))
            .because([flushes(BUILT28), flushes(BUILT32)], |[b28, b32]| {
                format!("{b28:.0} and {b32:.0} writes")
            }),
        claim("32 bytes gain nothing from it")
            .published(0.98, "0.98× (4.362 and 4.462 ns)")
            .here(file(T32) / file(BUILT32))
            .because([null(T32), null(BUILT32)], |[hoisted, built]| {
                let word = match hoisted > 1.2 * built {
                    true => "are not free here",
                    false => "are as good as free",
                };
                format!("To /dev/null: {hoisted:.2} and {built:.2} ns, so the two loads and stores {word}")
            }),
        claim("The processor counts blocked store-forwards for the slow one: several an entry")
            .published(1.0, "1,006,025,599 in a run, 500 times as many as for 32 bytes")
            .unit(" an entry", Bound::AtLeast(0.8, 0.1))
            .here(blocked(T28))
            .ours(At("append/28/28 bytes, a buffer of 16 KiB, to /dev/null", IN_PLACE, "blocked"))
            .because([blocked(T28), blocked(T32)], |[t28, t32]| {
                format!("By the processor's counter: {t28:.2} an entry, and {t32:.2} of 32 bytes")
            }),
        isolated(claim("Blocked store-forwards are the cause"))
            .published(1.68, "shown by the counter")
            .here(null(T28) / null(ONE_STORE)),
        claim("Port pressure is not: it can explain less than a factor of two")
            .published(1.0, "0.5 and 1.0 cycles by llvm-mca")
            .here(mca("28 bytes: the whole copy") / mca("32 bytes: the whole copy"))
            .because(
                [mca("28 bytes: imul, lea"), mca("32 bytes: shl, lea"), null(T28), null(T32)],
                |[imul, shl, t28, t32]| {
                    format!(
                        "llvm-mca gives the two instructions {imul:.2} and {shl:.2} cycles; measured, the copies differ by a factor of {:.2}",
                        t28 / t32
                    )
                },
            ),
        claim("Any real work between the store and the load makes the effect vanish")
            .published(1.68, "stated, not measured")
            .here(null(T28) / null(LATER))
            .because([null(LATER), null(LATER32)], |[later, later32]| {
                format!("Loaded 63 entries later, 28 bytes take {later:.2} ns and 32 take {later32:.2}")
            }),
    ];
    for (says, table) in READY_BYTES {
        let of = [WRITER, READY, "ours, a hundred at once"].map(|row| records(table, row));
        let claim = claim(says)
            .published(0.95, "not in the text")
            .unit("×", Bound::AtLeast(0.95, 0.8))
            .ours(of[0] / of[1])
            .because(of, |[writer, ready, many]| {
                format!(
                    "BufWriter takes {writer:.2} ns a record, forebay {ready:.2}, and {many:.2} if a hundred are appended at once: the rest is paid for each call"
                )
            });
        claims.push(claim);
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
