//! A request's way to a worker: let in by its classifier, bound by its session, decided as any other.
//!
//! Owns the order of things for what is selected here. What is asked as advice goes past the classifier and
//! the line, and leaves no trace.

use std::pin::pin;
use std::sync::Arc;

use pointsman_core::classifier::Lifecycle;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::partition::{Decision, Mode, Partition};
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use tokio::time::{Instant, timeout_at};

use super::ask::Ask;
use super::error;
use super::front::Front;
use crate::decisions::{self, Made};
use crate::dispatch::DispatchError;
use crate::prompts::Prompt;
use crate::rest::RestError;
use crate::stays::{self, Stay};

/// A request that is ready to be decided.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) partition: Arc<Partition>,
    pub(super) request: RouteRequest,
    prompt: Prompt,
}

/// A decision, with what goes along.
#[derive(Debug)]
pub(super) struct Chosen<T> {
    pub(super) made: T,
    pub(super) request: Arc<RouteRequest>,
    pub(super) lifecycle: Option<Lifecycle>,
    /// None of what isn't booked.
    pub(super) stay: Option<Stay>,
}

impl Front {
    /// Nothing new is taken by a router that is stopping.
    pub(super) fn takes_new(&self) -> Result<(), RestError> {
        if self.app.draining.is_cancelled() { Err(RestError::stopping()) } else { Ok(()) }
    }

    /// Finds out what there is to know of a prompt.
    pub(super) async fn ready(&self, ask: &Ask) -> Result<Ready, RestError> {
        let app = &self.app;
        let (mut request, key) = (ask.request.clone(), &ask.request.partition);
        let partition =
            self.partition(key).inspect_err(|_| app.metrics.undecided("no_such_model"))?;
        let size = partition.block_size();
        let mut prompt = ask.input.describe(&app.prompter, key, size, &mut request);
        prompt.shared_hits = app.shared_cache.ask(key, &prompt).hits().await;
        prompt.describe(&mut request);
        let now_ms = app.dispatcher.clock().now_ms();
        app.metrics.classes().heed(app.dispatcher.router(), &request, now_ms);
        Ok(Ready { partition, request, prompt })
    }

    /// What would be decided now; nothing comes of it.
    pub(super) async fn advise(&self, ready: Ready) -> Result<Advice, RestError> {
        let Ready { mut request, .. } = ready;
        stays::foresee(&self.app.dispatcher, &mut request);
        let request = Arc::new(request);
        let decided = self.app.dispatcher.decide(request.clone(), Mode::DryRun).await;
        let Decision { worker, receipt, .. } = decided.map_err(|error| error::undecided(&error))?;
        Ok(Advice { worker, receipt, request })
    }

    /// Has it decided. What `keep` makes of the decision is done before the next one is made.
    pub(super) async fn select<T: Send + 'static>(
        &self,
        ready: Ready,
        keep: impl FnOnce(Made) -> T + Send + 'static,
    ) -> Result<Chosen<T>, RestError> {
        let end = Instant::now() + self.app.config.proxy.total_timeout;
        let Ready { mut request, prompt, .. } = ready;
        let lifecycle = self.admit(&mut request, end).await?;
        stays::foresee(&self.app.dispatcher, &mut request);
        let request = Arc::new(request);
        let decided = decisions::decide(&self.app, request.clone(), &prompt, keep);
        let made = timeout_at(end, pin!(decided)).await.map_err(|_| self.too_late())?;
        let made = made.map_err(|error| error::undecided(&error))?;
        Ok(Chosen { made, request, lifecycle, stay: None })
    }

    /// Has it decided and booked, in its stay with its session.
    pub(super) async fn book(&self, ready: Ready) -> Result<Chosen<Made>, RestError> {
        let end = Instant::now() + self.app.config.proxy.total_timeout;
        let Ready { mut request, prompt, .. } = ready;
        let lifecycle = self.admit(&mut request, end).await?;
        let dispatcher = &self.app.dispatcher;
        let stay = Stay::begin(dispatcher, &mut request, end).await;
        let mut stay = stay.map_err(|error| error::unsettled(&error))?;
        let mut request = Arc::new(request);
        loop {
            let decided = decisions::decide(&self.app, request.clone(), &prompt, |made| made);
            let decided = timeout_at(end, pin!(decided)).await.map_err(|_| self.too_late())?;
            match decided {
                Ok(made) if !stay.lost_by_decision(made.receipt()) => {
                    return Ok(Chosen { made, request, lifecycle, stay: Some(stay) });
                }
                Err(lost) if !stay.lost_by_error(&lost) => {
                    let lost: DispatchError = stay.in_words(lost, &request.partition);
                    return Err(error::undecided(&lost));
                }
                // Its session's worker is another one by now.
                Ok(_) | Err(_) => {
                    let request = Arc::make_mut(&mut request);
                    let renewed = stay.renew(dispatcher, request, end).await;
                    renewed.map_err(|error| error::unsettled(&error))?;
                }
            }
        }
    }

    async fn admit(
        &self,
        request: &mut RouteRequest,
        end: Instant,
    ) -> Result<Option<Lifecycle>, RestError> {
        let admitted = timeout_at(end, pin!(self.app.desks.admit(request))).await;
        // Dropped on every other way out, it says that the request was aborted.
        admitted.map_err(|_| self.too_late())?.map_err(|error| {
            self.app.metrics.undecided(error.kind());
            error::not_admitted(&error)
        })
    }

    fn too_late(&self) -> RestError {
        self.app.metrics.undecided("decision_timeout");
        error::too_late()
    }
}

/// What would be decided.
#[derive(Debug)]
pub(super) struct Advice {
    pub(super) worker: Arc<WorkerSpec>,
    pub(super) receipt: Receipt,
    pub(super) request: Arc<RouteRequest>,
}
