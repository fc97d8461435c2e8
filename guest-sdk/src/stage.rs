//! The three kinds of stage that a policy is made of: filters, scorers, one picker.
//!
//! A decision runs filters, then scorers over the rows that are left, then the picker. Calls on one
//! instance are serial, and `&mut self` lives as long as the instance, so a stage may keep state;
//! only one that keeps none may call its policy stateless.

use crate::candidates::{Candidates, Row};
use crate::context::Context;
use crate::{Input, Result};

/// Takes workers out of the running.
///
/// Called once per decision, first of all stages. With several filters, each sees all rows, and a
/// row stays when all keep it. When no row is left, the client is told so and no later stage is
/// called.
pub trait WorkerFilter: Send + 'static {
    /// What it is called in receipts and metrics; unless overridden, the type's name in kebab case.
    fn name(&self) -> String {
        type_name_in_kebab_case::<Self>()
    }

    /// What it reads. Asked once, when the instance is configured.
    fn inputs(&self) -> Vec<Input>;

    /// Called before the decision's first [`keep`](Self::keep), for filters that must see all rows
    /// to judge one.
    ///
    /// # Errors
    ///
    /// Ends the decision as a policy failure.
    fn prepare(&mut self, cx: &Context<'_>, rows: &Candidates<'_>) -> Result {
        let _ = (cx, rows);
        Ok(())
    }

    /// Whether each row stays, so that none has to be asked about: asked after [`prepare`](Self::prepare).
    /// A filter that few requests concern is cheap by this.
    fn keeps_all(&self) -> bool {
        false
    }

    /// Whether the row stays. Called once per row, in order.
    ///
    /// # Errors
    ///
    /// Ends the decision as a policy failure.
    fn keep(&mut self, cx: &Context<'_>, row: Row<'_>) -> Result<bool>;
}

/// Says what each worker would cost.
///
/// Called once per decision. Costs of several scorers are added.
pub trait WorkerScorer: Send + 'static {
    /// What it is called in receipts and metrics; unless overridden, the type's name in kebab case.
    fn name(&self) -> String {
        type_name_in_kebab_case::<Self>()
    }

    /// What it reads. Asked once, when the instance is configured.
    fn inputs(&self) -> Vec<Input>;

    /// Writes one finite cost per row into `costs`, lower is better. `costs` comes filled with NaN,
    /// so a row left out is found out: the decision then counts as a policy failure.
    ///
    /// # Errors
    ///
    /// Ends the decision as a policy failure.
    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result;
}

/// Chooses one of the workers that are left.
///
/// Called once per decision. A policy without a picker gets the lowest cost, as
/// [`pick::lowest`](crate::pick::lowest) has it.
pub trait WorkerPicker: Send + 'static {
    /// What it is called in receipts and metrics; unless overridden, the type's name in kebab case.
    fn name(&self) -> String {
        type_name_in_kebab_case::<Self>()
    }

    /// What it reads besides the costs. Asked once, when the instance is configured.
    fn inputs(&self) -> Vec<Input> {
        Vec::new()
    }

    /// The index of the chosen row. `costs` has one value per row, 0 when the policy has no scorer.
    ///
    /// # Errors
    ///
    /// Ends the decision as a policy failure.
    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &[f64]) -> Result<usize>;
}

/// A filter whose loop over the rows was compiled together with its `keep`, behind one call per
/// decision.
pub(crate) trait FilterLoop: Send {
    /// Makes the mask one of the rows that stay; an empty one where none has to be asked about, and all
    /// do.
    fn run(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, mask: &mut Vec<u64>) -> Result;
}

impl<F: WorkerFilter> FilterLoop for F {
    fn run(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, mask: &mut Vec<u64>) -> Result {
        mask.clear();
        self.prepare(cx, rows)?;
        if self.keeps_all() {
            return Ok(());
        }
        let words = rows.len().div_ceil(64);
        mask.reserve_exact(words);
        mask.resize(words, 0);
        let mut next = 0;
        for word in mask {
            // Whole bytes first: eight rows to a turn save fuel.
            let last = rows.len().min(next + 64);
            let first = next;
            while next + 8 <= last {
                let mut byte = 0;
                for bit in 0..8 {
                    byte |= u64::from(self.keep(cx, rows.at(next + bit))?) << bit;
                }
                *word |= byte << (next - first);
                next += 8;
            }
            while next < last {
                *word |= u64::from(self.keep(cx, rows.at(next))?) << (next - first);
                next += 1;
            }
        }
        Ok(())
    }
}

/// `MinimumOverlap<T>` as `minimum-overlap`.
fn type_name_in_kebab_case<T: ?Sized>() -> String {
    let path = std::any::type_name::<T>();
    let path = path.split('<').next().unwrap_or(path);
    kebab_case(path.rsplit("::").next().unwrap_or(path))
}

fn kebab_case(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::*;

    struct LeastOf<T>(T);

    impl<T: Send + 'static> WorkerPicker for LeastOf<T> {
        fn pick(&mut self, _: &Context<'_>, _: &Candidates<'_>, _: &[f64]) -> Result<usize> {
            Ok(0)
        }
    }

    #[test]
    fn a_stage_is_named_after_its_type() {
        assert_eq!(LeastOf(1).name(), "least-of");
        assert_eq!(kebab_case("CacheLocalOnToolResult"), "cache-local-on-tool-result");
    }
}
