//! The claims of the text on the circular buffer.

use super::{super::results::At, Claim, claim};

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
    const QUEUE_OURS: At = queue("forebay, a LocalStream, copied");
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
        claim("A write of 32 bytes by one copy is about three times as fast as by two")
            .published(3.03, "3.03× (12.196 and 4.024 ns)")
            .here(TWO / ONE)
            .ours(TWO / OURS)
            .because([QUEUE_TWO, QUEUE_MASK, QUEUE_ONE], |[two, mask, one]| {
                let (saved, left) = (two - mask, mask - one);
                let most = match saved > left {
                    true => "most of the gain needs no mirror",
                    false => "most of the gain is the mirror's",
                };
                format!(
                    "In the whole queue a mask and a branch instead of the division and the second copy save {saved:.2} ns of \
                     {two:.2}; the mirror saves {left:.2} ns more: {most}"
                )
            }),
        claim("… and much faster than byte by byte with a division each")
            .published(26.1, "26.1× (104.943 and 4.024 ns)")
            .here(BYTES / ONE)
            .ours(BYTES / OURS)
            .because([BYTES, TWO], |[bytes, two]| {
                let each = (bytes - two) / 32.0;
                format!(
                    "The loop takes {each:.2} ns a byte more than two block copies, which divide once"
                )
            }),
        claim("The whole queue gains, too: put and get of 64 bytes")
            .published(3.03, "not measured; taken as the write's 3×")
            .here(QUEUE_TWO / QUEUE_ONE)
            .ours(QUEUE_TWO / QUEUE_OURS)
            .because([QUEUE_MASK, QUEUE_ONE], |[mask, one]| {
                let times = mask / one;
                format!(
                    "Beside two copies with a mask and a branch the text's mirror is {times:.2} times as fast"
                )
            }),
        claim("Page faults could change the result")
            .published(1.1, "named, not measured")
            .here(FIRST / LATER)
            .ours(FIRST_HUGE / LATER)
            .because([FAULTS, FIRST, LATER, FAULTS_HUGE], |[faults, first, later, huge]| {
                let cost = (first - later) / faults;
                format!(
                    "By the kernel's counter the first round has {faults:.2} page faults a write of 4096 bytes, later rounds none; \
                     a fault costs {cost:.0} ns. With huge pages there are {huge:.3} a write"
                )
            }),
        claim("TLB misses could change the result")
            .published(1.1, "named, not measured")
            .here(SCATTERED / SCATTERED_HUGE)
            .ours(SCATTERED / SCATTERED_HUGE)
            .because(
                [SCATTERED, SCATTERED_HUGE, FAULTS, FAULTS_HUGE],
                |[small, huge, faults, huge_faults]| match huge_faults < faults / 2.0 {
                    true => format!(
                        "Scattered writes differ only in the pages' size: 4 KiB instead of huge ones cost {:.1} ns each",
                        small - huge
                    ),
                    false => "The kernel gave no huge pages: the two differ in nothing".into(),
                },
            ),
    ]
}
