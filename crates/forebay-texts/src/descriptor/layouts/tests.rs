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

fn is_as_the_model_says<L: Layout>(values: &Values) {
    let layout = L::pack(values).unwrap();
    assert_eq!(layout.as_bytes(), model(L::NAME, values), "{}", L::NAME);
}

/// All fields.
fn values<L: Layout>(layout: &L) -> Values {
    let flags = layout.flags();
    Values {
        port: Fields::port(layout),
        time_ns: layout.time_ns(),
        size: Fields::size(layout),
        payload: layout.payload() << L::ALIGN_BITS,
        valid: layout.is_valid(),
        flag2: flags & 2 != 0,
        flag3: flags & 4 != 0,
        hash: layout.hash(),
    }
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

fn holds_or_refuses<L: Layout>(wanted: &Values) {
    match L::pack(wanted) {
        None => assert!(
            !should_fit(L::NAME, wanted),
            "{} refuses {wanted:?}",
            L::NAME
        ),
        Some(layout) => {
            assert!(should_fit(L::NAME, wanted));
            let time_ns = match L::TIME {
                48 => wanted.time_ns % (1 << 48),
                _ => wanted.time_ns,
            };
            let expected = Values { time_ns, ..*wanted };
            assert_eq!(values(&layout), expected);
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
    let values = values(&layout);
    assert_eq!(values, expected);
    assert_eq!(
        (
            Fields::size(&layout),
            Fields::port(&layout),
            layout.time_ns(),
            layout.is_valid()
        ),
        (values.size, values.port, values.time_ns, values.valid)
    );
    if L::PORT < 8 {
        assert!(layout.set_port(8).is_none());
        assert_eq!(self::values(&layout), values);
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
        each_layout!(is_as_the_model_says, &values);
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
        assert_eq!(self::values(&packed[i]), expected);
        let fields = (
            ours[i].time_ns(),
            ours[i].port(),
            Fields::is_valid(&ours[i]),
        );
        assert_eq!(fields, (expected.time_ns, expected.port, expected.valid));
    }
}
