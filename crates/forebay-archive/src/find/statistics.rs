//! What the statistics of a file, or of a row group, say about the flows of its rows.

use super::predicate::{Facts, IPV6, TAGS, Truth, is_extension, mapped};
use crate::schema;
use forebay_net::filter::tree::{Place, Test};
use parquet::{
    bloom_filter::Sbbf,
    file::{metadata::RowGroupMetaData, statistics::Statistics},
};
use serde::Deserialize;
use std::{array, collections::HashMap};

/// The columns whose statistics are used.
const NUMBERS: [&str; 9] = [
    schema::FIRST_NS,
    schema::LAST_NS,
    schema::PORT_A,
    schema::PORT_B,
    schema::PROTOCOL,
    schema::ETHER_TYPE,
    schema::VLAN,
    schema::VLAN_TAGS,
    schema::PACKETS,
];
const TEXTS: [&str; 3] = [schema::SENSOR, schema::KEY_A, schema::KEY_B];

/// Ranges of ports up to this length are looked up in bloom filters.
const MAX_PORTS: u16 = 16;

/// The values of a column in some rows.
#[derive(Clone, Debug, Default)]
enum Values<T> {
    /// Not known: any.
    #[default]
    Unknown,
    /// All are null.
    Null,
    Between(T, T),
}

/// The bloom filters of columns.
pub type Blooms = HashMap<&'static str, Sbbf>;

/// Bounds of the columns of some rows.
#[derive(Default)]
pub struct Bounds {
    /// In the order of [`NUMBERS`].
    numbers: [Values<i64>; NUMBERS.len()],
    /// In the order of [`TEXTS`].
    texts: [Values<String>; TEXTS.len()],
    /// Whether each of the rows has an EtherType.
    all_have_types: bool,
    blooms: Blooms,
}

/// The statistics of a file in the log of the table. Other members are skipped.
#[derive(Deserialize)]
struct OfFile<'a> {
    #[serde(rename = "numRecords")]
    rows: Option<u64>,
    #[serde(borrow, default, rename = "minValues")]
    min: Columns<i64, &'a str>,
    #[serde(borrow, default, rename = "maxValues")]
    max: Columns<i64, &'a str>,
    #[serde(default, rename = "nullCount")]
    nulls: Columns<u64, u64>,
}

/// A value for each of the columns in [`NUMBERS`] and [`TEXTS`].
#[derive(Default, Deserialize)]
#[serde(default)]
struct Columns<N, T> {
    first_ns: Option<N>,
    last_ns: Option<N>,
    port_a: Option<N>,
    port_b: Option<N>,
    protocol: Option<N>,
    ether_type: Option<N>,
    vlan: Option<N>,
    vlan_tags: Option<N>,
    packets: Option<N>,
    sensor: Option<T>,
    key_a: Option<T>,
    key_b: Option<T>,
}

impl<N: Copy, T: Copy> Columns<N, T> {
    fn numbers(&self) -> [Option<N>; NUMBERS.len()] {
        [
            self.first_ns,
            self.last_ns,
            self.port_a,
            self.port_b,
            self.protocol,
            self.ether_type,
            self.vlan,
            self.vlan_tags,
            self.packets,
        ]
    }

    fn texts(&self) -> [Option<T>; TEXTS.len()] {
        [self.sensor, self.key_a, self.key_b]
    }
}

