//! The rows of the index that may match.

use super::{
    Answer, Request,
    predicate::{self, Flow, Truth},
};
use crate::schema;
use anyhow::{Context, Result};
use arrow_array::{
    Array, ArrayAccessor, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TypedDictionaryArray, types::Int32Type,
};
use forebay_net::filter::tree::Tree;

/// The columns that [`read_rows`] needs. For flows, it also needs [`schema::BYTES`].
pub const COLUMNS: [&str; 16] = [
    schema::SENSOR,
    schema::SEGMENT,
    schema::BLOCK_OFFSET,
    schema::BLOCK_LENGTH,
    schema::FIRST_NS,
    schema::LAST_NS,
    schema::PORT_A,
    schema::PORT_B,
    schema::KEY_A,
    schema::KEY_B,
    schema::PROTOCOL,
    schema::ETHER_TYPE,
    schema::VLAN,
    schema::VLAN_TAGS,
    schema::PACKETS,
    schema::NEXT_HEADER,
];

/// What a row counts.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub flow: Flow,
    pub span: (i64, i64),
    pub packets: u64,
    /// 0 if the request is not for flows.
    pub bytes: u64,
}

/// Where the packets of a row are.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub sensor: &'a str,
    pub segment: &'a str,
    pub offset: u64,
    pub length: u64,
    /// Whether all packets of the row match for certain.
    pub is_certain: bool,
}

/// Calls `each` for the rows of a batch that may match.
///
/// # Errors
/// The batch has other columns, or values that are out of range.
pub fn read_rows(
    batch: &RecordBatch,
    request: &Request,
    tree: &Tree,
    mut each: impl FnMut(Place<'_>, Row),
) -> Result<()> {
    let [sensor, segment] =
        [schema::SENSOR, schema::SEGMENT].map(|it| column::<StringArray>(batch, it));
    let [key_a, key_b] = [schema::KEY_A, schema::KEY_B].map(|it| keys(batch, it));
    let [offset, length, first, last, packets] = [
        schema::BLOCK_OFFSET,
        schema::BLOCK_LENGTH,
        schema::FIRST_NS,
        schema::LAST_NS,
        schema::PACKETS,
    ]
    .map(|it| column::<Int64Array>(batch, it));
    let [port_a, port_b, protocol, ether_type, vlan, tags] = [
        schema::PORT_A,
        schema::PORT_B,
        schema::PROTOCOL,
        schema::ETHER_TYPE,
        schema::VLAN,
        schema::VLAN_TAGS,
    ]
    .map(|it| column::<Int32Array>(batch, it));
    // Older files lack it.
    let next_header = batch.column_by_name(schema::NEXT_HEADER);
    let next_header = next_header.map(|_| column::<Int32Array>(batch, schema::NEXT_HEADER));
    let next_header = next_header.transpose()?;
    let bytes = match request.answer {
        Answer::Flows => Some(column::<Int64Array>(batch, schema::BYTES)?),
        _ => None,
    };
    let (sensor, segment, key_a, key_b) = (sensor?, segment?, key_a?, key_b?);
    let (offset, length, first, last, packets) = (offset?, length?, first?, last?, packets?);
    let (port_a, port_b, protocol, ether_type, vlan, tags) =
        (port_a?, port_b?, protocol?, ether_type?, vlan?, tags?);
    for at in 0..batch.num_rows() {
        // The losses of a segment without packets.
        if packets.value(at) == 0 {
            continue;
        }
        let span = (first.value(at), last.value(at));
        if !request.is_before_end(span.0)
            || span.1 < request.from
            || !request.is_of(sensor.value(at))
        {
            continue;
        }
        let both = |a: Option<u16>, b: Option<u16>| Some([a?, b?]);
        let key = |keys: &Keys<'_>| {
            keys.is_valid(at)
                .then(|| u128::from_str_radix(keys.value(at), 16))
                .transpose()
        };
        let flow = Flow {
            tags: small(tags, at)?.map(u32::from),
            vlan: small(vlan, at)?,
            ether_type: small(ether_type, at)?,
            protocol: small(protocol, at)?.map(|it| it as u8),
            next_header: match next_header {
                Some(next_header) => small(next_header, at)?.map(|it| it as u8),
                None => None,
            },
            addresses: match (key(&key_a)?, key(&key_b)?) {
                (Some(a), Some(b)) => Some([a, b]),
                _ => None,
            },
            ports: both(small(port_a, at)?, small(port_b, at)?),
        };
        let matches = predicate::matching(tree, &flow);
        if matches == Truth::No {
            continue;
        }
        let is_inside = span.0 >= request.from && request.is_before_end(span.1);
        let is_certain = is_inside && matches == Truth::Yes && predicate::is_certain(tree, &flow);
        let place = Place {
            sensor: sensor.value(at),
            segment: segment.value(at),
            offset: u64::try_from(offset.value(at)).context("a block lies before its segment")?,
            length: length.value(at).unsigned_abs(),
            is_certain,
        };
        let row = Row {
            flow,
            span,
            packets: packets.value(at).unsigned_abs(),
            bytes: bytes.map_or(0, |it| it.value(at).unsigned_abs()),
        };
        each(place, row);
    }
    Ok(())
}

type Keys<'a> = TypedDictionaryArray<'a, Int32Type, StringArray>;

fn keys<'a>(batch: &'a RecordBatch, name: &str) -> Result<Keys<'a>> {
    let keys = column::<DictionaryArray<Int32Type>>(batch, name)?;
    let keys = keys.downcast_dict();
    keys.with_context(|| format!("its column `{name}` is no text"))
}

fn column<'a, T: 'static>(batch: &'a RecordBatch, name: &str) -> Result<&'a T> {
    let column = batch
        .column_by_name(name)
        .and_then(|it| it.as_any().downcast_ref());
    column.with_context(|| format!("it has no column `{name}` of the expected type"))
}

fn small(values: &Int32Array, at: usize) -> Result<Option<u16>> {
    let value = values.is_valid(at).then(|| u16::try_from(values.value(at)));
    value.transpose().context("a number is out of range")
}
