//! Leaves out pages and rows before most of their columns are read: those without an address that the expression needs.

use super::{predicate::mapped, statistics::Bounds};
use crate::schema;
use arrow_array::{Array, BooleanArray, RecordBatch, StringArray, cast::AsArray, types::Int32Type};
use arrow_buffer::BooleanBuffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use forebay_net::filter::tree::{Place, Test, Tree};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowPredicateFn, RowFilter, RowSelection},
    },
    file::{
        metadata::{ParquetMetaData, RowGroupMetaData},
        page_index::column_index::ColumnIndexMetaData,
    },
};
use std::{ops::Range, sync::Arc};

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

/// What each row that may match has: an address of a list, or a type that is not known.
pub struct Needed {
    /// The keys of these addresses.
    ranges: Vec<(String, String)>,
    /// The columns in which they may be.
    columns: Vec<&'static str>,
    /// Whether there are rows whose type is not known.
    has_unknown: bool,
}

impl Needed {
    /// For the row groups that are read. Rows that may match fulfil all of these. If there are none, the expression does not need
    /// addresses.
    pub fn all(tree: &Tree, metadata: &ParquetMetaData, groups: &[(usize, Bounds)]) -> Vec<Self> {
        let has_unknown = !groups.iter().all(|(_, bounds)| bounds.all_have_types());
        // A row has both addresses or none.
        let both = groups
            .iter()
            .all(|(number, _)| are_paired(metadata.row_group(*number)));
        let of = |ranges: Vec<(String, String)>| {
            let may_have = |column: &str| {
                let in_group = |(_, bounds): &(usize, Bounds)| {
                    let mut ranges = ranges.iter();
                    ranges.any(|(low, high)| bounds.may_have_key(column, low, high))
                };
                groups.iter().any(in_group)
            };
            // If no row has one of the addresses in a column, the other column decides.
            let mut columns = KEYS.to_vec();
            if both && may_have(KEYS[0]) != may_have(KEYS[1]) {
                columns.retain(|it| may_have(it));
            }
            Needed {
                ranges,
                columns,
                has_unknown,
            }
        };
        needed(tree).into_iter().map(of).collect()
    }

    /// The number of ranges: each takes time to compare.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The rows of these groups whose pages have such addresses, counted from the first of these groups. `None`: all.
    pub fn pages(
        &self,
        metadata: &ParquetMetaData,
        groups: &[(usize, Bounds)],
    ) -> Option<RowSelection> {
        if self.has_unknown {
            return None;
        }
        let mut rows: Vec<Range<usize>> = Vec::new();
        let mut begin = 0;
        for (group, _) in groups {
            let end = begin + usize::try_from(metadata.row_group(*group).num_rows()).ok()?;
            for column in &self.columns {
                let pages = self.pages_of(metadata, *group, column, end - begin)?;
                rows.extend(pages.iter().map(|it| begin + it.start..begin + it.end));
            }
            begin = end;
        }
        rows.sort_unstable_by_key(|it| it.start);
        rows.dedup_by(|next, last| {
            let is_joined = next.start <= last.end;
            if is_joined {
                last.end = last.end.max(next.end);
            }
            is_joined
        });
        Some(RowSelection::from_consecutive_ranges(
            rows.into_iter(),
            begin,
        ))
    }

