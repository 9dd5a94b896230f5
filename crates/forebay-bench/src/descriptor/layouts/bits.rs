//! The three layouts of bit-fields: under assumptions, in a tagged pointer, and in a stamped one.
//!
//! Fields share words, the first one in the lowest bits, as C compilers for x86-64 and aarch64 place them. A tagged pointer
//! stores a field (the *tag*) in its three low bits, which alignment leaves zero. A stamped pointer also stores fields (the
//! *stamp*) in the high bits, which are zero in canonical addresses of user space.
//!
//! ```text
//!            63          61 60                                    48 47                                 0
//!  Assuming │ port         │ size                                   │ time                             │
//!           │ payload                                                                                  │
//!           │ hash                                                  │ and a byte of flags
//!
//!  Tagged   │ flags        │ size                                   │ time                             │
//!           │ port         │ payload >> 3                                                              │
//!           │ hash                                                                                     │
//!            63          61 60                                              16 15    13 12             0
//!  Stamped  │ port         │ payload >> 3                                     │ flags  │ size          │
//!           │ hash                                                            │ and six bytes of time
//! ```

use super::{FLAG_BITS, Fields, Layout, Limits, Values, check, check_bits};

const TIME_BITS: u32 = 48;
const SIZE_BITS: u32 = 13;
const PORT_BITS: u32 = 3;
/// Low bits of an address that are zero where it is aligned to 8.
const SPARE_LOW_BITS: u32 = 3;
/// Addresses of user space: the lower half of what four levels of page tables map.
const CANONICAL_BITS: u32 = 47;

const VALID: u64 = 1;

/// Bits of a word.
#[derive(Clone, Copy)]
struct Field {
    at: u32,
    bits: u32,
}

impl Field {
    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits) << self.at
    }

    #[inline(always)]
    const fn get(self, word: u64) -> u64 {
        (word & self.mask()) >> self.at
    }

    /// The word with `value` in this field; only the lower bits of a longer value.
    #[inline(always)]
    const fn set(self, word: u64, value: u64) -> u64 {
        word & !self.mask() | value << self.at & self.mask()
    }
}

const TIME: Field = Field {
    at: 0,
    bits: TIME_BITS,
};
const SIZE: Field = Field {
    at: 48,
    bits: SIZE_BITS,
};
/// The port in [`Assuming`]'s first word, and in the words that hold a pointer.
const PORT: Field = Field {
    at: 61,
    bits: PORT_BITS,
};
/// The flags in [`Tagged`]'s first word.
const FLAGS: Field = Field {
    at: 61,
    bits: FLAG_BITS,
};
/// The pointer in [`Tagged`], less its spare low bits.
const TAGGED: Field = Field {
    at: 0,
    bits: 64 - SPARE_LOW_BITS,
};
/// Three fields of [`Stamped`]'s first word.
const STAMPED_SIZE: Field = Field {
    at: 0,
    bits: SIZE_BITS,
};
const STAMPED_FLAGS: Field = Field {
    at: 13,
    bits: FLAG_BITS,
};
const STAMPED: Field = Field {
    at: 16,
    bits: 48 - SPARE_LOW_BITS,
};

/// 25 bytes: 8 ports, sizes below 8192 (no jumbo frames), time modulo 78 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed)]
pub struct Assuming {
    word: u64,
    payload: u64,
    hash: u64,
    flags: u8,
}

/// 24 bytes: as [`Assuming`], and payloads aligned to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tagged {
    word: u64,
    tagged: u64,
    hash: u64,
}

/// 22 bytes: as [`Tagged`], and addresses below 2⁴⁷.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed)]
pub struct Stamped {
    stamped: u64,
    hash: u64,
    time_low: u32,
    time_high: u16,
}

const _: () = {
    assert!(size_of::<Assuming>() == 25 && align_of::<Assuming>() == 1);
    assert!(size_of::<Tagged>() == 24 && align_of::<Tagged>() == 8);
    assert!(size_of::<Stamped>() == 22 && align_of::<Stamped>() == 1);
};

fn flags(values: &Values) -> u64 {
    u64::from(values.valid) | u64::from(values.flag2) << 1 | u64::from(values.flag3) << 2
}

impl Fields for Assuming {
    #[inline(always)]
    fn size(&self) -> u32 {
        SIZE.get(self.word) as u32
    }
    #[inline(always)]
    fn port(&self) -> u8 {
        PORT.get(self.word) as u8
    }
    #[inline(always)]
    fn time_ns(&self) -> u64 {
        TIME.get(self.word)
    }
    #[inline(always)]
    fn is_valid(&self) -> bool {
        u64::from(self.flags) & VALID != 0
    }
    #[inline(always)]
    fn set_time(&mut self, time_ns: u64) {
        self.word = TIME.set(self.word, time_ns);
    }
    #[inline(always)]
    fn set_port(&mut self, port: u8) -> Option<()> {
        check_bits(port.into(), PORT_BITS)?;
        self.word = PORT.set(self.word, port.into());
        Some(())
    }
    #[inline(always)]
    fn set_valid(&mut self, valid: bool) {
        self.flags = self.flags & !(VALID as u8) | u8::from(valid);
    }
}

impl Layout for Assuming {
    const NAME: &'static str = "Assuming";
    const LIMITS: Limits = Limits {
        port_bits: PORT_BITS,
        time_bits: TIME_BITS,
        size_bits: SIZE_BITS,
        payload_bits: 64,
        payload_align: 1,
    };

