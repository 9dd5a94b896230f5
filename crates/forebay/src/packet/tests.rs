//! Packets against plain vectors of bytes, by random steps: what they hold, what room they have, what they refuse.

use super::{shared::LOADS, *};
use forebay_testing::dice::{rounds, times};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

const SLOT: usize = 128;
const HEADROOM: usize = 32;

fn small_pool(slots: u32) -> Pool {
    Pool::new(&PoolConfig {
        slots,
        slot_bytes: SLOT as u32,
        headroom: HEADROOM as u32,
        ..PoolConfig::default()
    })
    .unwrap()
}

/// Operations of a test that may run for any length of time: the number in `FOREBAY_OPERATIONS`, or this one.
pub(super) fn operations(default: u64) -> u64 {
    match std::env::var("FOREBAY_OPERATIONS") {
        Ok(number) => number.parse().expect("FOREBAY_OPERATIONS is a number"),
        Err(_) => times(default, default / 100),
    }
}

/// The expected packet: its bytes, `linear` of them in the first slot, from `headroom` on.
#[derive(Clone, Debug)]
struct Oracle {
    bytes: Vec<u8>,
    headroom: usize,
    linear: usize,
    /// Packets with the same number share their slots.
    group: usize,
    wire_len: u32,
}

impl Oracle {
    fn tailroom(&self) -> usize {
        match self.bytes.len() > self.linear {
            true => 0,
            false => SLOT - self.headroom - self.linear,
        }
    }
}

/// One step with one of the packets (by its number, modulo how many there are); the last numbers are bytes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take,
    Reserve(usize, u32),
    Push(usize, u32),
    Pull(usize, u32),
    Put(usize, u32),
    Trim(usize, u32),
    Append(usize, u32),
    Write(usize, u32),
    Share(usize),
    Unshare(usize),
    Travel(usize),
    Drop(usize),
    PutBack(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let which = || 0_usize..8;
    let n = || prop_oneof![0_u32..20, 0_u32..200];
    prop_oneof![
        3 => Just(Step::Take),
        1 => (which(), n()).prop_map(|(i, n)| Step::Reserve(i, n)),
        3 => (which(), n()).prop_map(|(i, n)| Step::Push(i, n)),
        3 => (which(), n()).prop_map(|(i, n)| Step::Pull(i, n)),
        3 => (which(), n()).prop_map(|(i, n)| Step::Put(i, n)),
        2 => (which(), 0_u32..600).prop_map(|(i, n)| Step::Trim(i, n)),
        3 => (which(), 0_u32..500).prop_map(|(i, n)| Step::Append(i, n)),
        1 => (which(), n()).prop_map(|(i, n)| Step::Write(i, n)),
        2 => which().prop_map(Step::Share),
        2 => which().prop_map(Step::Unshare),
        3 => which().prop_map(Step::Travel),
        1 => which().prop_map(Step::Drop),
        1 => which().prop_map(Step::PutBack),
    ]
}

/// The packets of a walk, each with its oracle.
struct Walk {
    pool: Pool,
    all: Vec<(Packet, Oracle)>,
    groups: usize,
    byte: u8,
}

impl Walk {
    fn new(slots: u32) -> Walk {
        Walk {
            pool: small_pool(slots),
            all: Vec::new(),
            groups: 0,
            byte: 1,
        }
    }

    /// All slots return, and none is missing.
    fn end(mut self, slots: u32) {
        self.all.clear();
        assert_eq!(self.pool.refill(), slots as usize);
        assert_eq!(self.pool.close(), None);
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        let bytes = (0..n).map(|_| {
            self.byte = self.byte.wrapping_mul(5).wrapping_add(3);
            self.byte
        });
        bytes.collect()
    }

    fn is_shared(&self, i: usize) -> bool {
        let group = self.all[i].1.group;
        self.all.iter().filter(|(_, o)| o.group == group).count() > 1
    }

