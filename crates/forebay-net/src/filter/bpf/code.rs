//! The values of an instruction's `code`: the operations of classic BPF, and the offsets at which the Linux kernel keeps
//! metadata of a packet.
//!
//! Names follow tcpdump's listing. `A` is the accumulator, `X` the index register, `M[k]` a scratch cell, `P[k..]` the packet
//! in network byte order. A load beyond the packet ends the program with 0.

/// Declares codes: name, value and meaning.
macro_rules! codes {
    ($($name:ident = $value:literal: $meaning:literal)*) => {
        $(#[doc = $meaning] pub const $name: u16 = $value;)*
    };
}

codes! {
    LD_ABS = 0x20: "`A = P[k..k+4]`"
    LDH_ABS = 0x28: "`A = P[k..k+2]`"
    LDB_ABS = 0x30: "`A = P[k]`"
    LD_IND = 0x40: "`A = P[X+k..X+k+4]`; the sum does not wrap."
    LDH_IND = 0x48: "`A = P[X+k..X+k+2]`"
    LDB_IND = 0x50: "`A = P[X+k]`"
    LD_IMM = 0x00: "`A = k`"
    LD_MEM = 0x60: "`A = M[k]`"
    LD_LEN = 0x80: "`A =` the packet's length on the wire."
    LDX_IMM = 0x01: "`X = k`"
    LDX_MEM = 0x61: "`X = M[k]`"
    LDX_LEN = 0x81: "`X =` the packet's length on the wire."
    LDX_MSH = 0xB1: "`X = 4 * (P[k] & 0xf)`: the length of an IPv4 header that starts at `k`."
    ST = 0x02: "`M[k] = A`"
    STX = 0x03: "`M[k] = X`"

    ADD_K = 0x04: "`A += k`; arithmetic wraps at 32 bits."
    ADD_X = 0x0C: "`A += X`"
    SUB_K = 0x14: "`A -= k`"
    SUB_X = 0x1C: "`A -= X`"
    MUL_K = 0x24: "`A *= k`"
    MUL_X = 0x2C: "`A *= X`"
    DIV_K = 0x34: "`A /= k`, unsigned; `k` is not 0."
    DIV_X = 0x3C: "`A /= X`; the program ends with 0 if `X` is 0."
    OR_K = 0x44: "`A |= k`"
    OR_X = 0x4C: "`A |= X`"
    AND_K = 0x54: "`A &= k`"
    AND_X = 0x5C: "`A &= X`"
    LSH_K = 0x64: "`A <<= k`; `k` is below 32."
    LSH_X = 0x6C: "`A <<= X`; the result is 0 if `X` is 32 or more (the kernel takes `X` modulo 32)."
    RSH_K = 0x74: "`A >>= k`; `k` is below 32."
    RSH_X = 0x7C: "`A >>= X`; the result is 0 if `X` is 32 or more (the kernel takes `X` modulo 32)."
    NEG = 0x84: "`A = -A`"
    MOD_K = 0x94: "`A %= k`; `k` is not 0."
    MOD_X = 0x9C: "`A %= X`; the program ends with 0 if `X` is 0."
    XOR_K = 0xA4: "`A ^= k`"
    XOR_X = 0xAC: "`A ^= X`"

    JA = 0x05: "Skips `k` instructions."
    JEQ_K = 0x15: "True if `A == k`."
    JEQ_X = 0x1D: "True if `A == X`."
    JGT_K = 0x25: "True if `A > k`, unsigned."
    JGT_X = 0x2D: "True if `A > X`, unsigned."
    JGE_K = 0x35: "True if `A >= k`, unsigned."
    JGE_X = 0x3D: "True if `A >= X`, unsigned."
    JSET_K = 0x45: "True if `A & k` is not 0."
    JSET_X = 0x4D: "True if `A & X` is not 0."

    RET_K = 0x06: "Ends the program: keep `k` bytes."
    RET_A = 0x16: "Ends the program: keep `A` bytes."
    TAX = 0x07: "`X = A`"
    TXA = 0x87: "`A = X`"
}

/// Absolute loads from this offset on (`SKF_AD_OFF`, -0x1000) read the kernel's metadata of a packet, whatever the size of
/// the load. Outside the kernel there is no metadata: such a load ends the program with 0.
pub const KERNEL: u32 = -0x1000_i32 as u32;
/// The kind of destination; 4 ([`OUTGOING`]) for a packet that this machine sends.
pub const KERNEL_PACKET_TYPE: u32 = KERNEL + 4;
/// The index of the interface.
pub const KERNEL_INTERFACE: u32 = KERNEL + 8;
/// The hardware type of the interface, an `ARPHRD_…` number.
pub const KERNEL_HARDWARE: u32 = KERNEL + 28;
/// The VLAN tag that the kernel removed from the frame: priority and VLAN, 16 bits.
pub const KERNEL_VLAN_TAG: u32 = KERNEL + 44;
/// 1 if the kernel removed a VLAN tag from the frame, else 0.
pub const KERNEL_VLAN_PRESENT: u32 = KERNEL + 48;
/// The [`KERNEL_PACKET_TYPE`] of packets that this machine sends (`PACKET_OUTGOING`).
pub const OUTGOING: u32 = 4;

/// The number of scratch cells: `M[0]` to `M[15]`.
pub const SCRATCH: u32 = 16;
