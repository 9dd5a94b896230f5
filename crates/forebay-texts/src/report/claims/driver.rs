//! The claims of the text on the driver of a network card.

use super::claim::{Bound, Claim, claim, computed};
use crate::report::results::At;

pub fn all() -> Vec<Claim> {
    const CARD: &str = "driver/1 Gb/s of 64-byte frames, 1.488 million a second";
    const LIST: &str = "textbook: list, spinlock, malloc, an interrupt a packet";
    const POOLED: &str = "+ a pool";
    const BATCHES: &str = "+ batches of 32";
    const POLLED: &str = "+ polling with a budget of 64";
    const BATCHED: &str = "+ packets sent in batches";
    const LAST: &str = "the same by forebay's receive driver";
    let card = |row, column| At(CARD, row, column);
    let rate = |row| card(row, "million/s");
    let lost = |row| card(row, "lost %");
    let busy = |row| card(row, "CPU %");
    let cycles = |row| card(row, "cycles a packet");
    let work = |row| card(row, "interrupts aside");
    let alone = |row| At("ring/alone", row, "ns");
    let pass = |row| At("ring/pass/1024 slots, one by one", row, "NEAR|FAR");
    let split = |row| At("driver/split", row, "ns");
    let batch = |row, column| At("driver/batches", row, column);
    let pool = |row, column| At("pool/one by one, not touched", row, column);
    let header = |row, column| At("header/add and remove 14 bytes/4000", row, column);
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
    const MOVED: &str = "memmove, with the header written";
    const WRITTEN: &str = "forebay, with the header written";
    let all = split("list, spinlock, malloc, copy, processing");
    let no_malloc = split("without malloc and free");
    let no_copy = split("without the copy, too");
    let no_lock = split("without the lock, too");
    let bare = split("without processing, too: the list");
    let mbit = |row| computed([rate(row)], |[rate]| 672.0 * rate);
    let interrupts = |claim: Claim| {
        let of = [cycles(LIST), work(LIST), lost(POOLED), lost(POLLED)];
        claim.because(of, |[cycles, work, pooled, polled]| {
            let interrupts = cycles - work;
            format!(
                "Of {cycles:.0} cycles a packet {interrupts:.0} are interrupts. With the ring and the pool, but an interrupt a packet, {pooled:.1} % \
                 are lost; with polling {polled:.2} %"
            )
        })
    };
    /// Cache misses in two rows of the text. The second row is the better one.
    fn misses(
        says: &'static str,
        [one, other]: [&'static str; 2],
        of: impl Fn(&'static str) -> At,
    ) -> Claim {
        claim(says)
            .here(of(one) / of(other))
            .because([of(one), of(other)], |[one, other]| {
                format!("Cache misses, each time: {one:.3} and {other:.3}")
            })
    }
    vec![
        interrupts(claim("The first driver loses packets at the line rate"))
            .published(31.1, "31.1 %")
            .unit(" %", Bound::AtLeast(15.0, 2.0))
            .here(lost(LIST))
            .ours(lost(LAST)),
        interrupts(claim("The last driver loses almost none"))
            .published(0.12, "0.12 %")
            .unit(" %", Bound::AtMost(0.12, 2.0))
            .here(lost(POLLED))
            .ours(lost(LAST)),
        interrupts(claim("The first driver's throughput"))
            .published(599.0, "599 Mbit/s")
            .unit(" Mbit/s", Bound::AtMost(800.0, 900.0))
            .here(mbit(LIST))
            .ours(mbit(LAST)),
        interrupts(claim("The last driver's throughput is 1.7 times the first's"))
            .published(1.70, "1.70× (599 and 1020 Mbit/s)")
            .here(rate(POLLED) / rate(LIST))
            .ours(rate(LAST) / rate(LIST)),
        claim("… with less of the processor")
            .published(1.40, "1.40× (95 and 68 %)")
            .here(busy(LIST) / busy(POLLED))
            .ours(busy(LIST) / busy(LAST))
            .because([POLLED, BATCHED, LAST].map(cycles), |[polled, batched, ours]| {
                format!(
                    "Polling alone takes {polled:.0} cycles a packet, and {batched:.0} if the sender hands over what one poll found at once; \
                     the library's driver takes {ours:.0}"
                )
            }),
        misses("The last driver has 6.6 times fewer cache misses", [LIST, POLLED], |row| {
            card(row, "cache misses")
        })
        .published(6.6, "6.6× (18.5 and 2.8 million a second)")
        .ours(card(LIST, "cache misses") / card(LAST, "cache misses")),
        claim("A ring is 5.3 times as fast as a list under a spinlock: one thread")
            .published(5.3, "5.3× (450 and 85 cycles)")
            .here(alone(A_LIST) / alone(A_RING))
            .ours(alone(A_LIST) / alone("forebay"))
            .because([no_copy, no_lock, bare], |[locked, unlocked, bare]| {
                let lock = locked - unlocked;
                format!(
                    "An uncontended lock costs {lock:.1} ns of {locked:.1}, the bare list {bare:.1}"
                )
            }),
        claim("… two threads")
            .published(5.3, "5.3× (450 and 85 cycles)")
            .here(pass(A_RING) / pass(A_LIST))
            .ours(pass("forebay") / pass(A_LIST))
            .because(
                [pass(A_LIST), alone(A_LIST), pass(A_RING), alone(A_RING)],
                |[list, list_alone, ring, ring_alone]| {
                    let (list, ring) = (1e3 / list, 1e3 / ring);
                    format!(
                        "Two threads instead of one: the list takes {list:.0} ns instead of {list_alone:.1} for a number, the ring {ring:.0} instead of {ring_alone:.1}"
                    )
                },
            ),
        misses("… with 6.6 times fewer cache misses", [A_LIST, A_RING], |row| {
            At("ring/alone", row, "cache misses")
        })
        .published(6.6, "6.6× (18.5 and 2.8 million)")
        .ours(At("ring/alone", A_LIST, "cache misses") / At("ring/alone", "forebay", "cache misses")),
        claim("The list and its lock take 70.8 % of the first driver's time")
            .published(70.8, "70.8 % (42.3 enqueue and dequeue, 28.5 contention; 18.7 processing, 10.5 other)")
            .unit(" %", Bound::AtLeast(55.0, 30.0))
            .here(computed([all, no_copy, no_lock, bare], |[all, no_copy, no_lock, bare]| {
                100.0 * (no_copy - no_lock + bare) / all
            }))
            .because(
                [all, no_malloc, no_copy, no_lock, bare],
                |[all, no_malloc, no_copy, no_lock, bare]| {
                    let share = |part: f64| 100.0 * part / all;
                    format!(
                        "One thread, each part left out, of {all:.1} ns: malloc and free {:.0} %, copy {:.0} %, lock {:.0} %, \
                         processing {:.0} %, list {:.0} %",
                        share(all - no_malloc),
                        share(no_malloc - no_copy),
                        share(no_copy - no_lock),
                        share(no_lock - bare),
                        share(bare)
                    )
                },
            ),
        claim("Contention for the lock takes 28.5 %, and none with a ring")
            .published(28.5, "28.5 %")
            .unit(" %", Bound::AtLeast(20.0, 5.0))
            .here(computed([pass(A_LIST), alone(A_LIST)], |[pass, alone]| {
                100.0 * (1.0 - alone / (1e3 / pass))
            }))
            .ours(computed([pass("forebay"), alone("forebay")], |[pass, alone]| {
                100.0 * (1.0 - alone / (1e3 / pass)).max(0.0)
            }))
            .because([pass(A_LIST), alone(A_LIST)], |[pass, alone]| {
                let two = 1e3 / pass;
                format!(
                    "A number through the list takes {two:.1} ns with two threads, {alone:.1} with one"
                )
            }),
        claim("A pool is 40 times as fast as malloc")
            .published(40.0, "40× (200 and 5 cycles)")
            .here(pool(MALLOC, "ns") / pool(FREE, "ns"))
            .ours(pool(MALLOC, "ns") / pool(OURS, "ns"))
            .because(
                [MALLOC, FREE, OURS].map(|row| pool(row, "cycles")),
                |[malloc, text, ours]| {
                    format!(
                        "malloc and free take {malloc:.0} cycles where the text has 200; the text's ring of free buffers {text:.1}, ours {ours:.1}"
                    )
                },
            ),
        claim("A buffer from the text's pool takes 5 cycles")
            .published(5.0, "5 cycles")
            .unit(" cycles", Bound::AtMost(6.0, 12.0))
            .here(pool(FREE, "cycles"))
            .ours(pool(OURS, "cycles"))
            .because([pool(FREE, "ns"), pool(OURS, "ns")], |[text, ours]| {
                format!(
                    "Not touched, the text's pool takes {text:.2} ns and ours, which also checks and counts, {ours:.2}"
                )
            }),
        misses("… with 12 times fewer cache misses", [MALLOC, FREE], |row| {
            pool(row, "cache misses")
        })
        .published(12.0, "12× (12 and 1 million)")
        .ours(pool(MALLOC, "cache misses") / pool(OURS, "cache misses")),
        claim("32 packets at a time are 1.6 times as fast as one: no card, no interrupts")
            .published(1.6, "1.6× (850 and 520 cycles)")
            .here(batch(ONE, "ns") / batch(MANY, "ns"))
            .ours(batch(OUR_ONE, "ns") / batch(OUR_MANY, "ns"))
            .because(
                [ONE, MANY, OUR_ONE, OUR_MANY].map(|row| batch(row, "cycles")),
                |[one, many, our_one, our_many]| {
                    format!(
                        "Drained by one thread: {one:.0} and {many:.0} cycles a packet; ours {our_one:.0} and {our_many:.0}"
                    )
                },
            ),
        claim("… in the driver, with an interrupt a packet")
            .published(1.6, "1.6× (850 and 520 cycles)")
            .here(work(POOLED) / work(BATCHES))
            .because([work(POOLED), work(BATCHES)], |[one, many]| {
                format!("Interrupts aside, {one:.0} and {many:.0} cycles a packet")
            }),
        misses("… with 1.6 times fewer cache misses", [ONE, MANY], |row| {
            batch(row, "cache misses")
        })
        .published(1.6, "1.6× (45 and 28 million)")
        .ours(batch(OUR_ONE, "cache misses") / batch(OUR_MANY, "cache misses")),
        claim("The next packet of a batch can be prefetched")
            .published(1.1, "named, not measured")
            .here(batch(OUR_MANY, "ns") / batch(FETCHED, "ns"))
            .ours(batch(OUR_MANY, "ns") / batch(FETCHED, "ns"))
            .because([batch(OUR_MANY, "ns"), batch(FETCHED, "ns")], |[without, with]| {
                let helps = match without > 1.05 * with {
                    true => "it helps",
                    false => "it does not help, and forebay does not do it",
                };
                format!("{without:.2} ns a packet without and {with:.2} with: {helps}")
            }),
        claim("Interrupts at the line rate take more than a whole processor")
            .published(124.0, "124 % (1000 cycles each at 1.2 GHz)")
            .unit(" %", Bound::AtLeast(100.0, 60.0))
            .here(computed(
                [cycles(LIST), work(LIST), busy(LIST), rate(LIST)],
                |[cycles, work, busy, rate]| (cycles - work) / cycles * busy * 1.488 / rate,
            ))
            .because([busy(LIST), rate(LIST)], |[busy, rate]| {
                format!(
                    "Modelled: each interrupt spins for the text's 1000 cycles at 1.2 GHz. The driver takes {busy:.0} % of a processor at \
                     {rate:.2} million packets a second"
                )
            }),
        interrupts(claim("Polling instead of interrupts: throughput"))
            .published(1.48, "1.48× (690 and 1020 Mbit/s)")
            .here(rate(POLLED) / rate(BATCHES))
            .ours(rate(LAST) / rate(BATCHES)),
        claim("A header is added by moving a pointer 37.5 times as fast as by copying")
            .published(37.5, "37.5× (450 and 12 cycles)")
            .here(header(MOVED, "ns") / header(WRITTEN, "ns"))
            .ours(header(MOVED, "ns") / header("forebay, push and pull", "ns"))
            .because(
                [
                    header(MOVED, "cycles"),
                    header(WRITTEN, "cycles"),
                    At("header/add and remove 14 bytes/64", MOVED, "cycles"),
                ],
                |[moved, pointer, few]| {
                    format!(
                        "4000 bytes moved take {moved:.0} cycles, the pointer {pointer:.0}; 64 bytes moved take {few:.0}"
                    )
                },
            ),
    ]
}
