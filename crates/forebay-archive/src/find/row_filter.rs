//! Leaves out rows before most of their columns are read: those without an address that the expression needs.

use super::{predicate::mapped, statistics::Bounds};
use crate::schema;
use deltalake_core::arrow::{
    array::{Array, BooleanArray, RecordBatch, StringViewArray},
    buffer::BooleanBuffer,
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
};
use forebay_net::filter::tree::{Place, Test, Tree};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowPredicateFn, RowFilter},
    },
    file::metadata::{ParquetMetaData, RowGroupMetaData},
};
use std::sync::Arc;

/// The columns of the filter that are read as views, so that no text is copied.
const KEYS: [&str; 2] = [schema::KEY_A, schema::KEY_B];

/// The schema of a file with the keys as views.
pub fn with_views(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| match KEYS.contains(&field.name().as_str()) {
        true => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        false => field.clone(),
    };
    Arc::new(Schema::new(
        schema.fields().iter().map(field).collect::<Vec<_>>(),
    ))
}

/// A filter for rows of a file that was opened [`with_views`]. `groups`: the row groups that are read. `None`: the expression does not
/// need addresses.
pub fn row_filter(
    tree: &Tree,
    metadata: &ParquetMetaData,
    groups: &[(usize, Bounds)],
) -> Option<RowFilter> {
    let ranges = needed(tree)?;
    let may_have = |column: &str| {
        let in_group = |(_, bounds): &(usize, Bounds)| {
            let mut ranges = ranges.iter();
            ranges.any(|(low, high)| bounds.may_have_key(column, low, high))
        };
        groups.iter().any(in_group)
    };
    // If no row has one of the addresses in a column, the other column decides. A row has both addresses or none.
    let both = groups
        .iter()
        .all(|(number, _)| are_paired(metadata.row_group(*number)));
    let mut columns: Vec<&str> = KEYS.to_vec();
    if both && may_have(KEYS[0]) != may_have(KEYS[1]) {
        columns.retain(|it| may_have(it));
    }
    if !groups.iter().all(|(_, bounds)| bounds.all_have_types()) {
        columns.push(schema::ETHER_TYPE);
    }
    let mask = ProjectionMask::columns(metadata.file_metadata().schema_descr(), columns);
    let predicate = ArrowPredicateFn::new(mask, move |batch| keep(&batch, &ranges));
    Some(RowFilter::new(vec![Box::new(predicate)]))
}

/// Whether both key columns of a row group have the same number of rows without a key.
fn are_paired(group: &RowGroupMetaData) -> bool {
    let nulls = KEYS.map(|name| {
        let mut columns = group.columns().iter();
        let column = columns.find(|it| it.column_path().string() == name);
        column.and_then(|it| it.statistics()?.null_count_opt())
    });
    nulls[0].is_some() && nulls[0] == nulls[1]
}

/// Ranges of keys. Of rows whose type is known, only those with an address in one of the ranges can match.
fn needed(tree: &Tree) -> Option<Vec<(String, String)>> {
    match tree {
        Tree::And(all) => all.iter().filter_map(needed).min_by_key(Vec::len),
        Tree::Or(any) => {
            let each: Option<Vec<_>> = any.iter().map(needed).collect();
            Some(each?.concat())
        }
        Tree::Test(Test::Address { network, .. }, Place::AfterVlans(0)) => {
            let (address, mask) = mapped(network);
            Some(vec![(schema::key(address), schema::key(address | !mask))])
        }
        _ => None,
    }
}

fn keep(batch: &RecordBatch, ranges: &[(String, String)]) -> Result<BooleanArray, ArrowError> {
    let is_in = |key: &str| {
        ranges.iter().any(|(low, high)| match low == high {
            true => key == low,
            false => low.as_str() <= key && key <= high.as_str(),
        })
    };
    let mut keep = BooleanBuffer::new_unset(batch.num_rows());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let matching = match column.as_any().downcast_ref::<StringViewArray>() {
            Some(keys) => BooleanBuffer::collect_bool(keys.len(), |at| {
                keys.is_null(at) || is_in(keys.value(at))
            }),
            None if field.name() == schema::ETHER_TYPE => {
                BooleanBuffer::collect_bool(column.len(), |at| column.is_null(at))
            }
            None => {
                let what = format!("`{}` is no text", field.name());
                return Err(ArrowError::SchemaError(what));
            }
        };
        keep = &keep | &matching;
    }
    Ok(BooleanArray::new(keep, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_net::filter::Filter;

    #[test]
    fn addresses_are_needed_if_no_other_row_can_match() {
        let ranges =
            |text: &str| needed(&text.parse::<Filter>().unwrap().tree()).map(|it| it.len());
        for text in [
            "host 10.0.0.5",
            "tcp and host 10.0.0.5",
            "net 10.0.0.0/8 and port 80",
        ] {
            assert_eq!(ranges(text), Some(1), "{text}");
        }
        assert_eq!(ranges("host 10.0.0.5 or host fe80::1"), Some(2));
        for text in [
            "",
            "tcp",
            "host 10.0.0.5 or port 80",
            "not host 10.0.0.5",
            "vlan and host 10.0.0.5",
        ] {
            assert_eq!(ranges(text), None, "{text}");
        }
    }
}
