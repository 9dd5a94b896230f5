//! The columns of the index: one row for each flow and block.
//!
//! The same list makes the schema of the Delta table and of its Parquet files. `docs/archive.md` explains the columns to users.

use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

/// The column by which the table is partitioned. It is in the paths of the files, not in them.
pub const DATE: &str = "date";
/// The name of the sensor.
pub const SENSOR: &str = "sensor";
/// The key of the segment, from the root of the archive.
pub const SEGMENT: &str = "segment";
/// The first byte of the block in the segment, as stored.
pub const BLOCK_OFFSET: &str = "block_offset";
/// The length of the block in the segment, as stored.
pub const BLOCK_LENGTH: &str = "block_length";
/// The time of the row's first packet, in nanoseconds since 1970.
pub const FIRST_NS: &str = "first_ns";
/// The time of the row's last packet.
pub const LAST_NS: &str = "last_ns";
/// The address of endpoint A as text. Null: the packets have no addresses, or these are not known.
pub const ADDRESS_A: &str = "address_a";
/// The port of endpoint A. Null: the packets have no ports, or these are not known.
pub const PORT_A: &str = "port_a";
/// The address of endpoint B as text.
pub const ADDRESS_B: &str = "address_b";
/// The port of endpoint B.
pub const PORT_B: &str = "port_b";
/// The address of A as 32 hexadecimal digits, IPv4 as `::ffff:0:0/96`: it sorts as the addresses do.
pub const KEY_A: &str = "key_a";
/// The address of B in the same form.
pub const KEY_B: &str = "key_b";
/// The protocol number of IP; in IPv6 the one after extension headers. Null: no IP, or not known.
pub const PROTOCOL: &str = "protocol";
/// The type of the frame's payload after VLAN tags; 0: an 802.3 frame. Null: not known.
pub const ETHER_TYPE: &str = "ether_type";
/// The identifier of the outermost VLAN tag. Null: no tag.
pub const VLAN: &str = "vlan";
/// The number of VLAN tags.
pub const VLAN_TAGS: &str = "vlan_tags";
/// The Community ID, version 1. Null: the packets have none.
pub const COMMUNITY_ID: &str = "community_id";
/// The number of packets.
pub const PACKETS: &str = "packets";
/// Their length on the wire.
pub const BYTES: &str = "bytes";
/// All flags of TCP that occur.
pub const TCP_FLAGS: &str = "tcp_flags";
/// Packets that the source lost directly before packets of this row; in the last row of a segment also those after its last packet.
pub const LOST_KERNEL: &str = "lost_kernel";
/// Packets that the interface lost while the segment was captured: in its last row.
pub const LOST_INTERFACE: &str = "lost_interface";
/// The next header that the IPv6 header itself names, before extension headers. Null: no IPv6, or not known, as in older files.
pub const NEXT_HEADER: &str = "next_header";

/// The columns at the end that older tables and files lack. They are nullable.
pub const ADDED: usize = 1;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A date without a time.
    Date,
    /// Text in UTF-8.
    Text,
    /// A signed number of 64 bits.
    Long,
    /// A signed number of 32 bits.
    Int,
}

/// A column of the index.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether a row may have no value.
    pub nullable: bool,
    /// Whether the Parquet files have a bloom filter for it.
    pub bloom: bool,
}

const fn column(name: &'static str, kind: Kind, nullable: bool, bloom: bool) -> Column {
    Column {
        name,
        kind,
        nullable,
        bloom,
    }
}

/// All columns, in order. The first one is the partition.
pub const COLUMNS: [Column; 24] = [
    column(DATE, Kind::Date, false, false),
    column(SENSOR, Kind::Text, false, false),
    column(SEGMENT, Kind::Text, false, false),
    column(BLOCK_OFFSET, Kind::Long, false, false),
    column(BLOCK_LENGTH, Kind::Long, false, false),
    column(FIRST_NS, Kind::Long, false, false),
    column(LAST_NS, Kind::Long, false, false),
    column(ADDRESS_A, Kind::Text, true, false),
    column(PORT_A, Kind::Int, true, true),
    column(ADDRESS_B, Kind::Text, true, false),
    column(PORT_B, Kind::Int, true, true),
    column(KEY_A, Kind::Text, true, true),
    column(KEY_B, Kind::Text, true, true),
    column(PROTOCOL, Kind::Int, true, false),
    column(ETHER_TYPE, Kind::Int, true, false),
    column(VLAN, Kind::Int, true, false),
    column(VLAN_TAGS, Kind::Int, false, false),
    column(COMMUNITY_ID, Kind::Text, true, false),
    column(PACKETS, Kind::Long, false, false),
    column(BYTES, Kind::Long, false, false),
    column(TCP_FLAGS, Kind::Int, false, false),
    column(LOST_KERNEL, Kind::Long, false, false),
    column(LOST_INTERFACE, Kind::Long, false, false),
    column(NEXT_HEADER, Kind::Int, true, false),
];

/// Whether older files lack this column.
pub fn is_added(name: &str) -> bool {
    let old = COLUMNS.len() - ADDED;
    COLUMNS[old..].iter().any(|it| it.name == name)
}

/// The schema of the Parquet files: all columns except the partition.
pub fn arrow() -> Arc<Schema> {
    let field = |column: &Column| {
        let kind = match column.kind {
            Kind::Date => DataType::Date32,
            Kind::Text => DataType::Utf8,
            Kind::Long => DataType::Int64,
            Kind::Int => DataType::Int32,
        };
        Field::new(column.name, kind, column.nullable)
    };
    Arc::new(Schema::new(
        COLUMNS[1..].iter().map(field).collect::<Vec<_>>(),
    ))
}

/// An address as in the columns [`KEY_A`] and [`KEY_B`].
pub fn key(address: u128) -> String {
    let mut text = String::with_capacity(32);
    put_key(address, &mut text);
    text
}

/// Appends [`key`].
pub(crate) fn put_key(address: u128, text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in address.to_be_bytes() {
        for digit in [byte >> 4, byte & 15] {
            text.push(DIGITS[usize::from(digit)].into());
        }
    }
}
