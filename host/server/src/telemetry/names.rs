//! The names of what is counted, and the words that stand for what has none.
//!
//! One word per idea, as in the rest of the router. Labels have bounded values: a model is named
//! only while it has a partition, which ends some minutes after its last worker left.

/// Requests answered, by model, route and status. Status 499 stands for a client that went away
/// before there was one.
pub const REQUESTS: &str = "pointsman_requests_total";
/// From a request's head to the end of its answer.
pub const REQUEST_SECONDS: &str = "pointsman_request_seconds";
/// From a request's head to the answer's first token, or first byte if it doesn't stream.
pub const FIRST_TOKEN_SECONDS: &str = "pointsman_time_to_first_token_seconds";
/// Requests whose answer has not ended.
pub const REQUESTS_IN_FLIGHT: &str = "pointsman_requests_in_flight";
/// Memory that request bodies take, from their first byte until they are sent.
pub const BODY_BYTES: &str = "pointsman_request_body_bytes";
/// Memory that bodies on the admin listener take.
pub const ADMIN_BODY_BYTES: &str = "pointsman_admin_body_bytes";
/// Decisions by the policy that made them, and whether that was the configured one.
pub const DECISIONS: &str = "pointsman_decisions_total";
/// Requests that got no worker, by why.
pub const UNDECIDED: &str = "pointsman_undecided_total";
/// How long a decision took, all host work included, waiting for its turn not.
pub const DECISION_SECONDS: &str = "pointsman_decision_seconds";
/// Fuel that a decision's stages used; native ones use none.
pub const DECISION_FUEL: &str = "pointsman_decision_fuel";
/// Fuel that a stage's call used, by policy, kind of stage and how the call went; native ones use none.
pub const STAGE_FUEL: &str = "pointsman_stage_fuel";
/// How long a stage's call took, by the same; native ones aren't timed.
pub const STAGE_SECONDS: &str = "pointsman_stage_seconds";
/// Batches of outcomes that a policy was told of, by how it took them.
pub const OUTCOME_BATCHES: &str = "pointsman_outcome_batches_total";
/// Requests sent to another worker, or to the same over another connection, by why.
pub const RETRIES: &str = "pointsman_retries_total";
/// Exchanges with workers that failed, by how.
pub const UPSTREAM_ERRORS: &str = "pointsman_upstream_errors_total";
/// Answers that workers began, by how they ended.
pub const ANSWERS: &str = "pointsman_answers_total";
/// Requests that named a policy class that there isn't.
pub const UNKNOWN_POLICY_CLASSES: &str = "pointsman_unknown_policy_class_requests_total";
/// Legs of requests that two workers share, by role and how they ended.
pub const LEGS: &str = "pointsman_legs_total";
/// From sending a prefill to the end of its answer.
pub const PREFILL_SECONDS: &str = "pointsman_prefill_leg_seconds";
/// Answers to vLLM prefills, by whether they said where the blocks are.
pub const HANDOVERS: &str = "pointsman_handovers_total";
/// Requests whose decode worker computed the prompt although there are prefill workers, by why.
pub const BYPASSED_PREFILLS: &str = "pointsman_bypassed_prefills_total";
/// Connections that are open, by listener.
pub const CONNECTIONS: &str = "pointsman_connections";
/// Connections that were closed for want of room, by listener and whose they were.
pub const CONNECTIONS_CLOSED: &str = "pointsman_connections_closed_for_room_total";

/// Prompts, by where their tokens are from.
pub const PROMPTS: &str = "pointsman_prompts_total";
/// Prompts whose tokens aren't exact, by why.
pub const PROMPT_ESTIMATES: &str = "pointsman_prompt_estimates_total";
/// Prompt tokens that chosen workers were expected to have cached, of all decisions.
pub const PREDICTED_CACHED_TOKENS: &str = "pointsman_predicted_cached_tokens_total";
/// Prompt tokens that chosen workers were thought to hold in any tier, of decisions that looked at what all
/// hold.
pub const SELECTED_RAW_CACHED_TOKENS: &str = "pointsman_selected_raw_cached_tokens_total";
/// The most that one which could have been chosen was thought to hold, of the same decisions.
pub const MAX_RAW_CACHED_TOKENS: &str = "pointsman_max_raw_cached_tokens_total";
/// Prompt tokens that engines counted, of the answers that told.
pub const REPORTED_PROMPT_TOKENS: &str = "pointsman_reported_prompt_tokens_total";
/// Prompt tokens that engines took from their caches, of the answers that told.
pub const REPORTED_CACHED_TOKENS: &str = "pointsman_reported_cached_tokens_total";
/// Answers whose cached tokens were both predicted and reported, by what that showed.
pub const CACHE_PREDICTIONS: &str = "pointsman_cache_predictions_total";
/// Cached tokens of these answers, by who says so.
pub const COMPARED_CACHED_TOKENS: &str = "pointsman_compared_cached_tokens_total";
/// How far predictions of these answers were off, in tokens.
pub const CACHE_PREDICTION_ERROR: &str = "pointsman_cache_prediction_error_tokens";
/// Prompts whose exact length isn't the engine's.
pub const DIFFERING_PROMPT_TOKENS: &str = "pointsman_differing_prompt_tokens_total";

