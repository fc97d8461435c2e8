//! Requests, classes, policies and workers, drawn at random.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use pointsman_core::clock::Chance;
use pointsman_core::eligibility::BusyThresholds;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerTarget};
use pointsman_core::policy::RouterSettings;
use pointsman_core::policy::settings::PrefillLoadModel;
use pointsman_core::queue::{ClassSpec, Profile, ProfileSpec, QueuePolicy, QueueSettings};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Policies;
use pointsman_core::testing::builtin;

use crate::crew::Known;

pub(crate) const MODEL: &str = "m";
pub(crate) const GROUPS: [&str; 2] = ["left", "right"];
pub(crate) const BLOCK: u64 = 16;
const CLASSES: [&str; 3] = ["gold", "silver", "bronze"];

/// The partition of a group.
pub(crate) fn partition(group: usize) -> PartitionKey {
    PartitionKey {
        model: MODEL.into(),
        routing_group: GROUPS[group].into(),
        role: Role::Aggregated,
    }
}

/// Draws what comes.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) chance: Chance,
    prompts: Vec<Arc<[u64]>>,
}

impl Traffic {
    pub(crate) fn new(seed: u64) -> Self {
        // Prompts that begin alike: of each root, all go on from the same few blocks.
        let prompt = |at: u64| {
            let (root, branch, blocks) = (at % 4, at / 4 % 3, 2 + 9 * (at / 12));
            let hash = |block: u64| {
                let of = if block < 5 { root } else { 100 + 10 * root + branch };
                Chance::new(of * 1_000 + block).bits()
            };
            (0..blocks).map(hash).collect()
        };
        Self { chance: Chance::new(seed), prompts: (0..48).map(prompt).collect() }
    }

    /// Whether something happens that does so many times in a hundred.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.chance.below(100) < percent
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.chance.below(n as usize) as u64
    }

    pub(crate) fn request(
        &mut self,
        id: u64,
        group: usize,
        workers: u64,
        now_ms: u64,
    ) -> RouteRequest {
        let chain = self.prompts[self.chance.below(self.prompts.len())].clone();
        let tokens = chain.len() as u64 * BLOCK + self.below(BLOCK);
        let mut request = RouteRequest::new(id.to_string(), partition(group), tokens);
        request.chain = if self.percent(90) { chain } else { Arc::default() };
        request.strict_priority = if self.percent(15) { 1 + self.below(2) as u32 } else { 0 };
        request.priority_jump = self.below(3) as f64;
        if self.percent(15) {
            let worker_id = WorkerId(self.below(workers));
            let dp_rank = self.percent(50).then_some(DpRank(0));
            request.constraints.pinned = Some(WorkerTarget { worker_id, dp_rank });
        }
        if self.percent(15) {
            // Half of them, mostly.
            let all = (0..workers).map(WorkerId);
            request.constraints.allowed = Some(all.filter(|_| self.chance.below(2) == 0).collect());
        }
        request.expected_output_tokens = self.percent(50).then_some(40);
        let admission = &mut request.admission;
        admission.policy_class = Some(CLASSES[self.chance.below(3)].into());
        // Known to the model of the order too.
        admission.scheduling_cost_tokens = NonZeroU64::new(tokens);
        admission.due_at_ms = self.percent(25).then(|| now_ms + self.below(120));
        admission.do_not_queue = self.percent(3);
        request
    }

    /// Two or three classes; the names that are left out belong to the first.
    fn profile(&mut self) -> Profile {
        let some = 2 + self.chance.below(2);
        let classes = CLASSES[..some].iter().map(|name| {
            let tokens = [Some(0), Some(300), None][self.chance.below(3)];
            let none = tokens.is_none() && self.chance.below(5) == 0;
            ClassSpec {
                queue_policy: [QueuePolicy::Fcfs, QueuePolicy::Wspt][self.chance.below(2)],
                quantum: 200 + self.chance.below(2_000) as u64,
                prefill_busy_threshold: tokens,
                prefill_busy_threshold_frac: (tokens.is_none() && !none).then_some(0.25),
                busy_worker_ratio: (!none && self.chance.below(3) == 0).then_some(0.5),
                request_queue_limit_per_worker: (self.chance.below(3) == 0).then_some(4),
                ..ClassSpec::new(*name)
            }
        });
        let policy_classes = classes.collect();
        let default_policy_family = Some(CLASSES[0].into());
        let spec = ProfileSpec { default_policy_family, policy_classes, ..ProfileSpec::default() };
        Profile::new(spec).expect("the classes are in order")
    }

    /// New classes, the policies as they were.
    pub(crate) fn reclassed(&mut self, policies: &Policies) -> Policies {
        // Where nobody may have to wait, some are decided past the lock.
        let waits = self.chance.below(4) > 0;
        let profile = if waits { self.profile() } else { Profile::default() };
        let queue = QueueSettings { default: Arc::new(profile), ..QueueSettings::default() };
        Policies { queue: Arc::new(queue), ..policies.clone() }
    }

    /// New policies and settings, the classes as they were.
    pub(crate) fn policies(&mut self, before: &Policies) -> Policies {
        let types = ["default", "default", "default", "two-tier", "least-loaded", "round-robin"];
        let settings = RouterSettings {
            router_predicted_ttl_secs: self.percent(50).then_some(0.5),
            router_track_output_blocks: self.percent(50),
            router_prefill_load_model: self.percent(40).then(PrefillLoadModel::default),
            ..RouterSettings::default()
        };
        let made = builtin(types[self.chance.below(types.len())]);
        Policies { settings: Arc::new(settings), queue: before.queue.clone(), ..made }
    }

    pub(crate) fn busy_thresholds(&mut self) -> Option<BusyThresholds> {
        self.percent(40).then(|| BusyThresholds {
            active_prefill_tokens_threshold: Some(400 + self.below(800)),
            ..BusyThresholds::default()
        })
    }

    /// A worker's next life, or the first.
    pub(crate) fn life(&mut self, before: Option<Known>) -> Known {
        let version = before.map_or(0, |known| known.version + 1);
        let (group, ranks) = (self.chance.below(2), 1 + self.below(2) as u32);
        Known { group, ranks, version, ..Known::default() }
    }
}

/// A worker as it registers.
pub(crate) fn spec(id: u64, known: &Known) -> WorkerSpec {
    let endpoint = format!("http://worker-{id}-{}", known.version);
    let data_parallel_size = NonZeroU32::new(known.ranks).expect("a rank at least");
    let spec = WorkerSpec::new(WorkerId(id), endpoint, partition(known.group));
    WorkerSpec { data_parallel_size, max_num_batched_tokens: Some(BATCHED), ..spec }
}

/// What each worker batches in one step.
pub(crate) const BATCHED: u64 = 1_000;
