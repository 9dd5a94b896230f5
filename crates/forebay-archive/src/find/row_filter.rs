//! Leaves out rows before most of their columns are read: those without an address that the expression needs.

use super::{predicate::mapped, statistics::Bounds};
use crate::schema;
use deltalake_core::arrow::{
    array::{Array, ArrayData, AsArray, BooleanArray, RecordBatch, StringArray},
    buffer::BooleanBuffer,
    datatypes::{DataType, Field, Int32Type, Schema, SchemaRef},
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

/// The columns of the filter. They are read as dictionaries, so that each address is compared once, and not in each row.
const KEYS: [&str; 2] = [schema::KEY_A, schema::KEY_B];

/// The schema of a file with the keys as dictionaries.
pub fn with_dictionaries(schema: &Schema) -> SchemaRef {
    let keys = || DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    let field = |field: &Arc<Field>| match KEYS.contains(&field.name().as_str()) {
        true => Arc::new(field.as_ref().clone().with_data_type(keys())),
        false => field.clone(),
    };
    Arc::new(Schema::new(
        schema.fields().iter().map(field).collect::<Vec<_>>(),
    ))
}

/// A filter for rows of a file that was opened [`with_dictionaries`]. `groups`: the row groups that are read. `None`: the expression does not
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
    let mut filter = Filter {
        ranges,
        matching: vec![None; KEYS.len() + 1],
    };
    let predicate = ArrowPredicateFn::new(mask, move |batch| filter.keep(&batch));
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

/// Finds rows with an address in one of these ranges, or of an unknown type.
struct Filter {
    ranges: Vec<(String, String)>,
    /// The last dictionary of each column, and which of its keys match. Many batches share a dictionary.
    matching: Vec<Option<(ArrayData, BooleanBuffer)>>,
}

impl Filter {
    fn keep(&mut self, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        let mut keep = BooleanBuffer::new_unset(batch.num_rows());
        let columns = batch.columns().iter().zip(&mut self.matching);
        for (field, (column, matching)) in batch.schema_ref().fields().iter().zip(columns) {
            let found = if field.name() == schema::ETHER_TYPE {
                BooleanBuffer::collect_bool(column.len(), |at| column.is_null(at))
            } else {
                let no_text = || ArrowError::SchemaError(format!("`{}` is no text", field.name()));
                let keys = column
                    .as_dictionary_opt::<Int32Type>()
                    .ok_or_else(no_text)?;
                let texts = keys.values().to_data();
                let matching = match matching {
                    Some((of, matching)) if of.ptr_eq(&texts) => matching,
                    _ => {
                        let found = keys.values().as_string_opt().ok_or_else(no_text)?;
                        let found = matching_keys(found, &self.ranges);
                        &mut matching.insert((texts, found)).1
                    }
                };
                let numbers = keys.keys();
                BooleanBuffer::collect_bool(numbers.len(), |at| {
                    numbers.is_null(at) || matching.value(numbers.value(at) as usize)
                })
            };
            keep = &keep | &found;
        }
        Ok(BooleanArray::new(keep, None))
    }
}

/// Which keys are in one of these ranges. A key that is null is in all.
fn matching_keys(keys: &StringArray, ranges: &[(String, String)]) -> BooleanBuffer {
    let is_in = |key: &str| {
        let mut ranges = ranges.iter();
        ranges.any(|(low, high)| low.as_str() <= key && key <= high.as_str())
    };
    BooleanBuffer::collect_bool(keys.len(), |at| keys.is_null(at) || is_in(keys.value(at)))
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