/// The label that names a request's model.
pub const MODEL: &str = "model";

/// Stands for a model that has no partition.
pub const NO_MODEL: &str = "unknown";

/// What is read of the cache index and its feeds at each scrape. Feeds' counters begin anew with
/// each run of a feed, as the process's own do with the process.
pub mod cache {
    /// What a feed is doing: 1 for the present state.
    pub const FEED_STATE: &str = "pointsman_cache_feed_state";
    /// Connections between a feed and its engine.
    pub const CONNECTIONS: &str = "pointsman_cache_connections_total";
    /// Batches of events that were applied.
    pub const BATCHES: &str = "pointsman_cache_batches_total";
    /// Events that were applied, by kind.
    pub const EVENTS: &str = "pointsman_cache_events_total";
    /// Events that weren't for the index, by why.
    pub const SKIPPED: &str = "pointsman_cache_skipped_events_total";
    /// Blocks that events were about, by what became of them.
    pub const EVENT_BLOCKS: &str = "pointsman_cache_event_blocks_total";
    /// Gaps in the sequence of batches.
    pub const GAPS: &str = "pointsman_cache_gaps_total";
    /// Times that an engine was asked for batches again, by how that ended.
    pub const REPLAYS: &str = "pointsman_cache_replays_total";
    /// Batches that were asked for again, and came.
    pub const REPLAYED: &str = "pointsman_cache_replayed_batches_total";
    /// Batches that are lost for good.
    pub const LOST: &str = "pointsman_cache_lost_batches_total";
    /// Batches that came twice.
    pub const DUPLICATES: &str = "pointsman_cache_duplicate_batches_total";
    /// Restarts of engines that were seen in their events.
    pub const RESTARTS: &str = "pointsman_cache_engine_restarts_total";
    /// Messages and events that couldn't be understood.
    pub const MALFORMED: &str = "pointsman_cache_malformed_total";
    /// From an engine's publishing of the last batch to its being applied.
    pub const LAG: &str = "pointsman_cache_lag_seconds";
    /// The engine's block size where it isn't the worker's; 0 where it is.
    pub const WRONG_BLOCK_SIZE: &str = "pointsman_cache_wrong_block_size";
    /// Blocks that a rank holds by what it told, by tier.
    pub const RANK_BLOCKS: &str = "pointsman_cache_rank_blocks";
    /// Blocks of a rank that wait for their parent to be known.
    pub const RANK_ORPHANS: &str = "pointsman_cache_rank_orphans";
    /// Distinct blocks of a partition's index.
    pub const BLOCKS: &str = "pointsman_cache_blocks";
    /// Blocks held, counted for each rank and tier that holds them.
    pub const HELD: &str = "pointsman_cache_held_blocks";
    /// Blocks of a partition that wait for their parent to be known.
    pub const ORPHANS: &str = "pointsman_cache_orphans";
    /// Bytes of a partition's index.
    pub const BYTES: &str = "pointsman_cache_bytes";
    /// Distinct blocks that are predicted to be cached.
    pub const PREDICTED: &str = "pointsman_cache_predicted_blocks";
    /// Bytes of a partition's predictions.
    pub const PREDICTED_BYTES: &str = "pointsman_cache_predicted_bytes";
    /// Prompts that were looked up in what engines told, by whether some rank held something.
    pub const LOOKED_UP: &str = "pointsman_cache_looked_up_total";
    /// 1 while events flow and no prompt matches any.
    pub const NEVER_MATCHES: &str = "pointsman_cache_never_matches";
}

