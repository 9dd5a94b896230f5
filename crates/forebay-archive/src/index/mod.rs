//! The rows of the index: one for each flow in each block of a segment.
//!
//! ```text
//!  packet ─▶ flow ─▶ the flows of this block ─── end of the block ──▶ rows ─── a million, or the end ──▶ Parquet file per date
//! ```
//! No memory is allocated for a packet. The sum of the packets of all rows is always the number of packets of the segment: packets
//! that are not IP have rows, too.

pub mod community;
pub use forebay_net::flow;
mod merge;
mod parquet;
mod read;
mod row;

pub use self::parquet::{IndexFile, Statistics, write};
pub(crate) use self::{
    merge::{MAX_MERGED, merge},
    parquet::Encoder,
    read::{columns, options, texts},
};

pub use row::Row;

use crate::segment::Directory;
use anyhow::Result;
use flow::Flow;
use forebay_net::port::{Frame, LinkType};
use std::collections::HashMap;

/// Rows that are sorted and written together.
const MAX_ROWS: usize = 1 << 20;

/// Builds the rows of a segment.
#[derive(Default)]
pub struct Indexer {
    /// The flows of this block, and where their rows are.
    found: HashMap<Flow, u32, foldhash::fast::RandomState>,
    /// The rows of this block.
    rows: Vec<Row>,
    /// The row of the last packet: the next one often has the same flow.
    last: usize,
    /// The rows of complete blocks.
    done: Vec<Row>,
    /// Rows that are sorted and wait for the name of their segment.
    batches: Vec<Vec<Row>>,
}

impl Indexer {
    /// Counts a packet of the present block.
    #[inline]
    pub fn packet(&mut self, link: LinkType, frame: &Frame<'_>) {
        let (flow, tcp_flags) = Flow::of(link, frame.data);
        let at = match self.rows.get(self.last) {
            Some(row) if row.flow == flow => self.last,
            _ => self.row_of(flow, frame.time_ns),
        };
        self.last = at;
        let row = &mut self.rows[at];
        row.first_ns = row.first_ns.min(frame.time_ns);
        row.last_ns = row.last_ns.max(frame.time_ns);
        row.packets += 1;
        row.bytes += u64::from(frame.wire_len);
        row.tcp_flags |= tcp_flags;
        row.lost_kernel = row.lost_kernel.saturating_add(frame.dropped_before);
    }

    fn row_of(&mut self, flow: Flow, time_ns: u64) -> usize {
        let next = self.rows.len();
        let at = *self.found.entry(flow).or_insert(next as u32) as usize;
        if at == next {
            self.rows.push(Row {
                flow,
                first_ns: time_ns,
                last_ns: time_ns,
                ..Row::default()
            });
        }
        at
    }

    /// Ends a block, which lies at `offset` in the segment.
    ///
    /// # Errors
    /// None today.
    pub fn end_block(&mut self, offset: u64, length: u64) -> Result<()> {
        for row in &mut self.rows {
            row.block = (offset, length);
        }
        self.done.append(&mut self.rows);
        self.found.clear();
        self.last = 0;
        if self.done.len() >= MAX_ROWS {
            self.batches.push(std::mem::take(&mut self.done));
        }
        Ok(())
    }

    /// The rows as Parquet files. `lost_at_end`: packets that the source lost after the last packet of the segment.
    ///
    /// # Errors
    /// The rows cannot be encoded.
    pub fn finish(
        mut self,
        directory: &Directory,
        key: &str,
        lost_at_end: u64,
    ) -> Result<Vec<IndexFile>> {
        let lost_interface = directory.lost_interface.unwrap_or(0);
        self.batches.push(self.done);
        let last = self
            .batches
            .iter_mut()
            .rev()
            .find_map(|batch| batch.last_mut());
        match last {
            Some(row) => {
                row.lost_kernel = row.lost_kernel.saturating_add(lost_at_end);
                row.lost_interface = lost_interface;
            }
            // Losses of a segment without packets are not forgotten.
            None if lost_at_end > 0 || lost_interface > 0 => self.batches[0].push(Row {
                block: (0, directory.blocks.first().map_or(0, |it| it.length)),
                lost_kernel: lost_at_end,
                lost_interface,
                ..Row::default()
            }),
            None => {}
        }
        let mut files = Vec::new();
        for batch in self.batches {
            files.extend(write(batch, &directory.sensor, key)?);
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u32) -> Row {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend((0x0a00_0000 + number).to_be_bytes());
        frame.extend([10, 1, 0, 1, 0x90, number as u8, 0, 53, 0, 8, 0, 0]);
        Row {
            flow: Flow::of(LinkType::ETHERNET, &frame).0,
            packets: 1,
            ..Row::default()
        }
    }

    /// Bloom filters that are made for more rows are folded to the same ones.
    #[test]
    fn a_file_that_is_made_for_more_rows_has_the_same_bytes() {
        let segment = format!(
            "segments/sensor=hall/date=1970-01-01/hour=00/{:064}.pcapng",
            7
        );
        for count in [1, 2, 100, 3000] {
            let rows: Vec<Row> = (0..count).map(row).collect();
            let file = write(rows, "hall", &segment).unwrap().remove(0);
            let batches = read_whole(&file.bytes);
            for rows in [u64::from(count), 10 * u64::from(count), u64::MAX] {
                let mut encoder = Encoder::new(&file.date, rows).unwrap();
                batches.iter().for_each(|it| encoder.put(it).unwrap());
                assert_eq!(encoder.finish().unwrap().bytes, file.bytes, "{count}");
            }
        }
    }

    fn read_whole(bytes: &bytes::Bytes) -> Vec<arrow_array::RecordBatch> {
        use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
        let opened =
            ParquetRecordBatchReaderBuilder::try_new_with_options(bytes.clone(), options());
        let reader = opened.unwrap().with_batch_size(2048).build().unwrap();
        reader.map(Result::unwrap).collect()
    }
}