    fn step(&mut self, step: Step) {
        if let Step::Take = step {
            return self.take();
        }
        if self.all.is_empty() {
            return;
        }
        let count = self.all.len();
        match step {
            Step::Take => unreachable!(),
            Step::Reserve(i, n) => self.reserve(i % count, n),
            Step::Push(i, n) => self.push(i % count, n),
            Step::Pull(i, n) => self.pull(i % count, n),
            Step::Put(i, n) => self.put(i % count, n),
            Step::Trim(i, n) => self.trim(i % count, n),
            Step::Append(i, n) => self.append(i % count, n),
            Step::Write(i, n) => self.write(i % count, n),
            Step::Share(i) => self.share(i % count),
            Step::Unshare(i) => self.unshare(i % count),
            Step::Travel(i) => self.travel(i % count),
            Step::Drop(i) => drop(self.all.swap_remove(i % count)),
            Step::PutBack(i) => {
                let (packet, _) = self.all.swap_remove(i % count);
                self.pool.put_back(packet).unwrap();
            }
        }
    }

    fn take(&mut self) {
        if let Some(mut packet) = self.pool.take() {
            self.groups += 1;
            packet.set_wire_len(self.groups as u32);
            let oracle = Oracle {
                bytes: Vec::new(),
                headroom: HEADROOM,
                linear: 0,
                group: self.groups,
                wire_len: self.groups as u32,
            };
            self.all.push((packet, oracle));
        }
    }

    fn reserve(&mut self, i: usize, n: u32) {
        let shared = self.is_shared(i);
        let (packet, oracle) = &mut self.all[i];
        let has = oracle.tailroom();
        let expected = match n as usize {
            _ if !oracle.bytes.is_empty() => Err(Refused::NotEmpty),
            _ if shared => Err(Refused::Shared),
            n if n > has => Err(Refused::NoRoom { has: has as u32 }),
            n => {
                oracle.headroom += n;
                Ok(())
            }
        };
        assert_eq!(packet.reserve(n), expected);
    }

    fn push(&mut self, i: usize, n: u32) {
        let shared = self.is_shared(i);
        let bytes = self.bytes(n as usize);
        let (packet, oracle) = &mut self.all[i];
        match packet.push(n) {
            Ok(room) => {
                assert!(!shared && n as usize <= oracle.headroom);
                room.copy_from_slice(&bytes);
                oracle.bytes.splice(0..0, bytes);
                oracle.headroom -= n as usize;
                oracle.linear += n as usize;
            }
            Err(Refused::NoRoom { has }) => {
                assert!(n > has && has as usize == oracle.headroom);
            }
            Err(refused) => assert_eq!((refused, shared), (Refused::Shared, true)),
        }
    }

    fn pull(&mut self, i: usize, n: u32) {
        let (packet, oracle) = &mut self.all[i];
        match packet.pull(n) {
            Ok(bytes) => {
                let n = n as usize;
                assert!(oracle.bytes.drain(..n).eq(bytes.iter().copied()));
                oracle.headroom += n;
                oracle.linear -= n;
            }
            Err(refused) => {
                let has = oracle.linear as u32;
                assert!(n > has);
                assert_eq!(refused, Refused::TooShort { has });
            }
        }
    }

    fn put(&mut self, i: usize, n: u32) {
        let shared = self.is_shared(i);
        let bytes = self.bytes(n as usize);
        let (packet, oracle) = &mut self.all[i];
        match packet.put(n) {
            Ok(room) => {
                assert!(!shared && n as usize <= oracle.tailroom());
                room.copy_from_slice(&bytes);
                oracle.bytes.extend(bytes);
                oracle.linear += n as usize;
            }
            Err(Refused::NoRoom { has }) => {
                assert!(n > has && has as usize == oracle.tailroom());
            }
            Err(refused) => assert_eq!((refused, shared), (Refused::Shared, true)),
        }
    }

    fn trim(&mut self, i: usize, len: u32) {
        let shared = self.is_shared(i);
        let (packet, oracle) = &mut self.all[i];
        let has = oracle.bytes.len();
        let expected = match len as usize {
            len if len > has => Err(Refused::TooShort { has: has as u32 }),
            _ if shared && has > oracle.linear => Err(Refused::Shared),
            len => {
                oracle.bytes.truncate(len);
                oracle.linear = oracle.linear.min(len);
                Ok(())
            }
        };
        assert_eq!(packet.trim(len), expected);
    }

