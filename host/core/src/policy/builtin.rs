//! The policies that come with the router. They use the public stage traits and nothing else.

mod cost;
mod hosted;
mod softmax;
mod two_tier;

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::catalog::{Digest, InstantiateError, PolicyEnvironment, PolicyProvider};
use super::instance::PolicyInstance;
use super::native::NativePolicy;
use crate::clock::Chance;
use crate::lanes::{self, BLOCK};

pub use cost::{CostParameters, DefaultCost, preferred_taint_multiplier};
pub use softmax::DefaultPicker;

/// The built-ins' names; no component can take them. Two have a second one, under which users of
/// the linked router know them.
pub const NAMES: [&str; 10] = [
    "default",
    "device-aware",
    "direct",
    "dynamo-default-cost-fn",
    "dynamo-two-tier-cost-fn",
    "least-loaded",
    "power-of-two",
    "random",
    "round-robin",
    "two-tier",
];

/// The policy that goes where a request says, and nowhere else.
pub(crate) const DIRECT: &str = "direct";

type Build = fn(&PolicyEnvironment) -> Result<NativePolicy, String>;

/// A built-in policy type.
#[derive(Debug)]
struct Builtin {
    name: &'static str,
    build: Build,
}

impl PolicyProvider for Builtin {
    fn policy_type(&self) -> &str {
        self.name
    }

    fn digest(&self) -> Option<&Digest> {
        None
    }

    fn instantiate(
        &self,
        environment: &PolicyEnvironment,
    ) -> Result<Box<dyn PolicyInstance>, InstantiateError> {
        match (self.build)(environment) {
            Ok(policy) => Ok(Box::new(policy)),
            Err(reason) => {
                Err(InstantiateError::Refused { policy_type: self.name.to_owned(), reason })
            }
        }
    }
}

/// All built-ins.
#[must_use]
pub fn providers() -> Vec<Arc<dyn PolicyProvider>> {
    let builds: [Build; NAMES.len()] = [
        cost::build,
        hosted::device_aware::build,
        hosted::direct,
        cost::build,
        two_tier::build,
        hosted::least_loaded,
        hosted::power_of_two,
        hosted::random,
        hosted::round_robin,
        two_tier::build,
    ];
    NAMES
        .into_iter()
        .zip(builds)
        .map(|(name, build)| Arc::new(Builtin { name, build }) as Arc<dyn PolicyProvider>)
        .collect()
}

/// The row of the lowest cost; ties are broken evenly by `chance`. 0 when there is no row.
///
/// One draw per tie and none without; the SDK's picker does the same, bit for bit. Where nobody else is as
/// low, ties of higher costs draw nothing either: what they would have said is of no account.
#[must_use]
pub fn pick_lowest(costs: &[f64], chance: &mut Chance) -> usize {
    let (lowest, at, blocks) = lanes::lowest(costs);
    let block = costs.chunks(BLOCK).nth(at).filter(|_| blocks == 1).unwrap_or_default();
    match lanes::only(block, lowest) {
        Some(row) => at * BLOCK + row,
        None => pick_in_turn(costs, chance),
    }
}

/// The same, row by row.
fn pick_in_turn(costs: &[f64], chance: &mut Chance) -> usize {
    let (mut best, mut lowest, mut ties) = (0, f64::INFINITY, 0_u32);
    for (row, &cost) in costs.iter().enumerate() {
        // Infinite costs, which the host lets nobody give, are costs like others all the same.
        if cost < lowest || (ties == 0 && cost == lowest) {
            (best, lowest, ties) = (row, cost, 1);
        } else if cost == lowest {
            ties += 1;
            if chance.unit() < 1.0 / f64::from(ties) {
                best = row;
            }
        }
    }
    best
}

/// Reads a policy's parameters; unknown keys are the type's to refuse.
fn parameters<T: DeserializeOwned>(environment: &PolicyEnvironment) -> Result<T, String> {
    let object = serde_json::Value::Object((*environment.parameters).clone());
    serde_json::from_value(object).map_err(|error| format!("parameters: {error}"))
}

#[cfg(test)]
mod tests;
