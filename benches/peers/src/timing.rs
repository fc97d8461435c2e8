//! Several things timed in turns.

use anyhow::Result;
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

/// The same with any number, each of which may fail. `prepare` is called before each round.
pub fn in_turns<const N: usize, T>(
    rounds: usize,
    of: &mut T,
    mut prepare: impl FnMut(&mut T),
    what: [fn(&mut T) -> Result<()>; N],
) -> Result<[f64; N]> {
    let mut times = [const { Vec::new() }; N];
    for round in 0..=rounds.max(1) {
        prepare(of);
        for (what, times) in what.iter().zip(&mut times) {
            let start = Stopwatch::start();
            what(of)?;
            let seconds = start.elapsed().as_secs_f64();
            // One for warmth.
            times.extend((round > 0).then_some(seconds));
        }
    }
    Ok(times.map(median))
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