    /// The rows of the pages of a column that may have such an address. `None`: the file does not say, or is damaged.
    fn pages_of(
        &self,
        metadata: &ParquetMetaData,
        group: usize,
        column: &str,
        group_rows: usize,
    ) -> Option<Vec<Range<usize>>> {
        let mut columns = metadata.row_group(group).columns().iter();
        let number = columns.position(|it| it.column_path().string() == column)?;
        let places = metadata.offset_index()?.get(group)?.get(number)?;
        let places = places.page_locations();
        let bounds = metadata.column_index()?.get(group)?.get(number)?;
        let ColumnIndexMetaData::BYTE_ARRAY(bounds) = bounds else {
            return None;
        };
        // Without a page at row 0, rows before the first page would be left out.
        let begins = places.first().is_some_and(|it| it.first_row_index == 0);
        if !begins || bounds.num_pages() != places.len() as u64 {
            return None;
        }
        let mut rows = Vec::new();
        for (page, place) in places.iter().enumerate() {
            let begin = usize::try_from(place.first_row_index).ok()?;
            let end = match places.get(page + 1) {
                Some(next) => usize::try_from(next.first_row_index).ok()?,
                None => group_rows,
            };
            if begin > end || end > group_rows {
                return None;
            }
            let may_have = match (bounds.min_value(page), bounds.max_value(page)) {
                (Some(min), Some(max)) if bounds.null_count(page) == Some(0) => {
                    let mut ranges = self.ranges.iter();
                    ranges.any(|(low, high)| min <= high.as_bytes() && low.as_bytes() <= max)
                }
                _ => true,
            };
            if may_have {
                rows.push(begin..end);
            }
        }
        Some(rows)
    }

    /// The filter for rows of a file that was opened [`with_dictionaries`].
    pub fn filter(self, metadata: &ParquetMetaData) -> RowFilter {
        let mut columns = self.columns;
        if self.has_unknown {
            columns.push(schema::ETHER_TYPE);
        }
        let mut filter = Filter {
            ranges: self.ranges,
            matching: vec![None; columns.len()],
        };
        let mask = ProjectionMask::columns(metadata.file_metadata().schema_descr(), columns);
        let predicate = ArrowPredicateFn::new(mask, move |batch| filter.keep(&batch));
        RowFilter::new(vec![Box::new(predicate)])
    }
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

/// Lists of ranges of keys. Of rows whose type is known, only those with an address in a range of each list can match.
fn needed(tree: &Tree) -> Vec<Vec<(String, String)>> {
    match tree {
        Tree::And(all) => all.iter().flat_map(needed).collect(),
        Tree::Or(any) => {
            let shortest = |tree: &Tree| needed(tree).into_iter().min_by_key(Vec::len);
            let each: Option<Vec<_>> = any.iter().map(shortest).collect();
            each.map(|it| it.concat()).into_iter().collect()
        }
        Tree::Test(Test::Address { network, .. }, Place::AfterVlans(0)) => {
            let (address, mask) = mapped(network);
            vec![vec![(schema::key(address), schema::key(address | !mask))]]
        }
        _ => Vec::new(),
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

/// Which keys are in one of these ranges. A null counts as one that is.
fn matching_keys(keys: &StringArray, ranges: &[(String, String)]) -> BooleanBuffer {
    let is_in = |key: &str| {
        let mut ranges = ranges.iter();
        ranges.any(|(low, high)| match low == high {
            true => key == low,
            false => low.as_str() <= key && key <= high.as_str(),
        })
    };
    BooleanBuffer::collect_bool(keys.len(), |at| keys.is_null(at) || is_in(keys.value(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_net::filter::Filter;

    #[test]
    fn addresses_are_needed_if_no_other_row_can_match() {
        let ranges = |text: &str| {
            let needed = needed(&text.parse::<Filter>().unwrap().tree());
            needed.iter().map(Vec::len).collect::<Vec<_>>()
        };
        for text in [
            "host 10.0.0.5",
            "tcp and host 10.0.0.5",
            "net 10.0.0.0/8 and port 80",
        ] {
            assert_eq!(ranges(text), [1], "{text}");
        }
        assert_eq!(ranges("host 10.0.0.5 or host fe80::1"), [2]);
        assert_eq!(ranges("host 10.0.0.5 and host 10.0.0.6"), [1, 1]);
        for text in [
            "",
            "tcp",
            "host 10.0.0.5 or port 80",
            "not host 10.0.0.5",
            "vlan and host 10.0.0.5",
        ] {
            assert!(ranges(text).is_empty(), "{text}");
        }
    }
}
