//! One value in several parts: a scorer that also observes, a picker that also hands over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::candidates::{Candidates, Row};
use crate::context::Context;
use crate::fleet::{FleetFollower, Member};
use crate::handover::Handover;
use crate::observer::{Observer, Outcome};
use crate::stage::{WorkerFilter, WorkerPicker, WorkerScorer};
use crate::{Input, Result};

/// A handle to one value that takes part in a policy more than once. Clones share the value, and a
/// handle is every part that the value is.
///
/// ```
/// use pointsman_sdk::prelude::*;
///
/// /// Costs a request more where answers failed before.
/// #[derive(Default)]
/// struct Failures(std::collections::BTreeMap<Worker, f64>);
///
/// impl WorkerScorer for Failures {
///     fn inputs(&self) -> Vec<Input> {
///         vec![Input::Identity]
///     }
///
///     fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
///         rows.score(costs, |row| self.0.get(&row.worker()).copied().unwrap_or(0.0));
///         Ok(())
///     }
/// }
///
/// impl Observer for Failures {
///     fn observe(&mut self, outcomes: &[Outcome]) -> Result {
///         for outcome in outcomes {
///             if let OutcomeEvent::Failed(_) = outcome.event {
///                 *self.0.entry(outcome.worker).or_default() += 1.0;
///             }
///         }
///         Ok(())
///     }
/// }
///
/// let failures = Shared::new(Failures::default());
/// let stages = Stages::new().scorer(failures.clone()).observer(failures);
/// ```
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Shared<T> {
    /// The first handle.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Looks at the value or changes it. Calls on an instance are serial, so this never waits;
    /// `with` must not be called within `with`.
    pub fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        // A panic ends an instance; what a native test reads afterwards is as good as it was.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: WorkerFilter> WorkerFilter for Shared<T> {
    fn name(&self) -> String {
        self.lock().name()
    }

    fn inputs(&self) -> Vec<Input> {
        self.lock().inputs()
    }

    fn prepare(&mut self, cx: &Context<'_>, rows: &Candidates<'_>) -> Result {
        self.lock().prepare(cx, rows)
    }

    fn keep(&mut self, cx: &Context<'_>, row: Row<'_>) -> Result<bool> {
        self.lock().keep(cx, row)
    }
}

impl<T: WorkerScorer> WorkerScorer for Shared<T> {
    fn name(&self) -> String {
        self.lock().name()
    }

    fn inputs(&self) -> Vec<Input> {
        self.lock().inputs()
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        self.lock().score(cx, rows, costs)
    }
}

impl<T: WorkerPicker> WorkerPicker for Shared<T> {
    fn name(&self) -> String {
        self.lock().name()
    }

    fn inputs(&self) -> Vec<Input> {
        self.lock().inputs()
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        self.lock().pick(cx, rows, costs)
    }
}

impl<T: Observer> Observer for Shared<T> {
    fn observe(&mut self, outcomes: &[Outcome]) -> Result {
        self.lock().observe(outcomes)
    }
}

impl<T: FleetFollower> FleetFollower for Shared<T> {
    fn fleet_changed(&mut self, generation: u64, members: &[Member]) -> Result {
        self.lock().fleet_changed(generation, members)
    }
}

impl<T: Handover> Handover for Shared<T> {
    fn save(&self) -> Result<Vec<u8>> {
        self.lock().save()
    }

    fn restore(&mut self, state: &[u8]) -> Result {
        self.lock().restore(state)
    }
}
