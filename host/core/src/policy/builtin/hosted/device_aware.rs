//! `device-aware`: accelerators first, and workers that run on processors alone for as much as they
//! can bear beside them.
//!
//! A worker on processors is taken to be `ratio` times slower than one with an accelerator. It gets
//! requests while those on processors together carry less than their share of what the accelerated
//! ones carry: `accelerated load x processor workers / (ratio x accelerated workers)`. Within the kind,
//! the one with the fewest active requests is picked. A worker's kind is its `device_kind`.
//!
//! Workers are counted by their ranks, as everywhere in the router. Which of them holds a request's
//! content isn't looked at: what caches hold is for policies that read it.

use serde::Deserialize;

use super::side_by_side::least_loaded;
use super::{bound, parameters};
use crate::clock::Chance;
use crate::fleet::Snapshot;
use crate::hosted::{Ask, HostedPicker};
use crate::ids::WorkerRank;
use crate::policy::builtin::pick_lowest;
use crate::policy::candidates::Candidates;
use crate::policy::catalog::PolicyEnvironment;
use crate::policy::declaration::Properties;
use crate::policy::failure::StageError;
use crate::policy::input::Input;
use crate::policy::native::{NativePolicy, WorkerPicker};
use crate::policy::view::RequestView;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// How many times slower a worker on processors is; at least 1.
    #[serde(default = "usual_ratio")]
    ratio: f64,
}

fn usual_ratio() -> f64 {
    8.0
}

pub(in crate::policy::builtin) fn build(
    environment: &PolicyEnvironment,
) -> Result<NativePolicy, String> {
    let Parameters { ratio } = parameters(environment)?;
    if !(ratio.is_finite() && ratio >= 1.0) {
        return Err(format!("parameters: ratio {ratio} is out of range; expected at least 1"));
    }
    let properties = Properties { follows_fleet: true, ..Properties::default() };
    let picker = DeviceAware { ratio, on_cpu: Vec::new(), requests: Vec::new(), among: Vec::new() };
    Ok(NativePolicy::new(properties)
        .picker("device-aware", picker)
        .hosted_unguarded(HostedDeviceAware { ratio }))
}

/// Rows and load of the two kinds.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds {
    /// (rows, requests)
    accelerated: (u32, f64),
    on_cpu: (u32, f64),
}

impl Kinds {
    fn add(&mut self, on_cpu: bool, requests: f64) {
        let kind = if on_cpu { &mut self.on_cpu } else { &mut self.accelerated };
        kind.0 += 1;
        kind.1 += requests;
    }

    /// Whether the next request is for a worker on processors.
    fn is_for_cpu(&self, ratio: f64) -> bool {
        let ((accelerated, load), (on_cpu, cpu_load)) = (self.accelerated, self.on_cpu);
        if accelerated == 0 || on_cpu == 0 {
            return accelerated == 0;
        }
        cpu_load < load * f64::from(on_cpu) / (ratio * f64::from(accelerated))
    }
}

/// For many threads at once.
#[derive(Debug)]
struct HostedDeviceAware {
    ratio: f64,
}

impl HostedPicker for HostedDeviceAware {
    fn choose(&self, ask: &Ask<'_>) -> Option<u32> {
        let mut kinds = Kinds::default();
        ask.rows.each(|row| kinds.add(ask.is_on_cpu(row), ask.load(row).into()));
        let for_cpu = kinds.is_for_cpu(self.ratio);
        least_loaded(ask, |row| ask.is_on_cpu(row) == for_cpu)
    }
}

/// Under the partition's lock.
#[derive(Debug)]
struct DeviceAware {
    ratio: f64,
    /// The ranks that run on processors, in row order.
    on_cpu: Vec<WorkerRank>,
    /// Kept for the next decision: the rows of the kind that is picked from, and their requests.
    among: Vec<usize>,
    requests: Vec<f64>,
}

impl WorkerPicker for DeviceAware {
    fn inputs(&self) -> &[Input] {
        &[Input::Identity, Input::ActiveRequests]
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        _costs: &[f64],
    ) -> Result<usize, StageError> {
        let range = bound(request, rows).unwrap_or(0..rows.rows());
        let ids = rows.identity().unwrap_or_default();
        let requests = rows.column(Input::ActiveRequests).unwrap_or_default();
        let is_on_cpu =
            |row: usize| ids.get(row).is_some_and(|rank| self.on_cpu.binary_search(rank).is_ok());
        let load = |row: usize| requests.get(row).copied().unwrap_or(0.0);
        let mut kinds = Kinds::default();
        range.clone().for_each(|row| kinds.add(is_on_cpu(row), load(row)));
        let for_cpu = kinds.is_for_cpu(self.ratio);
        self.among.clear();
        self.among.extend(range.filter(|&row| is_on_cpu(row) == for_cpu));
        self.requests.clear();
        self.requests.extend(self.among.iter().map(|&row| load(row)));
        let at = pick_lowest(&self.requests, &mut Chance::new(request.moment.seed));
        Ok(self.among.get(at).copied().unwrap_or(0))
    }

    fn fleet_changed(&mut self, fleet: &Snapshot) {
        let rows = fleet.rows.iter().enumerate();
        let on_cpu = rows
            .filter(|(row, _)| fleet.worker(*row).is_some_and(|worker| worker.spec.runs_on_cpu()));
        self.on_cpu = on_cpu.map(|(_, rank)| *rank).collect();
    }
}
