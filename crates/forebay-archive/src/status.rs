//! `status`: the packets of each sensor, and whether they add up.
//!
//! `captured = shipped + waiting + expired + dropped`, for each sensor, in packets; and the packets of the index are those of the
//! segments. `captured` is what the captures counted themselves, in the statistics at the end of their files; files without
//! statistics count with the packets that they contain.

use crate::{archive::Archive, schema, segment, ship::spool, table::Table};
use anyhow::{Context, Result};
use deltalake_core::arrow::array::{Array, Int64Array, StringArray};
use parquet::arrow::{ProjectionMask, arrow_reader::ParquetRecordBatchReaderBuilder};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
};

/// The counts of a sensor, in packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensor {
    /// Segments in the archive.
    pub segments: u64,
    /// Their length as stored.
    pub stored_bytes: u64,
    /// The length of their capture files.
    pub plain_bytes: u64,
    /// Packets that the captures counted.
    pub captured: u64,
    /// Packets in segments.
    pub shipped: u64,
    /// Packets in the spool. `None`: the spool was not named.
    pub waiting: Option<u64>,
    /// Packets of segments that `expire` removed.
    pub expired: u64,
    /// Packets of files that `ship` dropped because the spool was full.
    pub dropped: u64,
    /// Packets in rows of the index.
    pub indexed: u64,
    /// Segments whose packets in the index are not those in the segment: with no rows, and with others.
    pub unindexed: Vec<String>,
    /// Rows of segments that do not exist.
    pub dangling: Vec<String>,
    /// Packets that were lost before the capture received them: by the kernel and by the interface. `None`: unknown.
    pub lost: [Option<u64>; 2],
    /// Segments that cannot be read, and why.
    pub damaged: Vec<String>,
}

impl Sensor {
    /// Whether everything adds up.
    pub fn is_sound(&self) -> bool {
        let parts = self.shipped + self.waiting.unwrap_or(0) + self.expired + self.dropped;
        self.captured == parts
            && self.unindexed.is_empty()
            && self.dangling.is_empty()
            && self.damaged.is_empty()
    }
}

/// The counts of all sensors of an archive. `spools`: spools on this machine, by the name of the sensor.
///
/// # Errors
/// The store failed, or the table is of a newer version.
pub async fn status(
    archive: &Archive,
    spools: &[(String, PathBuf)],
) -> Result<BTreeMap<String, Sensor>> {
    let mut sensors: BTreeMap<String, Sensor> = BTreeMap::new();
    let mut rows = match Table::open(archive).await? {
        Some(table) => packets_by_segment(&table).await?,
        None => HashMap::new(),
    };
    let mut objects = archive.list(segment::FOLDER).await?;
    objects.retain(|it| segment::parse_key(it.location.as_ref()).is_some());
    let records = archive.list("sensors").await?;
    // An `expire` that was killed may have left some of them, and their rows.
    let is_expired = |key: &str| {
        let record = segment::parse_key(key)
            .map(|(sensor, _, sha256)| format!("sensors/{sensor}/expired-{sha256}.json"));
        records
            .iter()
            .any(|it| Some(it.location.as_ref()) == record.as_deref())
    };
    objects.retain(|it| !is_expired(it.location.as_ref()));
    rows.retain(|key, _| !is_expired(key));
    let directories = archive.directories(&objects).await;
    for (object, directory) in objects.iter().zip(directories) {
        let key = object.location.as_ref();
        let Some((name, ..)) = segment::parse_key(key) else {
            continue;
        };
        let sensor = sensors.entry(name.into()).or_insert_with(known_losses);
        sensor.segments += 1;
        sensor.stored_bytes += object.size;
        let indexed = rows.remove(key);
        sensor.indexed += indexed.unwrap_or(0);
        match directory {
            Ok(directory) => {
                sensor.plain_bytes += directory.plain_bytes;
                sensor.shipped += directory.packets;
                sensor.captured += directory.captured.unwrap_or(directory.packets);
                for (sum, lost) in sensor
                    .lost
                    .iter_mut()
                    .zip([directory.lost_kernel, directory.lost_interface])
                {
                    *sum = sum.zip(lost).map(|(sum, lost)| sum.saturating_add(lost));
                }
                if indexed.unwrap_or(0) != directory.packets {
                    sensor.unindexed.push(key.into());
                }
            }
            Err(error) => sensor.damaged.push(format!("{error:#}")),
        }
    }
    for (key, packets) in rows {
        let name = segment::parse_key(&key)
            .map_or("?", |(name, ..)| name)
            .to_owned();
        let sensor = sensors.entry(name).or_insert_with(known_losses);
        sensor.indexed += packets;
        sensor.dangling.push(key);
    }
    for object in &records {
        let key = object.location.as_ref();
        let mut parts = key.split('/').skip(1);
        let (Some(name), Some(file)) = (parts.next(), parts.next()) else {
            continue;
        };
        let sensor = sensors.entry(name.into()).or_insert_with(known_losses);
        let is_expired = file.starts_with("expired-");
        if !is_expired && !file.starts_with("dropped-") {
            continue;
        }
        let record = archive.get(key).await?.unwrap_or_default();
        let record: Value = serde_json::from_slice(&record)
            .with_context(|| format!("{}: {key} is damaged", archive.name()))?;
        let packets = record["packets"].as_u64().unwrap_or(0);
        let sum = if is_expired {
            &mut sensor.expired
        } else {
            &mut sensor.dropped
        };
        *sum += packets;
        sensor.captured += record["captured"].as_u64().unwrap_or(packets);
    }
    for (name, folder) in spools {
        let sensor = sensors.entry(name.clone()).or_insert_with(known_losses);
        let files = spool::finished_in(folder)?;
        let packets: u64 = files.iter().map(|it| spool::packets(&it.path)).sum();
        sensor.waiting = Some(packets);
        sensor.captured += packets;
    }
    Ok(sensors)
}

fn known_losses() -> Sensor {
    Sensor {
        lost: [Some(0); 2],
        ..Sensor::default()
    }
}

/// The packets in the rows of each segment.
///
/// # Errors
/// The store failed, or a file of the table is damaged.
pub async fn packets_by_segment(table: &Table) -> Result<HashMap<String, u64>> {
    let mut sums = HashMap::new();
    for file in table.files()? {
        let damaged = || {
            format!(
                "{}: the file {} of its index is damaged",
                table.archive().name(),
                file.key
            )
        };
        let bytes = table
            .archive()
            .get(&file.key)
            .await?
            .with_context(damaged)?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).with_context(damaged)?;
        let names = [schema::SEGMENT, schema::PACKETS];
        let mask = ProjectionMask::columns(builder.parquet_schema(), names);
        let batches = builder.with_projection(mask).build();
        for batch in batches.with_context(damaged)? {
            let batch = batch.with_context(damaged)?;
            let column = |name: &str| batch.column_by_name(name).map(|it| it.as_any());
            let segments = column(schema::SEGMENT).and_then(|it| it.downcast_ref::<StringArray>());
            let packets = column(schema::PACKETS).and_then(|it| it.downcast_ref::<Int64Array>());
            let (segments, packets) = segments.zip(packets).with_context(damaged)?;
            for row in 0..segments.len() {
                let sum = match sums.get_mut(segments.value(row)) {
                    Some(sum) => sum,
                    None => sums.entry(segments.value(row).to_owned()).or_insert(0),
                };
                *sum += packets.value(row) as u64;
            }
        }
    }
    Ok(sums)
}
