//! What the tests share: an engine, an environment, rows to decide about.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pointsman_core::clock::{Moment, Stopwatch};
use pointsman_core::ids::{DecisionId, DpRank, PartitionKey, WorkerId, WorkerRank};
use pointsman_core::policy::candidates::Matrix;
use pointsman_core::policy::{
    Candidates, Input, InputSet, InstantiateError, Limits, PolicyEnvironment, PolicyInstance,
    PolicyProvider, RequestView, RowMask, StageError,
};
use pointsman_core::request::RouteRequest;
use pointsman_wasm::{ComponentPolicy, EngineConfig, LoadError, PolicyEngine};

use crate::guests::{guest, varied};

/// One engine for all tests: a pool maps much memory.
pub(crate) fn engine() -> &'static PolicyEngine {
    static ENGINE: OnceLock<PolicyEngine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let config = EngineConfig { pooled_instances: 64, ..EngineConfig::default() };
        PolicyEngine::new(config).unwrap()
    })
}

pub(crate) fn partition() -> PartitionKey {
    environment().partition
}

pub(crate) fn environment() -> PolicyEnvironment {
    // A loop is to end by its fuel, however busy the machine is that runs the tests.
    let limits = Limits { deadline: Some(Duration::from_secs(20)), ..Limits::default() };
    PolicyEnvironment { limits, ..pointsman_core::testing::environment() }
}

pub(crate) fn load(name: &str) -> Result<ComponentPolicy, LoadError> {
    ComponentPolicy::load(engine(), name, Path::new(&format!("{name}.wasm")), &guest(name))
}

/// The template with parts in place of its own, loaded.
pub(crate) fn component(parts: &str) -> ComponentPolicy {
    ComponentPolicy::load(engine(), "x", Path::new("x.wasm"), &varied(parts))
        .unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn instance(name: &str) -> Result<Box<dyn PolicyInstance>, InstantiateError> {
    load(name).unwrap_or_else(|error| panic!("{name}: {error}")).instantiate(&environment())
}

/// Rows with `active-requests`, and a request of 40 tokens at a moment.
pub(crate) struct Case {
    ids: Vec<WorkerRank>,
    matrix: Matrix,
    request: RouteRequest,
    pub(crate) moment: Moment,
}

impl Case {
    pub(crate) fn new(active_requests: &[f64]) -> Self {
        let ids = (0..active_requests.len() as u64)
            .map(|id| WorkerRank { worker_id: WorkerId(10 + id), dp_rank: DpRank(0) });
        let mut matrix = Matrix::new(&[Input::ActiveRequests]);
        matrix.fill(active_requests.len(), |_, column| column.copy_from_slice(active_requests));
        Self {
            ids: ids.collect(),
            matrix,
            request: RouteRequest::new("r", partition(), 41),
            moment: Moment { now_ms: 1234, seed: 99 },
        }
    }

    pub(crate) fn tokens(mut self, tokens: u64) -> Self {
        self.request.prompt_tokens = tokens;
        self
    }

    fn rows(&self) -> Candidates<'_> {
        let declared: InputSet = [Input::ActiveRequests].into_iter().collect();
        Candidates::new(&self.ids, &self.matrix, declared, &[])
    }

    /// The request as a decision of its own.
    fn view(&self) -> RequestView<'_> {
        static DECISIONS: AtomicU64 = AtomicU64::new(0);
        let decision = DecisionId(DECISIONS.fetch_add(1, Ordering::Relaxed));
        RequestView::new(&self.request, decision, self.moment, 16, true, None)
    }

    pub(crate) fn keep(&self, on: &mut dyn PolicyInstance) -> Result<Vec<usize>, StageError> {
        let mut mask = RowMask::default();
        mask.keep_all(self.ids.len());
        on.keep(0, &self.view(), &self.rows(), &mut mask)?;
        Ok(mask.iter().collect())
    }

    pub(crate) fn score(&self, on: &mut dyn PolicyInstance) -> Result<Vec<f64>, StageError> {
        let mut costs = vec![f64::NAN; self.ids.len()];
        on.score(0, &self.view(), &self.rows(), &mut costs)?;
        Ok(costs)
    }

    pub(crate) fn pick(&self, on: &mut dyn PolicyInstance) -> Result<usize, StageError> {
        let costs: Vec<f64> = self.rows().column(Input::ActiveRequests).unwrap().to_vec();
        on.pick(&self.view(), &self.rows(), &costs)
    }
}

/// Waits for what another thread brings about; fails after ten seconds.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Stopwatch::start();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < Duration::from_secs(10), "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