    fn append(&mut self, i: usize, n: u32) {
        let shared = self.is_shared(i);
        let bytes = self.bytes(n as usize);
        let (packet, oracle) = &mut self.all[i];
        match packet.append(&mut self.pool, &bytes) {
            Ok(()) => {
                assert!(!shared);
                oracle.linear += bytes.len().min(oracle.tailroom());
                oracle.bytes.extend(bytes);
            }
            Err(Refused::Exhausted) => {
                let needed = bytes.len().saturating_sub(oracle.tailroom()).div_ceil(SLOT);
                assert!(self.pool.refill() < needed);
            }
            Err(refused) => assert_eq!((refused, shared), (Refused::Shared, true)),
        }
    }

    fn write(&mut self, i: usize, n: u32) {
        let shared = self.is_shared(i);
        let (packet, oracle) = &mut self.all[i];
        match packet.as_mut_slice() {
            Ok(bytes) => {
                assert!(!shared);
                if let Some(at) = (n as usize).checked_rem(oracle.linear) {
                    bytes[at] ^= 0x55;
                    oracle.bytes[at] ^= 0x55;
                }
            }
            Err(refused) => assert_eq!((refused, shared), (Refused::Shared, true)),
        }
    }

    fn share(&mut self, i: usize) {
        let (packet, oracle) = &self.all[i];
        let other = (packet.share(), oracle.clone());
        self.all.push(other);
    }

    fn unshare(&mut self, i: usize) {
        let shared = self.is_shared(i);
        let (packet, oracle) = &mut self.all[i];
        match packet.unshare(&mut self.pool) {
            Ok(()) if shared => {
                self.groups += 1;
                oracle.group = self.groups;
                assert!(!packet.is_shared());
            }
            Ok(()) => {}
            Err(refused) => assert_eq!((refused, shared), (Refused::Exhausted, true)),
        }
    }

    /// Into a descriptor and out of it.
    fn travel(&mut self, i: usize) {
        let shared = self.is_shared(i);
        let (packet, oracle) = self.all.swap_remove(i);
        let described = packet.described();
        let packet = match packet.into_desc() {
            Ok(desc) => {
                assert_eq!(*desc, described);
                assert_eq!(desc.len() as usize, oracle.bytes.len());
                desc.into_packet()
            }
            Err(packet) => {
                assert!(shared, "a packet that nobody shares can travel");
                packet
            }
        };
        self.all.push((packet, oracle));
    }

    fn check(&self) {
        for (i, (packet, oracle)) in self.all.iter().enumerate() {
            assert_eq!(packet.to_vec(), oracle.bytes);
            assert_eq!(packet.as_slice(), &oracle.bytes[..oracle.linear]);
            assert_eq!(
                packet.parts().map(<[u8]>::len).sum::<usize>(),
                packet.len() as usize
            );
            assert_eq!(
                (packet.headroom() as usize, packet.tailroom() as usize),
                (oracle.headroom, oracle.tailroom())
            );
            assert_eq!(packet.is_shared(), self.is_shared(i));
            assert_eq!(packet.is_empty(), oracle.bytes.is_empty());
            assert_eq!(packet.wire_len(), oracle.wire_len);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(256)))]

    #[test]
    fn packets_agree_with_plain_vectors(
        slots in 1_u32..16,
        steps in prop::collection::vec(step(), 1..times(150, 20)),
    ) {
        let mut walk = Walk::new(slots);
        for step in steps {
            walk.step(step);
            walk.check();
        }
        walk.end(slots);
    }
}

/// The same in long walks, which find rare losses.
#[test]
fn packets_agree_with_plain_vectors_over_many_operations() {
    let mut runner = TestRunner::deterministic();
    let steps = step();
    let mut left = operations(10_000);
    let mut slots = 1;
    while left > 0 {
        let mut walk = Walk::new(slots);
        for _ in 0..left.min(1000) {
            let step = match walk.all.len() {
                // After each step all packets that share are compared.
                12.. => Step::Drop(walk.byte.into()),
                _ => steps.new_tree(&mut runner).unwrap().current(),
            };
            walk.step(step);
            walk.check();
            left -= 1;
        }
        walk.end(slots);
        slots = slots % 24 + 5; // 1 to 28, alternating between small and large
    }
}

