//! The claims of the text on the circular buffer.

use super::{super::results::At, Claim, Figure, because, ratio};

pub fn all() -> Vec<Claim> {
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
