//! The router's built-in `default`, as a component: the same stages, costs and choices, bit for
//! bit. Start from it to change the formula.

mod cost;
mod settings;

use pointsman_sdk::prelude::*;

pub use cost::KvCost;
pub use settings::{Settings, Weights};

/// The KV cost function, and the lowest cost or a draw by softmax.
#[derive(Debug, Clone, Copy)]
pub struct DefaultCost;

impl Policy for DefaultCost {
    type Parameters = Settings;

    fn about() -> About {
        about!()
    }

    fn build(settings: Settings, environment: &Environment) -> Result<Stages> {
        let weights = settings.over(environment)?;
        let role = environment.partition.role;
        // Where the prefill worker is never skipped, decode workers compute no prompt.
        let skips: bool = environment.router_setting("router_conditional_disagg")?.unwrap_or(false);
        let plain_decode = role == Role::Decode && !skips;
        Ok(Stages::new()
            .filter(Affinity::default())
            .scorer(KvCost::new(&weights, role, plain_decode))
            .picker(LowestOrSoftmax { temperature: weights.router_temperature })
            .stateless()
            .replicable())
    }
}

export_policy!(DefaultCost);

/// Narrows the rows to the worker that the session is softly bound to, while it is one of them.
#[derive(Default)]
struct Affinity {
    /// The target of this decision, if some row is it.
    target: Option<WorkerTarget>,
}

impl WorkerFilter for Affinity {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity]
    }

    fn prepare(&mut self, cx: &Context<'_>, rows: &Candidates<'_>) -> Result {
        self.target = cx
            .request
            .affinity_target
            .filter(|target| rows.iter().any(|row| target.matches(row.worker())));
        Ok(())
    }

    fn keeps_all(&self) -> bool {
        self.target.is_none()
    }

    fn keep(&mut self, _: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(self.target.is_none_or(|target| target.matches(row.worker())))
    }
}

/// The lowest cost, or at a temperature a draw that prefers low costs. A request's own temperature
/// comes first.
struct LowestOrSoftmax {
    temperature: f64,
}

impl WorkerPicker for LowestOrSoftmax {
    fn pick(&mut self, cx: &Context<'_>, _: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        let temperature = cx.request.router_temperature.unwrap_or(self.temperature);
        Ok(pick::softmax(costs, temperature, &mut cx.random()))
    }
}

#[cfg(test)]
mod tests;
