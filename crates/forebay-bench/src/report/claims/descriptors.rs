//! The claims of the text on packet descriptors.

use super::{super::results::At, Bound, Claim, Figure, because, ratio};

pub fn all() -> Vec<Claim> {
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
