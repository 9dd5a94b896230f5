//! Leaves out rows before most of their columns are read: those without an address that the expression needs.

use super::predicate::mapped;
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
    file::metadata::ParquetMetaData,
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

/// A filter for rows of a file that was opened [`with_views`]. `None`: the expression does not need addresses.
pub fn row_filter(tree: &Tree, metadata: &ParquetMetaData) -> Option<RowFilter> {
    let ranges = needed(tree)?;
    let columns = [KEYS[0], KEYS[1], schema::ETHER_TYPE];
    let mask = ProjectionMask::columns(metadata.file_metadata().schema_descr(), columns);
    let predicate = ArrowPredicateFn::new(mask, move |batch| keep(&batch, &ranges));
    Some(RowFilter::new(vec![Box::new(predicate)]))
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
    let column = |name: &str| {
        let column = batch.column_by_name(name);
        column.ok_or_else(|| ArrowError::SchemaError(format!("no column `{name}`")))
    };
    let keys = |name: &str| {
        let keys = column(name)?.as_any().downcast_ref::<StringViewArray>();
        keys.ok_or_else(|| ArrowError::SchemaError(format!("`{name}` is no text")))
    };
    let (a, b) = (keys(KEYS[0])?, keys(KEYS[1])?);
    let types = column(schema::ETHER_TYPE)?;
    let may_match = |keys: &StringViewArray, at: usize| {
        let key = keys.value(at);
        let is_in = |(low, high): &(String, String)| match low == high {
            true => key == low,
            false => low.as_str() <= key && key <= high.as_str(),
        };
        keys.is_null(at) || ranges.iter().any(is_in)
    };
    let keep = BooleanBuffer::collect_bool(batch.num_rows(), |at| {
        types.is_null(at) || may_match(a, at) || may_match(b, at)
    });
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
