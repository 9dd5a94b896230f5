//! The layouts against models of their own: numbers put together digit by digit, and the text's plain structure.

use super::*;
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

/// Values of any kind, most of which some layout refuses.
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

/// The flags as the text has them, each one bit.
fn flags(v: &Values) -> [(u64, u32); 3] {
    [v.valid, v.flag2, v.flag3].map(|flag| (flag.into(), 1))
}

/// The text's declarations, put down by hand; padding is zero bits of their own.
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

/// What must come of a value in the layout `L`, from the text's words alone.
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
        Err(unfit) => {
            assert!(!should_fit(L::NAME, values), "{unfit}");
            assert_eq!(unfit.target, L::NAME);
        }
        Ok(layout) => {
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
    let told = layout.values();
    assert_eq!(
        (
            layout.size(),
            layout.port(),
            layout.time_ns(),
            layout.is_valid()
        ),
        (told.size, told.port, told.time_ns, told.valid)
    );
    if L::LIMITS.port_bits < 8 {
        assert!(layout.set_port(8).is_err());
        assert_eq!(layout.values(), told);
    }
}

/// Through `A` into `B` and into ours, and back.
fn converts<A: Layout, B: Layout>(values: &Values, reference: u64) {
    let a = A::pack(values).unwrap();
    let b: B = convert(&a, reference).unwrap();
    let back: A = convert(&b, reference).unwrap();
    assert_eq!(back.values(), a.values());
    let b_there: B = convert(&back, reference).unwrap();
    assert_eq!(b_there.values(), b.values());
}

/// Slots of one size from an address on.
#[derive(Clone, Copy, Debug)]
struct Slots {
    base: u64,
    slot_bytes: u32,
    slots: u32,
    pool: u8,
}

impl Slots {
    fn payloads<L: Layout>(&self) -> Payloads<L> {
        Payloads::new(self.base, self.slot_bytes, self.slots, self.pool).unwrap()
    }
}

/// 16 slots of at least 16 bytes that every layout can address.
fn slots() -> impl Strategy<Value = Slots> {
    (1_u64..1 << 30, 2_u32..1000, any::<u8>()).prop_map(|(pages, eighths, pool)| Slots {
        base: pages * 4096,
        slot_bytes: eighths * 8,
        slots: 16,
        pool,
    })
}

/// A descriptor and its headroom, of which all numbers fit those slots often, and often do not.
fn placed(slots: Slots) -> impl Strategy<Value = (Facts, u32)> {
    let bytes = slots.slot_bytes;
    let pool = prop_oneof![6 => Just(slots.pool), 1 => any::<u8>()];
    let slot = prop_oneof![6 => 0_u32..16, 1 => 0..Desc::MAX_SLOTS];
    let headroom = prop_oneof![6 => (0..bytes / 8).prop_map(|n| n * 8), 2 => 0..bytes + 2];
    let len = prop_oneof![3 => 0..=bytes, 1 => 0..=Desc::MAX_LEN];
    let port = prop_oneof![6 => 0_u8..8, 1 => any::<u8>()];
    let flags =
        prop_oneof![4 => 0_u8..8, 1 => (0..8).prop_map(|bit| 1_u8 << bit), 1 => any::<u8>()];
    let told = (0_u64..1 << 48, pool, port, flags, any::<u16>());
    (told, slot, len, headroom).prop_map(
        |((time_ns, pool, port, flags, hash), slot, len, headroom)| {
            let facts = Facts {
                time_ns,
                len,
                slot,
                pool,
                port,
                flags: Flags(flags),
                hash,
            };
            (facts, headroom)
        },
    )
}

/// What a layout must say of such a packet; none if it cannot be said.
fn in_other_words(slots: &Slots, facts: &Facts, headroom: u32) -> Option<Values> {
    let end = u64::from(headroom) + u64::from(facts.len);
    let said = facts.pool == slots.pool
        && facts.slot < slots.slots
        && facts.flags.0 < 8
        && headroom < slots.slot_bytes
        && end <= slots.slot_bytes.into();
    said.then(|| Values {
        port: facts.port,
        time_ns: facts.time_ns,
        size: facts.len,
        payload: slots.base + u64::from(facts.slot * slots.slot_bytes) + u64::from(headroom),
        valid: facts.flags.0 & 1 != 0,
        flag2: facts.flags.0 & 2 != 0,
        flag3: facts.flags.0 & 4 != 0,
        hash: facts.hash.into(),
    })
}