/// What is read of those who wait, by policy class, at each scrape.
pub mod queue {
    /// Requests that wait.
    pub const PENDING_REQUESTS: &str = "pointsman_queue_pending_requests";
    /// Their prompts' tokens.
    pub const PENDING_ISL_TOKENS: &str = "pointsman_queue_pending_isl_tokens";
    /// Those of them that the best worker had cached when they came.
    pub const PENDING_CACHED_TOKENS: &str = "pointsman_queue_pending_cached_tokens";
    /// Requests that came.
    pub const RECEIVED: &str = "pointsman_admission_received_total";
    /// Those that had to wait, by why.
    pub const BACKPRESSURE: &str = "pointsman_queue_backpressure_total";
    /// For how long those waited that were decided, or late then.
    pub const WAIT_SECONDS: &str = "pointsman_queue_wait_seconds";
    /// Those that were not let in, by why.
    pub const REJECTED: &str = "pointsman_admission_rejected_total";
}

/// What is read of engines' own word on their load at each scrape.
pub mod reports {
    /// Times that a worker's engine was asked for its load, by what became of it.
    pub const SCRAPES: &str = "pointsman_load_scrapes_total";
    /// How old the last report of a rank's engine is.
    pub const AGE_SECONDS: &str = "pointsman_reported_load_age_seconds";
    /// Requests that a rank computes or answers.
    pub const RUNNING: &str = "pointsman_reported_running_requests";
    /// Requests that wait in a rank.
    pub const WAITING: &str = "pointsman_reported_waiting_requests";
    /// The share of a rank's KV blocks that is in use.
    pub const KV_USAGE: &str = "pointsman_reported_kv_cache_usage";
}

/// What the selection service does.
pub mod selections {
    /// Requests, by path and status.
    pub const REQUESTS: &str = "pointsman_select_requests_total";
    /// Memory that request bodies take.
    pub const BODY_BYTES: &str = "pointsman_select_body_bytes";
    /// Reservations whose load is booked.
    pub const RESERVATIONS: &str = "pointsman_reservations";
    /// Reservations of which nobody spoke for as long as their lease.
    pub const EXPIRED: &str = "pointsman_reservations_expired_total";
    /// Reservations of which nobody could be told.
    pub const ABANDONED: &str = "pointsman_reservations_abandoned_total";
    /// Selections that can be booked by their id.
    pub const KEPT: &str = "pointsman_kept_selections";
    /// Selections that can't be booked any more, by why.
    pub const DROPPED: &str = "pointsman_kept_selections_dropped_total";
}

/// What the endpoint picker does.
pub mod epp {
    /// Streams of gateways that are open, one a request.
    pub const STREAMS: &str = "pointsman_epp_streams";
    /// From a request's last byte to the word where it goes.
    pub const PICK_SECONDS: &str = "pointsman_epp_pick_seconds";
    /// The picker's own work on a request that got a worker.
    pub const OWN_SECONDS: &str = "pointsman_epp_own_seconds";
    /// Requests that got no worker, by the stable kind.
    pub const REFUSED: &str = "pointsman_epp_refused_total";
    /// Requests that a gateway sent elsewhere than was picked.
    pub const MISMATCHED: &str = "pointsman_epp_mismatched_endpoints_total";
    /// Memory that request bodies take.
    pub const BODY_BYTES: &str = "pointsman_epp_body_bytes";
}

/// What the cache that all workers share was asked, and what it said.
pub mod shared_cache {
    /// From asking it to its answer, or to the end of the patience with it.
    pub const QUERY_SECONDS: &str = "pointsman_shared_cache_query_seconds";
    /// Questions that it didn't answer as it should, by why.
    pub const ERRORS: &str = "pointsman_shared_cache_errors_total";
    /// Prompts that it should have been asked about, and wasn't, by why.
    pub const UNASKED: &str = "pointsman_shared_cache_unasked_total";
    /// 1 while it is left alone because it failed.
    pub const RESTING: &str = "pointsman_shared_cache_resting";
    /// Blocks that it was asked for, of the questions that it answered.
    pub const ASKED_BLOCKS: &str = "pointsman_shared_cache_asked_blocks_total";
    /// Those of them that it holds.
    pub const HIT_BLOCKS: &str = "pointsman_shared_cache_hit_blocks_total";
    /// Blocks that it holds beyond what the chosen worker has on its device, of all decisions.
    pub const BEYOND_BLOCKS: &str = "pointsman_shared_cache_beyond_blocks_total";
}
