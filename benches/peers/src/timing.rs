//! Two things timed in turns.

use pointsman_core::clock::Stopwatch;

/// Times `peer` and `ours` in turns, `rounds` times each after one for warmth; the medians in
/// seconds.
pub fn alternate(rounds: usize, mut peer: impl FnMut(), mut ours: impl FnMut()) -> (f64, f64) {
    let time = |what: &mut dyn FnMut()| {
        let start = Stopwatch::start();
        what();
        start.elapsed().as_secs_f64()
    };
    peer();
    ours();
    let times: Vec<(f64, f64)> =
        (0..rounds.max(1)).map(|_| (time(&mut peer), time(&mut ours))).collect();
    (median(times.iter().map(|t| t.0).collect()), median(times.iter().map(|t| t.1).collect()))
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
