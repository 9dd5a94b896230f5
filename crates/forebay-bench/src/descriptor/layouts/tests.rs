//! The layouts against independent models, which put the same numbers together bit by bit.

use super::*;
use forebay::packet::Facts;
use proptest::prelude::*;

/// Values that fit every layout.
fn fitting() -> impl Strategy<Value = Values> {
    let numbers = (
        0_u8..8,
        0_u64..1 << 48,
        0_u32..8192,
        0_u64..1 << 44,
        any::<u64>(),
    );
    (numbers, any::<[bool; 3]>()).prop_map(
        |((port, time_ns, size, eighths, hash), [valid, flag2, flag3])| Values {
            port,
            time_ns,
            size,
            payload: eighths * 8,
            valid,
            flag2,
            flag3,
            hash,
        },
    )
}

/// Values of any kind. Some layout refuses most of them.
fn any_values() -> impl Strategy<Value = Values> {
    let numbers = (
        any::<u8>(),
        any::<u64>(),
        prop_oneof![
            0_u32..20_000,
            65_500_u32..65_600,
            8190_u32..8194,
            any::<u32>()
        ],
        prop_oneof![
            any::<u64>(),
            (1_u64 << 47) - 16..(1 << 47) + 16,
            0_u64..1 << 48
        ],
        any::<u64>(),
    );
    (numbers, any::<[bool; 3]>()).prop_map(
        |((port, time_ns, size, payload, hash), [valid, flag2, flag3])| Values {
            port,
            time_ns,
            size,
            payload,
            valid,
            flag2,
            flag3,
            hash,
        },
    )
}

/// One number of up to 256 bits as bytes, lowest first, from (value, bits) with the first in the lowest bits.
fn little_endian(fields: &[(u64, u32)]) -> Vec<u8> {
    let mut bits = Vec::new();
    for &(value, count) in fields {
        bits.extend((0..count).map(|i| i < 64 && value >> i & 1 == 1));
    }
    assert_eq!(bits.len() % 8, 0);
    let byte = |bits: &[bool]| {
        let bits = bits.iter().enumerate();
        bits.map(|(i, &bit)| u8::from(bit) << i).sum()
    };
    bits.chunks(8).map(byte).collect()
}

/// The flags, one bit each.
fn flags(v: &Values) -> [(u64, u32); 3] {
    [v.valid, v.flag2, v.flag3].map(|flag| (flag.into(), 1))
}

/// The declarations of *The one with shrinking structure, part II*, by hand; padding is zero bits.
fn model(name: &str, v: &Values) -> Vec<u8> {
    let [valid, flag2, flag3] = flags(v);
    let (time, size, port) = (v.time_ns, u64::from(v.size), u64::from(v.port));
    let (payload, hash) = (v.payload, v.hash);
    match name {
        "Plain" => little_endian(&[
            (port, 8),
            (0, 56),
            (time, 64),
            (size, 16),
            (0, 48),
            (payload, 64),
            valid,
            flag2,
            flag3,
            (0, 61),
            (hash, 64),
        ]),
        "Reordered" | "Packed" => {
            let fields = [
                (time, 64),
                (payload, 64),
                (hash, 64),
                (size, 16),
                (port, 8),
                valid,
                flag2,
                flag3,
                (0, 5),
            ];
            let mut bytes = little_endian(&fields);
            bytes.resize(if name == "Packed" { 28 } else { 32 }, 0);
            bytes
        }
        "Assuming" => little_endian(&[
            (time, 48),
            (size, 13),
            (port, 3),
            (payload, 64),
            (hash, 64),
            valid,
            flag2,
            flag3,
            (0, 5),
        ]),
        "Tagged" => little_endian(&[
            (time, 48),
            (size, 13),
            valid,
            flag2,
            flag3,
            (payload / 8, 61),
            (port, 3),
            (hash, 64),
        ]),
        "Stamped" => little_endian(&[
            (size, 13),
            valid,
            flag2,
            flag3,
            (payload / 8, 45),
            (port, 3),
            (hash, 64),
            (time, 48),
        ]),
        _ => unreachable!(),
    }
}

/// The bytes in memory, gathered through `Debug`, which shows every field as it is stored and no padding.
fn stored_numbers(layout: &impl std::fmt::Debug) -> Vec<u64> {
    let text = format!("{layout:?}");
    let fields = text.split([',', '}']).filter_map(|field| {
        let (_, value) = field.split_once(": ")?;
        value.trim().parse().ok()
    });
    fields.collect()
}

/// The model's bytes cut into fields of these widths, skipping `(width, false)`.
fn model_numbers(bytes: &[u8], widths: &[(usize, bool)]) -> Vec<u64> {
    let mut at = 0;
    let mut numbers = Vec::new();
    for &(width, is_field) in widths {
        let mut word = [0; 8];
        word[..width].copy_from_slice(&bytes[at..at + width]);
        at += width;
        if is_field {
            numbers.push(u64::from_le_bytes(word));
        }
    }
    assert_eq!(at, bytes.len());
    numbers
}

fn lies_as_the_model_says<L: Layout + std::fmt::Debug>(values: &Values, widths: &[(usize, bool)]) {
    let layout = L::pack(values).unwrap();
    let model = model(L::NAME, values);
    assert_eq!(model.len(), size_of::<L>());
    assert_eq!(stored_numbers(&layout), model_numbers(&model, widths));
}

