//! The values of an instruction's `code`: the operations of classic BPF, and the offsets at which the Linux kernel keeps
//! metadata of a packet.
//!
//! Names follow tcpdump's listing. `A` is the accumulator, `X` the index register, `M[k]` a scratch cell, `P[k..]` the packet
//! in network byte order. A load beyond the packet ends the program with 0.

/// `A = P[k..k+4]`
pub const LD_ABS: u16 = 0x20;
/// `A = P[k..k+2]`
pub const LDH_ABS: u16 = 0x28;
/// `A = P[k]`
pub const LDB_ABS: u16 = 0x30;
/// `A = P[X+k..X+k+4]`; the sum does not wrap.
pub const LD_IND: u16 = 0x40;
/// `A = P[X+k..X+k+2]`
pub const LDH_IND: u16 = 0x48;
/// `A = P[X+k]`
pub const LDB_IND: u16 = 0x50;
/// `A = k`
pub const LD_IMM: u16 = 0x00;
/// `A = M[k]`
pub const LD_MEM: u16 = 0x60;
/// `A =` the packet's length on the wire.
pub const LD_LEN: u16 = 0x80;
/// `X = k`
pub const LDX_IMM: u16 = 0x01;
/// `X = M[k]`
pub const LDX_MEM: u16 = 0x61;
/// `X =` the packet's length on the wire.
pub const LDX_LEN: u16 = 0x81;
/// `X = 4 * (P[k] & 0xf)`: the length of an IPv4 header that starts at `k`.
pub const LDX_MSH: u16 = 0xB1;
/// `M[k] = A`
pub const ST: u16 = 0x02;
/// `M[k] = X`
pub const STX: u16 = 0x03;

/// `A += k`; arithmetic wraps at 32 bits.
pub const ADD_K: u16 = 0x04;
/// `A += X`
pub const ADD_X: u16 = 0x0C;
/// `A -= k`
pub const SUB_K: u16 = 0x14;
/// `A -= X`
pub const SUB_X: u16 = 0x1C;
/// `A *= k`
pub const MUL_K: u16 = 0x24;
/// `A *= X`
pub const MUL_X: u16 = 0x2C;
/// `A /= k`, unsigned; `k` is not 0.
pub const DIV_K: u16 = 0x34;
/// `A /= X`; the program ends with 0 if `X` is 0.
pub const DIV_X: u16 = 0x3C;
/// `A |= k`
pub const OR_K: u16 = 0x44;
/// `A |= X`
pub const OR_X: u16 = 0x4C;
/// `A &= k`
pub const AND_K: u16 = 0x54;
/// `A &= X`
pub const AND_X: u16 = 0x5C;
/// `A <<= k`; `k` is below 32.
pub const LSH_K: u16 = 0x64;
/// `A <<= X`; the result is 0 if `X` is 32 or more (the kernel takes `X` modulo 32).
pub const LSH_X: u16 = 0x6C;
/// `A >>= k`; `k` is below 32.
pub const RSH_K: u16 = 0x74;
/// `A >>= X`; the result is 0 if `X` is 32 or more (the kernel takes `X` modulo 32).
pub const RSH_X: u16 = 0x7C;
/// `A = -A`
pub const NEG: u16 = 0x84;
/// `A %= k`; `k` is not 0.
pub const MOD_K: u16 = 0x94;
/// `A %= X`; the program ends with 0 if `X` is 0.
pub const MOD_X: u16 = 0x9C;
/// `A ^= k`
pub const XOR_K: u16 = 0xA4;
/// `A ^= X`
pub const XOR_X: u16 = 0xAC;

/// Skips `k` instructions.
pub const JA: u16 = 0x05;
/// True if `A == k`.
pub const JEQ_K: u16 = 0x15;
/// True if `A == X`.
pub const JEQ_X: u16 = 0x1D;
/// True if `A > k`, unsigned.
pub const JGT_K: u16 = 0x25;
/// True if `A > X`, unsigned.
pub const JGT_X: u16 = 0x2D;
/// True if `A >= k`, unsigned.
pub const JGE_K: u16 = 0x35;
/// True if `A >= X`, unsigned.
pub const JGE_X: u16 = 0x3D;
/// True if `A & k` is not 0.
pub const JSET_K: u16 = 0x45;
/// True if `A & X` is not 0.
pub const JSET_X: u16 = 0x4D;

/// Ends the program: keep `k` bytes.
pub const RET_K: u16 = 0x06;
/// Ends the program: keep `A` bytes.
pub const RET_A: u16 = 0x16;
/// `X = A`
pub const TAX: u16 = 0x07;
/// `A = X`
pub const TXA: u16 = 0x87;

/// Absolute loads from this offset on (`SKF_AD_OFF`, -0x1000) read the kernel's metadata of a packet, whatever the size of
/// the load. Outside the kernel there is no metadata: such a load ends the program with 0.
pub const KERNEL: u32 = -0x1000_i32 as u32;
/// The EtherType, in host order.
pub const KERNEL_PROTOCOL: u32 = KERNEL;
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
/// The EtherType of the VLAN tag that the kernel removed.
pub const KERNEL_VLAN_TYPE: u32 = KERNEL + 60;
/// The [`KERNEL_PACKET_TYPE`] of packets that this machine sends (`PACKET_OUTGOING`).
pub const OUTGOING: u32 = 4;

/// The number of scratch cells: `M[0]` to `M[15]`.
pub const SCRATCH: u32 = 16;
