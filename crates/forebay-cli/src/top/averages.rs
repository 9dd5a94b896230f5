//! The rates of rows, averaged over the last seconds, so that rows do not change places with each burst.

use super::tables::{Row, Rows};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

/// The rates of rows are averages over this time.
const AVERAGED: Duration = Duration::from_secs(10);
/// The shortest time between two points that are kept, so that there are few.
const STEP: Duration = Duration::from_millis(900);

/// The bytes of each row in both directions at one time.
type Counts = [HashMap<String, [u64; 2]>; 4];

/// The counts of the last seconds.
#[derive(Default)]
pub struct Averages {
    points: VecDeque<(Duration, Counts)>,
}

impl Averages {
    /// Sets the rates of `rows`, which are the counts at the time `now`. `old` has the last rates.
    pub fn rate(&mut self, now: Duration, rows: &mut Rows, old: &Rows) {
        if self.points.is_empty() {
            // Without rows, counting begins now.
            let is_empty = rows.iter().all(Vec::is_empty);
            let begin = if is_empty { now } else { Duration::ZERO };
            self.points.push_back((begin, Counts::default()));
        }
        let is_old = |point: &(Duration, Counts)| now.saturating_sub(point.0) >= AVERAGED;
        while self.points.get(1).is_some_and(is_old) {
            self.points.pop_front();
        }
        let (since, counts) = &self.points[0];
        let seconds = now.saturating_sub(*since).as_secs_f64();
        for ((rows, counts), old) in rows.iter_mut().zip(counts).zip(old) {
            let ranks = old.iter().map(|row| (row.name.as_str(), row.rank));
            let ranks: HashMap<_, _> = ranks.collect();
            for row in rows {
                let [sent, received] = counts.get(&row.name).copied().unwrap_or_default();
                let [all_sent, all_received] = row.way_bytes();
                let bytes = [
                    all_sent.saturating_sub(sent),
                    all_received.saturating_sub(received),
                ];
                let rank = ranks.get(row.name.as_str()).copied();
                row.set_rates(bytes, seconds, rank.unwrap_or(0.0));
            }
        }
        let last = self.points.back().map(|point| point.0);
        if last.is_none_or(|last| now.saturating_sub(last) >= STEP) {
            let counts = |rows: &Vec<_>| {
                let count = |row: &Row| (row.name.clone(), row.way_bytes());
                rows.iter().map(count).collect()
            };
            self.points.push_back((now, rows.each_ref().map(counts)));
        }
    }
}