/// Whether the layout of this name must be able to hold the values, from that text's words.
fn should_fit(name: &str, v: &Values) -> bool {
    match name {
        "Plain" | "Reordered" | "Packed" => v.size < 65_536,
        "Assuming" => v.size < 8192 && v.port < 8,
        "Tagged" => v.size < 8192 && v.port < 8 && v.payload.is_multiple_of(8),
        "Stamped" => {
            v.size < 8192 && v.port < 8 && v.payload.is_multiple_of(8) && v.payload < 1 << 47
        }
        _ => unreachable!(),
    }
}

fn holds_or_refuses<L: Layout>(values: &Values) {
    match L::pack(values) {
        None => assert!(
            !should_fit(L::NAME, values),
            "{} refuses {values:?}",
            L::NAME
        ),
        Some(layout) => {
            assert!(should_fit(L::NAME, values));
            let time_ns = match L::LIMITS.time_bits {
                48 => values.time_ns % (1 << 48),
                _ => values.time_ns,
            };
            assert_eq!(layout.values(), Values { time_ns, ..*values });
        }
    }
}

/// Setting one field changes that field only.
fn sets_one_field<L: Layout>(first: &Values, second: &Values) {
    let mut layout = L::pack(first).unwrap();
    layout.set_time(second.time_ns);
    layout.set_port(second.port).unwrap();
    layout.set_valid(second.valid);
    let expected = Values {
        time_ns: second.time_ns,
        port: second.port,
        valid: second.valid,
        ..*first
    };
    assert_eq!(layout.values(), expected);
    let values = layout.values();
    assert_eq!(
        (
            layout.size(),
            layout.port(),
            layout.time_ns(),
            layout.is_valid()
        ),
        (values.size, values.port, values.time_ns, values.valid)
    );
    if L::LIMITS.port_bits < 8 {
        assert!(layout.set_port(8).is_none());
        assert_eq!(layout.values(), values);
    }
}

macro_rules! each_layout {
    ($function:ident, $($argument:expr),*) => {{
        $function::<Plain>($($argument),*);
        $function::<Reordered>($($argument),*);
        $function::<Packed>($($argument),*);
        $function::<Assuming>($($argument),*);
        $function::<Tagged>($($argument),*);
        $function::<Stamped>($($argument),*);
    }};
}

proptest! {
    #[test]
    fn every_bit_is_where_the_source_text_declares_it(values in fitting()) {
        let (f, p) = (true, false);
        let plain = [(1, f), (7, p), (8, f), (2, f), (6, p), (8, f), (1, f), (7, p), (8, f)];
        lies_as_the_model_says::<Plain>(&values, &plain);
        let packed = [(8, f), (8, f), (8, f), (2, f), (1, f), (1, f)];
        let reordered = [&packed[..], &[(4, p)]].concat();
        lies_as_the_model_says::<Reordered>(&values, &reordered);
        lies_as_the_model_says::<Packed>(&values, &packed);
        lies_as_the_model_says::<Assuming>(&values, &[(8, f), (8, f), (8, f), (1, f)]);
        lies_as_the_model_says::<Tagged>(&values, &[(8, f), (8, f), (8, f)]);
        lies_as_the_model_says::<Stamped>(&values, &[(8, f), (8, f), (4, f), (2, f)]);
    }

    #[test]
    fn a_layout_holds_a_value_whole_or_refuses_it(values in any_values()) {
        each_layout!(holds_or_refuses, &values);
    }

    #[test]
    fn setting_a_field_leaves_the_others(first in fitting(), second in fitting()) {
        each_layout!(sets_one_field, &first, &second);
    }

    #[test]
    fn the_loops_agree_with_plain_numbers(all in prop::collection::vec(fitting(), 0..60)) {
        each_layout!(loops_agree, &all);
    }
}

fn loops_agree<L: Layout>(all: &[Values]) {
    let mut packed: Vec<L> = all.iter().map(|v| L::pack(v).unwrap()).collect();
    let ours = |v: &Values| {
        Desc::new(&Facts {
            len: v.size,
            port: v.port,
            flags: Flags(v.valid.into()),
            ..Facts::default()
        })
    };
    let mut ours: Vec<Desc> = all.iter().map(|v| ours(v).unwrap()).collect();
    let sum: u64 = all.iter().map(|v| u64::from(v.size)).sum();
    let mut bytes = 0;
    for v in all {
        if v.valid {
            bytes += u64::from(v.size);
        }
    }
    let port3 = all.iter().filter(|v| v.port == 3).count() as u64;
    assert_eq!(
        (loops::trivial(&packed), loops::rx(&packed)),
        (sum, (bytes, port3))
    );
    assert_eq!(
        (loops::trivial(&ours), loops::rx(&ours)),
        (sum, (bytes, port3))
    );
    loops::tx(&mut packed);
    loops::tx(&mut ours);
    for (i, v) in all.iter().enumerate() {
        let expected = Values {
            time_ns: 100 * i as u64,
            port: (i % 4) as u8,
            valid: v.size > 64,
            ..*v
        };
        assert_eq!(packed[i].values(), expected);
        let fields = (
            ours[i].time_ns(),
            ours[i].port(),
            Fields::is_valid(&ours[i]),
        );
        assert_eq!(fields, (expected.time_ns, expected.port, expected.valid));
    }
}