impl Bounds {
    /// From the statistics of a file in the log of the table.
    pub fn of_file(statistics: Option<&str>) -> Bounds {
        let parsed = statistics.and_then(|text| serde_json::from_str::<OfFile<'_>>(text).ok());
        let Some(file) = parsed else {
            return Bounds::default();
        };
        let [min, max] = [&file.min, &file.max].map(Columns::numbers);
        let nulls = file.nulls.numbers();
        let numbers = array::from_fn(|at| Values::of(min[at], max[at], nulls[at], file.rows));
        let [min, max] = [&file.min, &file.max].map(Columns::texts);
        let nulls = file.nulls.texts();
        let text = |text: Option<&str>| text.map(str::to_owned);
        let texts =
            array::from_fn(|at| Values::of(text(min[at]), text(max[at]), nulls[at], file.rows));
        Bounds {
            numbers,
            texts,
            all_have_types: file.nulls.ether_type == Some(0),
            blooms: Blooms::new(),
        }
    }

    /// From the metadata of a row group.
    pub fn of_group(group: &RowGroupMetaData) -> Bounds {
        let mut bounds = Bounds::default();
        let rows = u64::try_from(group.num_rows()).ok();
        for column in group.columns() {
            let Some(statistics) = column.statistics() else {
                continue;
            };
            let nulls = statistics.null_count_opt();
            let name = column.column_path().string();
            if let Some(at) = NUMBERS.into_iter().position(|it| it == name) {
                let (min, max) = match statistics {
                    Statistics::Int32(it) => (
                        it.min_opt().map(|it| i64::from(*it)),
                        it.max_opt().map(|it| i64::from(*it)),
                    ),
                    Statistics::Int64(it) => (it.min_opt().copied(), it.max_opt().copied()),
                    _ => (None, None),
                };
                bounds.numbers[at] = Values::of(min, max, nulls, rows);
                bounds.all_have_types |= name == schema::ETHER_TYPE && nulls == Some(0);
            } else if let (Some(at), Statistics::ByteArray(it)) =
                (TEXTS.into_iter().position(|it| it == name), statistics)
            {
                let text =
                    |bytes: &parquet::data_type::ByteArray| bytes.as_utf8().ok().map(str::to_owned);
                let (min, max) = (it.min_opt().and_then(text), it.max_opt().and_then(text));
                bounds.texts[at] = Values::of(min, max, nulls, rows);
            }
        }
        bounds
    }

    /// Adds the bloom filter of a column.
    pub fn add_bloom(&mut self, column: &'static str, bloom: Sbbf) {
        self.blooms.insert(column, bloom);
    }

    /// Replaces the bloom filters.
    pub fn set_blooms(&mut self, blooms: Blooms) {
        self.blooms = blooms;
    }

    fn number(&self, column: &str) -> &Values<i64> {
        let at = NUMBERS.into_iter().position(|it| it == column);
        at.map_or(&Values::Unknown, |at| &self.numbers[at])
    }

    fn text(&self, column: &str) -> &Values<String> {
        let at = TEXTS.into_iter().position(|it| it == column);
        at.map_or(&Values::Unknown, |at| &self.texts[at])
    }

    /// Whether each of the rows has an EtherType.
    pub fn all_have_types(&self) -> bool {
        self.all_have_types
    }

    /// Whether a row can have a value from `first` to `last`.
    fn may_have(&self, column: &str, first: i64, last: i64) -> bool {
        self.number(column).overlap(&first, &last)
    }

    /// Whether a row can be of this sensor.
    pub fn may_be_of(&self, sensor: &str) -> bool {
        let sensor = sensor.to_owned();
        self.text(schema::SENSOR).overlap(&sensor, &sensor)
    }

    /// Whether packets of a row can be from `from` on and before `to`.
    pub fn may_be_between(&self, from: i64, to: i64) -> bool {
        let last = if to == i64::MAX { to } else { to - 1 };
        self.may_have(schema::LAST_NS, from, i64::MAX)
            && self.may_have(schema::FIRST_NS, i64::MIN, last)
    }

    fn may_have_address(&self, column: &str, low: u128, high: u128) -> bool {
        self.may_have_key(column, &schema::key(low), &schema::key(high))
    }

    /// Whether a row can have a key from `low` to `high`.
    pub fn may_have_key(&self, column: &str, low: &String, high: &String) -> bool {
        let bloom = self.blooms.get(column).filter(|_| low == high);
        self.text(column).overlap(low, high) && bloom.is_none_or(|bloom| bloom.check(low.as_str()))
    }

    fn may_have_port(&self, column: &str, first: u16, last: u16) -> bool {
        let is_short = last.checked_sub(first).is_some_and(|it| it < MAX_PORTS);
        let bloom = self.blooms.get(column).filter(|_| is_short);
        let is_in = |bloom: &Sbbf| (first..=last).any(|port| bloom.check(&i32::from(port)));
        self.may_have(column, first.into(), last.into()) && bloom.is_none_or(is_in)
    }

    fn may_be_next(&self, number: u8) -> bool {
        let may = |number: u8| self.may_have(schema::PROTOCOL, number.into(), number.into());
        let may_be_ipv6 = self.may_have(schema::ETHER_TYPE, IPV6.into(), IPV6.into());
        may(number)
            || may_be_ipv6
                && (is_extension(number) || (0..=255).any(|it| is_extension(it) && may(it)))
    }
}

impl<T: PartialOrd> Values<T> {
    fn of(min: Option<T>, max: Option<T>, nulls: Option<u64>, rows: Option<u64>) -> Values<T> {
        match (min, max) {
            (Some(min), Some(max)) => Values::Between(min, max),
            _ if nulls.is_some() && nulls == rows => Values::Null,
            _ => Values::Unknown,
        }
    }

    fn overlap(&self, first: &T, last: &T) -> bool {
        match self {
            Values::Unknown => true,
            Values::Null => false,
            Values::Between(min, max) => min <= last && first <= max,
        }
    }
}

impl Facts for Bounds {
    fn test(&self, test: &Test, place: Place) -> Truth {
        let Place::AfterVlans(skipped) = place else {
            return Truth::Maybe;
        };
        let skipped = i64::from(skipped);
        // Of other rows the test sees other bytes than those of the network header.
        if !self.all_have_types || self.may_have(schema::VLAN_TAGS, i64::MIN, skipped - 1) {
            return Truth::Maybe;
        }
        let may = match test {
            Test::EtherType(kind) if TAGS.contains(kind) => true,
            Test::EtherType(kind) => {
                self.may_have(schema::ETHER_TYPE, (*kind).into(), (*kind).into())
            }
            Test::IpProtocol { number, .. } => self.may_be_next(*number),
            Test::Address { network, .. } => {
                let (address, mask) = mapped(network);
                let last = address | !mask;
                self.may_have_address(schema::KEY_A, address, last)
                    || self.may_have_address(schema::KEY_B, address, last)
            }
            Test::Ports { first, last, .. } => {
                self.may_have_port(schema::PORT_A, *first, *last)
                    || self.may_have_port(schema::PORT_B, *first, *last)
            }
            Test::Vlan(number) => {
                let number = number.filter(|_| skipped == 0).map(i64::from);
                self.may_have(schema::VLAN_TAGS, skipped + 1, i64::MAX)
                    && number.is_none_or(|number| self.may_have(schema::VLAN, number, number))
            }
            _ => true,
        };
        if may { Truth::Maybe } else { Truth::No }
    }
}
