//! The claims of the text on the circular buffer.

use super::claim::{Claim, claim};
use crate::report::results::At;

pub fn all() -> Vec<Claim> {
    let micro = |row| At("mirror/micro", row, "ns");
    let bytes = micro("the source text's, byte by byte");
    let two = micro("the source text's slow one: two copies");
    let one = micro("the source text's fast one: one copy");
    let ours = micro("forebay's mirror, one copy");
    let queue = |row| At("mirror/64 B", row, "ns");
    let queue_two = queue("the source text's, two copies, %");
    let queue_mask = queue("two copies, mask and branch");
    let queue_one = queue("the source text's mirror");
    let queue_ours = queue("forebay, a LocalStream, copied");
    let page = |row, column| At("mirror/pages", row, column);
    let first = page("first round, pages of 4 KiB", "ns");
    let first_huge = page("first round, huge pages", "ns");
    let later = page("later rounds, pages of 4 KiB", "ns");
    let faults = page("first round, pages of 4 KiB", "page faults");
    let faults_huge = page("first round, huge pages", "page faults");
    let scattered = page("scattered, pages of 4 KiB", "ns");
    let scattered_huge = page("scattered, huge pages", "ns");
    vec![
        claim("A write of 32 bytes by one copy is about three times as fast as by two")
            .published(3.03, "3.03× (12.196 and 4.024 ns)")
            .here(two / one)
            .ours(two / ours)
            .because([queue_two, queue_mask, queue_one], |[two, mask, one]| {
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
            .here(bytes / one)
            .ours(bytes / ours)
            .because([bytes, two], |[bytes, two]| {
                let each = (bytes - two) / 32.0;
                format!(
                    "The loop takes {each:.2} ns a byte more than two block copies, which divide once"
                )
            }),
        claim("The whole queue gains, too: put and get of 64 bytes")
            .published(3.03, "not measured; taken as the write's 3×")
            .here(queue_two / queue_one)
            .ours(queue_two / queue_ours)
            .because([queue_mask, queue_one], |[mask, one]| {
                let times = mask / one;
                format!(
                    "Beside two copies with a mask and a branch the text's mirror is {times:.2} times as fast"
                )
            }),
        claim("Page faults could change the result")
            .published(1.1, "named, not measured")
            .here(first / later)
            .ours(first_huge / later)
            .because([faults, first, later, faults_huge], |[faults, first, later, huge]| {
                let cost = (first - later) / faults;
                format!(
                    "By the kernel's counter the first round has {faults:.2} page faults a write of 4096 bytes, later rounds none; \
                     a fault costs {cost:.0} ns. With huge pages there are {huge:.3} a write"
                )
            }),
        claim("TLB misses could change the result")
            .published(1.1, "named, not measured")
            .here(scattered / scattered_huge)
            .ours(scattered / scattered_huge)
            .because(
                [scattered, scattered_huge, faults, faults_huge],
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