    #[inline]
    fn pack(values: &Values) -> Option<Self> {
        check::<Self>(values)?;
        let word = TIME.set(0, values.time_ns);
        let word = SIZE.set(word, values.size.into());
        Some(Assuming {
            word: PORT.set(word, values.port.into()),
            payload: values.payload,
            hash: values.hash,
            flags: flags(values) as u8,
        })
    }

    #[cfg(test)]
    fn values(&self) -> Values {
        Values {
            port: self.port(),
            time_ns: self.time_ns(),
            size: self.size(),
            payload: self.payload,
            valid: self.is_valid(),
            flag2: self.flags & 2 != 0,
            flag3: self.flags & 4 != 0,
            hash: self.hash,
        }
    }
}

impl Fields for Tagged {
    #[inline(always)]
    fn size(&self) -> u32 {
        SIZE.get(self.word) as u32
    }
    #[inline(always)]
    fn port(&self) -> u8 {
        PORT.get(self.tagged) as u8
    }
    #[inline(always)]
    fn time_ns(&self) -> u64 {
        TIME.get(self.word)
    }
    #[inline(always)]
    fn is_valid(&self) -> bool {
        FLAGS.get(self.word) & VALID != 0
    }
    #[inline(always)]
    fn set_time(&mut self, time_ns: u64) {
        self.word = TIME.set(self.word, time_ns);
    }
    #[inline(always)]
    fn set_port(&mut self, port: u8) -> Option<()> {
        check_bits(port.into(), PORT_BITS)?;
        self.tagged = PORT.set(self.tagged, port.into());
        Some(())
    }
    #[inline(always)]
    fn set_valid(&mut self, valid: bool) {
        let others = FLAGS.get(self.word) & !VALID;
        self.word = FLAGS.set(self.word, others | u64::from(valid));
    }
}

impl Layout for Tagged {
    const NAME: &'static str = "Tagged";
    const LIMITS: Limits = Limits {
        payload_align: 1 << SPARE_LOW_BITS,
        ..Assuming::LIMITS
    };

    #[inline]
    fn pack(values: &Values) -> Option<Self> {
        check::<Self>(values)?;
        let word = TIME.set(0, values.time_ns);
        let word = SIZE.set(word, values.size.into());
        let tagged = TAGGED.set(0, values.payload >> SPARE_LOW_BITS);
        Some(Tagged {
            word: FLAGS.set(word, flags(values)),
            tagged: PORT.set(tagged, values.port.into()),
            hash: values.hash,
        })
    }

    #[cfg(test)]
    fn values(&self) -> Values {
        let flags = FLAGS.get(self.word);
        Values {
            port: self.port(),
            time_ns: self.time_ns(),
            size: self.size(),
            payload: TAGGED.get(self.tagged) << SPARE_LOW_BITS,
            valid: self.is_valid(),
            flag2: flags & 2 != 0,
            flag3: flags & 4 != 0,
            hash: self.hash,
        }
    }
}

impl Fields for Stamped {
    #[inline(always)]
    fn size(&self) -> u32 {
        STAMPED_SIZE.get(self.stamped) as u32
    }
    #[inline(always)]
    fn port(&self) -> u8 {
        PORT.get(self.stamped) as u8
    }
    #[inline(always)]
    fn time_ns(&self) -> u64 {
        u64::from(self.time_high) << 32 | u64::from(self.time_low)
    }
    #[inline(always)]
    fn is_valid(&self) -> bool {
        STAMPED_FLAGS.get(self.stamped) & VALID != 0
    }
    #[inline(always)]
    fn set_time(&mut self, time_ns: u64) {
        self.time_low = time_ns as u32;
        self.time_high = (time_ns >> 32) as u16;
    }
    #[inline(always)]
    fn set_port(&mut self, port: u8) -> Option<()> {
        check_bits(port.into(), PORT_BITS)?;
        self.stamped = PORT.set(self.stamped, port.into());
        Some(())
    }
    #[inline(always)]
    fn set_valid(&mut self, valid: bool) {
        let others = STAMPED_FLAGS.get(self.stamped) & !VALID;
        self.stamped = STAMPED_FLAGS.set(self.stamped, others | u64::from(valid));
    }
}

impl Layout for Stamped {
    const NAME: &'static str = "Stamped";
    const LIMITS: Limits = Limits {
        payload_bits: CANONICAL_BITS,
        ..Tagged::LIMITS
    };

    #[inline]
    fn pack(values: &Values) -> Option<Self> {
        check::<Self>(values)?;
        let word = STAMPED_SIZE.set(0, values.size.into());
        let word = STAMPED_FLAGS.set(word, flags(values));
        let word = STAMPED.set(word, values.payload >> SPARE_LOW_BITS);
        let mut stamped = Stamped {
            stamped: PORT.set(word, values.port.into()),
            hash: values.hash,
            time_low: 0,
            time_high: 0,
        };
        stamped.set_time(values.time_ns);
        Some(stamped)
    }

    #[cfg(test)]
    fn values(&self) -> Values {
        let flags = STAMPED_FLAGS.get(self.stamped);
        Values {
            port: self.port(),
            time_ns: self.time_ns(),
            size: self.size(),
            payload: STAMPED.get(self.stamped) << SPARE_LOW_BITS,
            valid: self.is_valid(),
            flag2: flags & 2 != 0,
            flag3: flags & 4 != 0,
            hash: self.hash,
        }
    }
}
