//! A door for a classifier's unit tests: requests come and end, and the test sees what is released.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::{
    Classifier, ClassifierEnvironment, ClassifyRequest, Instance, LifecycleEvent, LiveRequest,
    Verdict,
};
use crate::request::Worker;
use crate::{Result, Session, testing};

/// An aggregated partition of block size 16 with the class `default` and no workers, and these
/// parameters as JSON.
pub fn environment(parameters: impl Display) -> ClassifierEnvironment {
    let of = testing::environment(parameters);
    ClassifierEnvironment {
        partition: of.partition,
        parameters: of.parameters,
        router_config: of.router_config,
        policy_classes: vec!["default".to_owned()],
        workers: Vec::new(),
        seed: of.seed,
    }
}

/// A request of 100 tokens and that id in the class `default`.
pub fn request(id: &str) -> ClassifyRequest {
    ClassifyRequest {
        request_id: id.to_owned(),
        policy_class: "default".to_owned(),
        input_tokens: 100,
        scheduling_cost_tokens: 100,
        ..ClassifyRequest::default()
    }
}

/// A session of that id.
pub fn session(id: &str) -> Option<Session> {
    Some(Session { id: id.to_owned(), ..Session::default() })
}

/// A classifier under test, as a host would ask it: it panics where a host would find a bad answer.
#[derive(Debug)]
pub struct Door {
    instance: Instance,
    held: BTreeSet<String>,
    /// The time of the next call, in milliseconds.
    pub now_ms: u64,
}

impl Door {
    /// Configures the classifier in [`environment`].
    ///
    /// # Errors
    ///
    /// What the classifier refuses.
    pub fn of<C: Classifier>(parameters: impl Display) -> Result<Self> {
        let instance = Instance::configure::<C>(&environment(parameters))?;
        Ok(Self { instance, held: BTreeSet::new(), now_ms: 0 })
    }

    /// The instance itself.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// A [`request`] of that id comes, changed as the test wants.
    ///
    /// # Errors
    ///
    /// The classifier's refusal.
    ///
    /// # Panics
    ///
    /// If more are held than were declared, or a charge of nothing is given.
    pub fn arrive(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut ClassifyRequest),
    ) -> Result<Verdict> {
        let mut request = request(id);
        (request.now_ms, request.arrived_at_ms) = (self.now_ms, self.now_ms);
        change(&mut request);
        let verdict = self.instance.classify(&request)?;
        self.check(&verdict);
        if verdict == Verdict::Hold {
            self.held.insert(id.to_owned());
            let most = self.instance.declaration().most_held as usize;
            assert!(self.held.len() <= most, "held {}, declared {most}", self.held.len());
        }
        Ok(verdict)
    }

    /// A request of that session comes.
    ///
    /// # Errors
    ///
    /// The classifier's refusal.
    pub fn arrive_of(&mut self, id: &str, of_session: &str) -> Result<Verdict> {
        self.arrive(id, |request| request.session = session(of_session))
    }

    /// A request ends well. Returns those that are admitted by that, in order.
    ///
    /// # Errors
    ///
    /// The classifier's refusal.
    pub fn complete(&mut self, id: &str) -> Result<Vec<String>> {
        self.tell(&LifecycleEvent::Completed(id.to_owned(), None))
    }

    /// A request's client leaves.
    ///
    /// # Errors
    ///
    /// The classifier's refusal.
    pub fn abort(&mut self, id: &str) -> Result<Vec<String>> {
        self.held.remove(id);
        self.tell(&LifecycleEvent::Aborted(id.to_owned(), None))
    }

    /// The host admits a held request in the classifier's place.
    ///
    /// # Errors
    ///
    /// The classifier's refusal.
    pub fn admit(&mut self, id: &str) -> Result<Vec<String>> {
        self.held.remove(id);
        self.tell(&LifecycleEvent::Admitted(id.to_owned()))
    }

    /// A request was admitted before the classifier began.
    ///
    /// # Errors
    ///
    /// The classifier's refusal.
    pub fn inherit(&mut self, id: &str, of_session: Option<Session>) -> Result<Vec<String>> {
        let request = ClassifyRequest { session: of_session, ..request(id) };
        let worker = Some(Worker { id: 1, dp_rank: 0 });
        self.tell(&LifecycleEvent::Inherited(LiveRequest { request, worker, responding: true }))
    }

    /// Tells it of any event. Returns the requests that are admitted by that, in order.
    ///
    /// # Errors
    ///
    /// The classifier's refusal.
    ///
    /// # Panics
    ///
    /// If what isn't held is released.
    pub fn tell(&mut self, event: &LifecycleEvent) -> Result<Vec<String>> {
        let mut admitted = Vec::new();
        for release in self.instance.on_event(event, self.now_ms)? {
            let id = release.request_id;
            self.check(&release.verdict);
            if release.verdict == Verdict::Hold {
                continue;
            }
            assert!(self.held.remove(&id), "{id:?} was released, and isn't held");
            if release.verdict.is_admitted() {
                admitted.push(id);
            }
        }
        Ok(admitted)
    }

    fn check(&self, verdict: &Verdict) {
        if let Verdict::Admit(admission) = verdict {
            assert_ne!(admission.scheduling_cost_tokens, Some(0), "a charge of nothing");
        }
    }
}
