//! The form of a case of admissions.

use pointsman_core::request::{InputTrigger, Session};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::names::{RowName, TargetName};
use super::place::CasePlace;

/// What one classifier is asked and told, in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionCase {
    /// A sentence: what is promised.
    pub name: String,
    /// The classifier's parameters; the file's unless set.
    pub parameters: Option<Map<String, Value>>,
    /// Router settings that classifiers see.
    #[serde(default)]
    pub router: Map<String, Value>,
    /// What the classifier serves.
    #[serde(default)]
    pub partition: CasePlace,
    /// The workers when it begins.
    #[serde(default)]
    pub workers: Vec<KvCapacity>,
    /// The classifier is to refuse its configuration, in words that have these among them.
    pub refused: Option<String>,
    /// What happens.
    #[serde(default)]
    pub steps: Vec<AdmissionStep>,
}

/// What a rank can hold.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KvCapacity {
    /// The worker.
    pub worker: u64,
    /// Its data-parallel rank; 0 unless set.
    #[serde(default)]
    pub rank: u32,
    /// Its KV blocks in all; none when it didn't say.
    pub total_kv_blocks: Option<u64>,
}

/// One thing that happens: exactly one of the events.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionStep {
    /// When, in milliseconds on the router's clock; as the step before unless set.
    pub at_ms: Option<u64>,
    /// A request comes.
    pub arrives: Option<Arrives>,
    /// A request was admitted before the instance began.
    pub inherited: Option<Inherited>,
    /// The router admits a held request in the classifier's place.
    pub admitted: Option<Told>,
    /// A request is sent to a worker.
    pub sent: Option<Told>,
    /// Its first output comes.
    pub responding: Option<Told>,
    /// It ends well.
    pub completed: Option<Told>,
    /// It ends otherwise.
    pub aborted: Option<Told>,
    /// The workers are now others.
    pub fleet: Option<NewFleet>,
    /// Time passes.
    pub tick: Option<Tick>,
}

/// A request that comes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrives {
    /// The request's id.
    pub request: String,
    /// Its length; 100 unless set.
    #[serde(default = "usual_tokens")]
    pub input_tokens: u64,
    /// The conversation: `id`, and where they are known `parent_id`, `is_final`, `evict`.
    pub session: Option<Session>,
    /// `user_message`, `tool_result` or `other`.
    pub trigger: Option<InputTrigger>,
    /// The worker that the client demanded.
    pub pinned_worker: Option<TargetName>,
    /// `hold`, `admit` or `reject`.
    pub expect: ExpectedVerdict,
    /// The worker that it is to go to; of what is admitted, none unless set.
    pub to: Option<TargetName>,
    /// Words that the reason of a refusal has among its own.
    pub reason: Option<String>,
}

fn usual_tokens() -> u64 {
    100
}

/// What becomes of a request that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedVerdict {
    /// It waits.
    Hold,
    /// It goes on.
    Admit,
    /// It is refused.
    Reject,
}

/// A request that another instance admitted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inherited {
    /// The request's id.
    pub request: String,
    /// Its length; 100 unless set.
    #[serde(default = "usual_tokens")]
    pub input_tokens: u64,
    /// The conversation.
    pub session: Option<Session>,
    /// Where it was sent; none if it wasn't yet.
    pub worker: Option<RowName>,
    /// Who is admitted by that, in order, as `id` or `id@worker`; nobody unless set.
    #[serde(default)]
    pub admits: Vec<String>,
}

/// Something that a request goes through.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// The request's id.
    pub request: String,
    /// The worker, where one belongs to it.
    pub worker: Option<RowName>,
    /// Of what is completed: the context's length in tokens, where known.
    pub context_tokens: Option<u64>,
    /// Who is admitted by that, in order, as `id` or `id@worker`; nobody unless set.
    #[serde(default)]
    pub admits: Vec<String>,
}

/// Other workers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewFleet {
    /// Which.
    pub workers: Vec<KvCapacity>,
    /// Who is admitted by that, in order, as `id` or `id@worker`; nobody unless set.
    #[serde(default)]
    pub admits: Vec<String>,
}

/// A period that has passed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// Who is admitted by that, in order, as `id` or `id@worker`; nobody unless set.
    #[serde(default)]
    pub admits: Vec<String>,
}

impl AdmissionCase {
    pub(super) fn check(&self) -> Result<(), String> {
        match (&self.refused, self.steps.is_empty()) {
            (Some(_), false) => Err("it is refused, and has steps: leave out either".into()),
            (None, true) => Err("nothing happens in it; give \"steps\" or \"refused\"".into()),
            _ => (1..).zip(&self.steps).try_for_each(|(number, step)| match step.events() {
                1 => Ok(()),
                events => Err(format!("step {number} has {events} events; give it one")),
            }),
        }
    }
}

impl AdmissionStep {
    fn events(&self) -> usize {
        let told = [&self.admitted, &self.sent, &self.responding, &self.completed, &self.aborted];
        told.iter().filter(|told| told.is_some()).count()
            + usize::from(self.arrives.is_some())
            + usize::from(self.inherited.is_some())
            + usize::from(self.fleet.is_some())
            + usize::from(self.tick.is_some())
    }
}
