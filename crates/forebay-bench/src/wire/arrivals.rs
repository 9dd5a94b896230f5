//! The far side of the wire: when frames arrive, as stamped by the kernel, and how their gaps differ from the intended ones.

use super::{
    lab::CAPTURED,
    roles::{RING_BYTES, stop_at_end_of_input},
};
use crate::method::process::tell;
use anyhow::{Result, bail, ensure};
use forebay::time::Clock;
use forebay_net::{
    label::{self, Found, Kind},
    open::{self, Options},
    session::{Control, Output, Session, SessionConfig},
};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes that are kept of a frame: those with the label of our own frames.
const SNAPLEN: u32 = 60;

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    pub frames: u64,
    /// Frames a second, from the first to the last.
    pub rate: f64,
    /// Of all gaps, the difference from the intended one: the median, in nanoseconds.
    pub median_ns: f64,
    /// 99 of 100 gaps differ by at most this.
    pub most_ns: f64,
}

/// Receives until the standard input ends, and reports what arrived. Frames were to arrive with these gaps.
pub fn receive(gap_ns: Option<f64>) -> Result<()> {
    let names = [format!("packet:{CAPTURED}").parse()?];
    let options = Options {
        ring_bytes: Some(u64::from(RING_BYTES)),
        snaplen: SNAPLEN,
        ..Options::default()
    };
    let clock = Clock::real();
    let ports = open::ports(&names, &options, &clock)?;
    let control = Control::new()?;
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let config = SessionConfig::default();
    let session = Session::open(ports, Output::Count, config, clock, control.clone())?;
    let session = session.each(move |frame, interface| {
        // Markers announce how many frames our generator sends, and are none of them.
        let is_marker = matches!(label::find(frame, interface.link), Found::Whole(label) if label.kind != Kind::Numbered);
        if !is_marker {
            let mut times = noted.lock().unwrap_or_else(PoisonError::into_inner);
            times.push(frame.time_ns);
        }
        true
    });
    stop_at_end_of_input(control);
    println!("ready");
    let summary = session.run(&mut |_| {});
    ensure!(summary.is_fine(), "{summary:?}");
    match summary.ledger.dropped.known() {
        0 => {}
        lost => bail!("the receiver lost {lost} frames"),
    }
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    tell(&summarized(&times, gap_ns)?)
}

fn summarized(times: &[u64], gap_ns: Option<f64>) -> Result<Arrivals> {
    let [first, .., last] = times else {
        bail!("{} frames have no gaps", times.len());
    };
    ensure!(last > first, "the clock did not go on between the frames");
    // The difference is exact only as integers: times are nanoseconds since 1970.
    let gap = |pair: &[u64]| pair[1].wrapping_sub(pair[0]).cast_signed() as f64;
    let error = |gap_ns: f64| times.windows(2).map(move |pair| (gap(pair) - gap_ns).abs());
    let mut errors: Vec<f64> = gap_ns.into_iter().flat_map(error).collect();
    errors.sort_by(f64::total_cmp);
    Ok(Arrivals {
        frames: times.len() as u64,
        rate: (times.len() - 1) as f64 * 1e9 / (last - first) as f64,
        median_ns: percentile(&errors, 50),
        most_ns: percentile(&errors, 99),
    })
}

/// The lowest of these rising figures that `percent` of 100 do not exceed; 0 of none.
fn percentile(rising: &[f64], percent: usize) -> f64 {
    let rank = (rising.len() * percent).div_ceil(100).max(1);
    rising.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_figures_that_occurred() {
        let figures: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&figures, 50), 100.0);
        assert_eq!(percentile(&figures, 99), 198.0);
        assert_eq!(percentile(&figures[..3], 50), 2.0);
        assert_eq!(percentile(&figures[..1], 99), 1.0);
        assert_eq!(percentile(&[], 50), 0.0);
    }

    /// A time as the kernel stamps it.
    const NOW: u64 = 1_795_000_000_000_000_001;

    #[test]
    fn a_rate_counts_the_gaps_and_not_the_frames() {
        let times: Vec<u64> = (0..=1000).map(|frame| NOW + frame * 1000).collect();
        let arrivals = summarized(&times, Some(1000.0)).unwrap();
        assert_eq!((arrivals.frames, arrivals.rate), (1001, 1_000_000.0));
        assert_eq!((arrivals.median_ns, arrivals.most_ns), (0.0, 0.0));
        let arrivals = summarized(&times, Some(1500.0)).unwrap();
        assert_eq!((arrivals.median_ns, arrivals.most_ns), (500.0, 500.0));
    }

    #[test]
    fn early_and_late_frames_count_alike_and_one_late_frame_has_two_wrong_gaps() {
        let mut times: Vec<u64> = (0..=100).map(|frame| NOW + frame * 1000).collect();
        times[50] += 300;
        let one = summarized(&times, Some(1000.0)).unwrap();
        assert_eq!(
            (one.rate, one.median_ns, one.most_ns),
            (1_000_000.0, 0.0, 300.0)
        );
        // Frames that the clock stamped in another order: a gap below zero.
        let swapped = [0, 2000, 1000, 3000].map(|it| NOW + it);
        let swapped = summarized(&swapped, Some(1000.0)).unwrap();
        assert_eq!((swapped.median_ns, swapped.most_ns), (1000.0, 2000.0));
    }

    #[test]
    fn too_few_frames_are_an_error() {
        for times in [&[][..], &[5], &[5, 5]] {
            assert!(summarized(times, None).is_err(), "{times:?}");
        }
    }
}