#[test]
fn a_packet_keeps_its_fields_on_its_way() {
    let mut pool = small_pool(4);
    let mut packet = pool.take().unwrap();
    let time_ns = 1_700_000_000_123_456_789;
    packet.set_time(time_ns);
    packet.set_port(9);
    packet.set_hash(0xbeef);
    packet.set_flags(Flags::VALID.with(Flags::OUTBOUND).with(Flags::CHAINED));
    packet.set_wire_len(1500);
    packet.append(&mut pool, &[1; 300]).unwrap();
    let mut desc = packet.into_desc().unwrap();
    assert!(desc.flags().has(Flags::CHAINED));
    desc.set_flags(Flags::VALID.with(Flags(2))); // must not clear the chain flag
    desc.set_port(8);
    desc.set_time(time_ns + 1);
    desc.set_hash(1);
    let packet = desc.into_packet();
    assert_eq!((packet.len(), packet.wire_len()), (300, 1500));
    assert_eq!(packet.time_near(time_ns + 3_600_000_000_000), time_ns + 1);
    assert_eq!((packet.port(), packet.hash()), (8, 1));
    assert_eq!(packet.flags(), Flags::VALID.with(Flags(2)));
    let text = format!("{packet:?}");
    assert!(text.contains("wire_len: 1500"), "{text}");
}

#[test]
fn a_packet_is_never_longer_than_a_descriptor_can_say() {
    let mut pool = Pool::new(&PoolConfig {
        slots: 20,
        slot_bytes: 1 << 16,
        headroom: 64,
        ..PoolConfig::default()
    })
    .unwrap();
    let mut packet = pool.take().unwrap();
    let most = vec![7; Desc::MAX_LEN as usize];
    packet.append(&mut pool, &most).unwrap();
    assert_eq!(packet.len(), Desc::MAX_LEN);
    assert_eq!(packet.append(&mut pool, &[0]), Err(Refused::TooLong));
    assert_eq!(packet.push(1), Err(Refused::TooLong));
    let packet = packet.into_desc().unwrap().into_packet();
    assert!(packet.to_vec() == most);
}

#[test]
fn slots_of_another_pool_are_refused() {
    let (mut one, mut other) = (small_pool(4), small_pool(4));
    let mut packet = one.take().unwrap();
    assert_eq!(
        packet.append(&mut other, &[0; 200]),
        Err(Refused::ForeignPool)
    );
    assert!(packet.is_empty());
    // The copy may lie in another pool, as a whole.
    packet.append(&mut one, &[5; 200]).unwrap();
    let mut copy = packet.share();
    copy.unshare(&mut other).unwrap();
    assert_eq!(copy.described().pool(), other.number());
    assert_eq!(copy.to_vec(), [5; 200]);
    assert_eq!(
        (one.refill(), other.refill()),
        (2, 2),
        "each has one slot and one that follows"
    );
}

/// Counted in loads of the facts beside the slots: with a walk for each piece there were 150 for each slot.
#[test]
#[cfg_attr(miri, ignore = "hundreds of slots")]
fn a_copy_of_a_long_chain_loads_each_slot_a_few_times() {
    let mut pool = small_pool(700);
    let mut packet = pool.take().unwrap();
    let bytes = vec![7; SLOT * 300];
    packet.append(&mut pool, &bytes).unwrap();
    let mut copy = packet.share();
    let before = LOADS.get();
    copy.unshare(&mut pool).unwrap();
    let looks = LOADS.get() - before;
    assert!(looks <= 6 * 300, "{looks} looks for 300 slots");
    assert!(copy.to_vec() == bytes && !packet.is_shared());
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of slots")]
fn a_long_chain_made_piece_by_piece_loads_each_slot_a_few_times() {
    let mut pool = small_pool(300);
    let mut packet = pool.take().unwrap();
    let before = LOADS.get();
    for piece in 0..290 {
        packet.append(&mut pool, &[piece as u8; SLOT]).unwrap();
    }
    let looks = LOADS.get() - before;
    assert!(looks <= 6 * 290, "{looks} looks for 290 pieces");
    let pieces = (0..290).flat_map(|piece| [piece as u8; SLOT]);
    assert!(packet.to_vec().into_iter().eq(pieces));
}