/// Every bit of ours arrives and comes back, or the packet is refused.
fn holds_ours_or_refuses<L: Layout + std::fmt::Debug>(slots: &Slots, facts: &Facts, headroom: u32) {
    let payloads = slots.payloads::<L>();
    let desc = Desc::new(facts).unwrap();
    let expected = in_other_words(slots, facts, headroom).filter(|v| should_fit(L::NAME, v));
    match (payloads.pack(&desc, headroom, facts.time_ns), expected) {
        (Ok(layout), Some(values)) => {
            let model = L::pack(&values).unwrap();
            assert_eq!(stored_numbers(&layout), stored_numbers(&model));
            assert_eq!(payloads.unpack(&layout), Ok((desc, headroom)));
        }
        (Err(_), None) => {}
        (told, expected) => panic!("{told:?}, expected {expected:?}"),
    }
}

/// Every bit of theirs arrives (of the hash, what it folds to) and comes back, or the packet is refused.
fn gives_ours_or_refuses<L: Layout>(slots: &Slots, values: &Values) {
    let payloads = slots.payloads::<L>();
    let offset = values.payload.wrapping_sub(slots.base);
    let inside = offset < u64::from(slots.slots * slots.slot_bytes);
    let headroom = offset % u64::from(slots.slot_bytes);
    let fits = inside && headroom + u64::from(values.size) <= slots.slot_bytes.into();
    match payloads.unpack(&L::pack(values).unwrap()) {
        Ok((desc, told)) => {
            assert!(fits);
            assert_eq!(u64::from(told), headroom);
            let hash = Desc::fold_hash(values.hash);
            let expected = Facts {
                time_ns: values.time_ns,
                len: values.size,
                slot: (offset / u64::from(slots.slot_bytes)) as u32,
                pool: slots.pool,
                port: values.port,
                flags: Flags(
                    flags(values)
                        .iter()
                        .rev()
                        .fold(0, |all, flag| all * 2 + flag.0 as u8),
                ),
                hash,
            };
            assert_eq!(desc.facts(), expected);
            let back = payloads.pack(&desc, told, values.time_ns).unwrap();
            assert_eq!(
                back.values(),
                Values {
                    hash: hash.into(),
                    ..*values
                }
            );
        }
        Err(_) => assert!(!fits),
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

macro_rules! from_each_layout {
    ($to:ty, $($argument:expr),*) => {{
        converts::<Plain, $to>($($argument),*);
        converts::<Reordered, $to>($($argument),*);
        converts::<Packed, $to>($($argument),*);
        converts::<Assuming, $to>($($argument),*);
        converts::<Tagged, $to>($($argument),*);
        converts::<Stamped, $to>($($argument),*);
    }};
}

proptest! {
    #[test]
    fn every_bit_lies_where_the_text_declares_it(values in fitting()) {
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
    fn every_layout_converts_to_every_other_and_back(values in fitting(), ahead in 0_u64..1 << 46) {
        let reference = values.time_ns + ahead;
        each_layout_pair(&values, reference);
    }

    #[test]
    fn every_layout_holds_ours_whole_or_refuses_it(
        (slots, (facts, headroom)) in slots().prop_flat_map(|slots| (Just(slots), placed(slots))),
    ) {
        each_layout!(holds_ours_or_refuses, &slots, &facts, headroom);
    }

    #[test]
    fn every_layout_becomes_ours_whole_or_is_refused(
        (slots, at) in slots().prop_flat_map(|slots| {
            let eighths = slots.slot_bytes / 8;
            (Just(slots), -2_i64..i64::from(16 * eighths) + 2)
        }),
        values in fitting(),
    ) {
        let payload = slots.base.wrapping_add_signed(at * 8);
        let size = values.size % (slots.slot_bytes * 2).min(8192);
        let values = Values { payload, size, ..values };
        each_layout!(gives_ours_or_refuses, &slots, &values);
    }

    #[test]
    fn the_loops_agree_with_plain_numbers(all in prop::collection::vec(fitting(), 0..60)) {
        each_layout!(loops_agree, &all);
    }
}

fn each_layout_pair(values: &Values, reference: u64) {
    from_each_layout!(Plain, values, reference);
    from_each_layout!(Reordered, values, reference);
    from_each_layout!(Packed, values, reference);
    from_each_layout!(Assuming, values, reference);
    from_each_layout!(Tagged, values, reference);
    from_each_layout!(Stamped, values, reference);
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
        let told = (
            ours[i].time_ns(),
            ours[i].port(),
            Fields::is_valid(&ours[i]),
        );
        assert_eq!(told, (expected.time_ns, expected.port, expected.valid));
    }
}

#[test]
fn what_a_layout_assumes_of_memory_is_checked_when_the_memory_is_made_known() {
    fn told<L: Layout>(base: u64, slot_bytes: u32) -> Option<String> {
        Payloads::<L>::new(base, slot_bytes, 16, 0)
            .err()
            .map(|error| error.to_string())
    }
    // The last byte is at 2⁴⁷ − 1, and then one slot further.
    let end = 1 << 47;
    assert_eq!(told::<Stamped>(end - 16 * 2048, 2048), None);
    let high = told::<Stamped>(end - 15 * 2048, 2048).unwrap();
    assert!(
        high.contains("address") && high.contains("another layout"),
        "{high}"
    );
    assert_eq!(told::<Tagged>(1 << 56, 2048), None);
    for odd in [
        told::<Tagged>(4097, 2048),
        told::<Tagged>(4096, 2047),
        told::<Stamped>(4100, 8),
    ] {
        assert!(odd.is_some_and(|text| text.contains("multiples of 8")));
    }
    assert_eq!(told::<Packed>(4097, 2047), None);
    assert!(told::<Plain>(u64::MAX - 100, 2048).is_some_and(|text| text.contains("64 bits")));
    assert!(told::<Plain>(4096, 0).is_some());
}

/// What has no room in a layout is never left out: the answer says what it is, and what to do.
#[cfg(not(loom))]
#[test]
fn a_packet_that_no_layout_can_describe_is_refused_in_words() {
    use crate::packet::{Pool, PoolConfig};
    let config = PoolConfig {
        slots: 8,
        slot_bytes: 256,
        headroom: 64,
        ..PoolConfig::default()
    };
    let mut pool = Pool::new(&config).unwrap();
    let other = Pool::new(&config).unwrap();
    let (payloads, others) = (pool.payloads::<Plain>(), other.payloads::<Plain>());
    let (payloads, others) = (payloads.unwrap(), others.unwrap());
    let mut packet = pool.take().unwrap();
    packet.put(20).unwrap();
    let told = |packet: &crate::packet::Packet, payloads: &Payloads<Plain>| {
        let refused = payloads.pack(&packet.described(), packet.headroom(), 0);
        crate::Error::from(refused.unwrap_err()).to_string()
    };

    packet.set_flags(Flags::VALID.with(Flags::OUTBOUND));
    let text = told(&packet, &payloads);
    assert!(
        text.contains("flags 9 does not fit Plain: at most 7") && text.contains("Clear"),
        "{text}"
    );
    packet.set_flags(Flags::VALID);
    let text = told(&packet, &others);
    assert!(
        text.contains(&format!("this memory: only {}", other.number())),
        "{text}"
    );

    packet.pull(20).unwrap();
    let desc = packet.into_desc().unwrap();
    let plain = payloads.pack(&desc, desc.headroom(), 0).unwrap();
    let mut packet = desc.into_packet();
    assert_eq!(plain.values().payload, packet.as_slice().as_ptr() as u64);

    packet.put(packet.tailroom()).unwrap();
    packet.pull(packet.len()).unwrap();
    let text = told(&packet, &payloads);
    assert!(
        text.contains("headroom 256") && text.contains("at most 255"),
        "{text}"
    );
    packet.push(1).unwrap();
    packet.append(&mut pool, &[1; 300]).unwrap();
    let text = told(&packet, &payloads);
    assert!(
        text.contains("length 301 does not fit Plain: only data in one slot"),
        "{text}"
    );
    assert!(text.contains("Copy the packet"), "{text}");
}

/// A layout of somebody else's: sizes and nothing more.
#[derive(Clone, Copy)]
struct SizeOnly(u32);

impl Fields for SizeOnly {
    fn size(&self) -> u32 {
        self.0
    }
    fn port(&self) -> u8 {
        0
    }
    fn time_ns(&self) -> u64 {
        0
    }
    fn is_valid(&self) -> bool {
        true
    }
    fn set_time(&mut self, _: u64) {}
    fn set_port(&mut self, port: u8) -> Result<(), DoesNotFit> {
        DoesNotFit::check_bits(Self::NAME, "port", port.into(), 0)
    }
    fn set_valid(&mut self, _: bool) {}
}

impl Layout for SizeOnly {
    const NAME: &'static str = "SizeOnly";
    const LIMITS: Limits = Limits {
        port_bits: 0,
        time_bits: 0,
        size_bits: 32,
        payload_bits: 0,
        payload_align: 1,
    };
    fn pack(values: &Values) -> Result<Self, DoesNotFit> {
        check::<Self>(values).map(|()| SizeOnly(values.size))
    }
    fn values(&self) -> Values {
        Values {
            size: self.0,
            ..Values::default()
        }
    }
}

#[test]
fn a_layout_without_bits_for_a_field_holds_nothing_but_0_there() {
    assert!(SizeOnly(60).set_port(0).is_ok());
    assert!(SizeOnly(60).set_port(1).is_err());
    assert!(Payloads::<SizeOnly>::new(4096, 2048, 1, 0).is_err());
}
