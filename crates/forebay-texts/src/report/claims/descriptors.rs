//! The claims of the text on packet descriptors.

use super::claim::{Bound, Claim, claim, computed};
use crate::report::results::At;

pub fn all() -> Vec<Claim> {
    const TRIVIAL: &str = "descriptor/trivial";
    const RX: &str = "descriptor/read (RX)";
    const TX: &str = "descriptor/write (TX)";
    const CACHED_RX: &str = "descriptor/cached read (RX)";
    const CACHED_TX: &str = "descriptor/cached write (TX)";
    const ASSUMING: &str = "with assumptions";
    let rate = |table, row| At(table, row, "million a second");
    let bytes = |row| At(TRIVIAL, row, "bytes");
    let pointer = |row| At("descriptor/pointers", row, "ns");
    let bits = At("machine", "virtual addresses", "bits");
    let plain_pointer = pointer("an address and a number");
    let tagged = pointer("TaggedPtr");
    let stamped = pointer("StampedPtr");
    // One layout and another, in each of the three loops.
    let loops = |one, other| -> [At; 6] {
        std::array::from_fn(|at| rate([TRIVIAL, RX, TX][at / 2], [one, other][at % 2]))
    };
    let speed = |says, table, row| -> Claim {
        claim(says)
            .unit(" million/s", Bound::AtLeast(0.0, 0.0))
            .here(rate(table, row))
            .ours(rate(table, "forebay"))
            .because([rate(table, row), bytes(row)], |[rate, bytes]| {
                let bandwidth = rate * bytes / 1e3;
                format!(
                    "{rate:.0} million of {bytes:.0} bytes are {bandwidth:.1} GB/s through the loop"
                )
            })
    };
    let published = |says, table, row, published, printed| {
        let bound = Bound::AtLeast(0.8 * published, 0.4 * published);
        let claim = speed(says, table, row).published(published, printed);
        claim.unit(" million/s", bound)
    };
    let assuming = "Bit-fields under assumptions, 25 bytes: read (RX)";
    let assuming_tx = "Bit-fields under assumptions: write (TX)";
    let plain = "Plain, 48 bytes: read (RX), the first article's start";
    vec![
        claim("A descriptor shrinks from 48 bytes to 22")
            .published(2.18, "2.18× (48 and 22 bytes)")
            .here(bytes("plain") / bytes("stamped"))
            .ours(bytes("plain") / bytes("forebay"))
            .because([bytes("forebay")], |[ours]| {
                format!(
                    "Ours of {ours:.0} bytes keeps 16 bits of the hash and a slot number, where the text's keep 64 bits and an address"
                )
            }),
        published(assuming, RX, ASSUMING, 310.0, "310"),
        published(assuming_tx, TX, ASSUMING, 228.0, "228"),
        published("Tagged, 24 bytes: read (RX)", RX, "tagged", 321.0, "321"),
        published("Tagged: write (TX)", TX, "tagged", 222.0, "222"),
        published("Stamped, 22 bytes: read (RX)", RX, "stamped", 347.0, "347"),
        published("Stamped: write (TX)", TX, "stamped", 228.0, "228"),
        speed(plain, RX, "plain"),
        speed("Reordered, 32 bytes: read (RX)", RX, "reordered"),
        speed("Packed, 28 bytes: read (RX)", RX, "packed"),
        claim("Bit-fields cost writing (TX): under assumptions it is slower than packed")
            .published(1.1, "\"performance loss\"; in a chart only")
            .here(rate(TX, "packed") / rate(TX, ASSUMING))
            .ours(rate(TX, "forebay") / rate(TX, "packed"))
            .because(
                ["packed", ASSUMING, "tagged", "stamped"].map(|row| rate(CACHED_TX, row)),
                |[packed, assuming, tagged, stamped]| {
                    format!(
                        "Within the first cache, where memory costs nothing: packed {packed:.0} million/s; bit-fields {assuming:.0}, {tagged:.0} and {stamped:.0}"
                    )
                },
            ),
        claim("24 bytes are faster to read than 25, because they are aligned")
            .published(1.04, "1.04× (321 and 310 million/s)")
            .here(rate(RX, "tagged") / rate(RX, ASSUMING))
            .because(["tagged", ASSUMING].map(|row| rate(CACHED_RX, row)), |[aligned, not]| {
                let word = match aligned > 1.05 * not {
                    true => "also without memory the aligned one is faster",
                    false => "without memory alignment gains nothing",
                };
                format!("Within the first cache {aligned:.0} and {not:.0} million/s: {word}")
            }),
        claim("Over all loops packed is best of the six")
            .published(1.0, "in a chart only")
            .unit("×", Bound::AtLeast(1.0, 0.95))
            .here(computed(six_layouts(), |rates| {
                let product = |loops: &[f64]| loops.iter().product::<f64>();
                let (packed, others) = rates.split_at(3);
                let best = others.chunks_exact(3).map(product).fold(0.0, f64::max);
                (product(packed) / best).cbrt()
            }))
            .ours(computed(loops("forebay", "packed"), |v| {
                (v[0] / v[1] * v[2] / v[3] * v[4] / v[5]).cbrt()
            }))
            .because(
                [rate(TX, "packed"), rate(TX, "stamped"), rate(RX, "packed"), rate(RX, "stamped")],
                |[tx, stamped_tx, rx, stamped_rx]| {
                    format!(
                        "Beside stamped: write {tx:.0} and {stamped_tx:.0} million/s, read {rx:.0} and {stamped_rx:.0}; the figure is the geometric mean of three \
                         loops, packed over the best other"
                    )
                },
            ),
        claim("The trivial loop gains most from smaller descriptors")
            .published(1.0, "in a chart only")
            .unit("×", Bound::AtLeast(1.0, 0.95))
            .here(computed(loops("stamped", "plain"), |v| {
                v[0] / v[1] / (v[2] / v[3]).max(v[4] / v[5])
            }))
            .because(loops("stamped", "plain"), |v| {
                let (trivial, rx, tx) = (v[0] / v[1], v[2] / v[3], v[4] / v[5]);
                format!(
                    "From 48 to 22 bytes the trivial loop gains {trivial:.2}×, reading {rx:.2}× and writing {tx:.2}×"
                )
            }),
        claim("Numbers in the spare bits of a pointer cost masking wherever it is followed")
            .published(1.0, "\"some overhead\", not measured")
            .here(tagged / plain_pointer)
            .ours(stamped / plain_pointer)
            .because([plain_pointer, tagged, stamped], |[plain, tagged, stamped]| {
                format!(
                    "Followed in the cache, an address with a number beside it takes {plain:.2} ns, a tagged pointer {tagged:.2} and a stamped one \
                     {stamped:.2}"
                )
            }),
        claim("Pointers use no more than 48 bits of virtual addresses")
            .published(48.0, "48 bits (/proc/cpuinfo)")
            .unit(" bits", Bound::AtMost(48.0, 48.0))
            .here(bits)
            .because([bits], |[bits]| format!("/proc/cpuinfo names {bits:.0} bits")),
        claim("Single cores of servers are far slower than those of desktops"),
    ]
}

/// The three loops of packed, and of the other five layouts.
fn six_layouts() -> [At; 18] {
    const LAYOUTS: [&str; 6] = [
        "packed",
        "plain",
        "reordered",
        "with assumptions",
        "tagged",
        "stamped",
    ];
    const TABLES: [&str; 3] = [
        "descriptor/trivial",
        "descriptor/read (RX)",
        "descriptor/write (TX)",
    ];
    std::array::from_fn(|at| At(TABLES[at % 3], LAYOUTS[at / 3], "million a second"))
}
