//! The picker of `default`: the lowest cost, or a draw by softmax over the costs' range.

use super::pick_lowest;
use crate::clock::Chance;
use crate::policy::candidates::Candidates;
use crate::policy::failure::StageError;
use crate::policy::input::Input;
use crate::policy::native::WorkerPicker;
use crate::policy::view::RequestView;

/// The lowest cost, or at a temperature a draw that prefers low costs.
#[derive(Debug)]
pub struct DefaultPicker {
    /// 0 picks the lowest.
    pub temperature: f64,
}

impl WorkerPicker for DefaultPicker {
    fn inputs(&self) -> &[Input] {
        &[]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        _rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        if costs.len() <= 1 {
            return Ok(0);
        }
        let mut chance = Chance::new(request.moment.seed);
        let temperature = request.router_temperature.unwrap_or(self.temperature);
        if temperature > 0.0 {
            Ok(pick_softmax(costs, temperature, &mut chance))
        } else {
            Ok(pick_lowest(costs, &mut chance))
        }
    }
}

/// Draws a row with probability falling exponentially in its cost, over the costs' range. One draw.
fn pick_softmax(costs: &[f64], temperature: f64, chance: &mut Chance) -> usize {
    let draw = chance.unit();
    let last = costs.len() - 1;
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for &cost in costs {
        low = low.min(cost);
        high = high.max(cost);
    }
    if low == high {
        return ((draw * costs.len() as f64) as usize).min(last);
    }
    // The range of two finite costs may overflow; then everything shrinks first.
    let shrink = if (high - low).is_finite() { 1.0 } else { low.abs().max(high.abs()) };
    let (low, high) = (low / shrink, high / shrink);
    let span = (high - low) * temperature;
    let weight = |cost: f64| {
        let above = cost / shrink - low;
        // The lowest weighs 1 even where the temperature makes the span too small for a double.
        if above == 0.0 { 1.0 } else { libm::exp(-above / span) }
    };
    let total: f64 = costs.iter().map(|&cost| weight(cost)).sum();
    let mut reached = 0.0;
    for (row, &cost) in costs.iter().enumerate() {
        reached += weight(cost) / total;
        if draw <= reached {
            return row;
        }
    }
    last
}
