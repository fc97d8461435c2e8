//! Every key that there is, by level: its type, default and meaning.
//!
//! The readers take their known keys from here, unknown keys are refused by it, and `CONFIG.md` is
//! checked against it. It doesn't read anything.

/// One level of the file.
#[derive(Debug)]
pub(super) struct Table {
    /// Where it is found, for the reference.
    pub(super) path: &'static str,
    /// What it is for, for the reference.
    pub(super) about: &'static str,
    /// In the order of the reference.
    pub(super) keys: &'static [Key],
    /// Keys that users of linked policies know, and why they are refused.
    pub(super) later: &'static [(&'static str, &'static str)],
    /// Keys that belong elsewhere or have another name, and what to do about them; `{value}` stands
    /// for what was written.
    pub(super) wrong: &'static [(&'static str, &'static str)],
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Its type and unit, for the reference.
    pub(super) kind: &'static str,
    /// What holds when it is left out, for the reference.
    pub(super) default: &'static str,
    pub(super) meaning: &'static str,
}

impl Table {
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// All names, for a message.
    pub(super) fn known(&self) -> String {
        self.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
    }
}

/// Makes a table out of rows.
macro_rules! table {
    (
        $(#[$doc:meta])* $name:ident: $path:literal, $about:literal;
        $($key:literal, $kind:literal, $default:literal, $meaning:literal;)*
        $(later $later:literal: $why:literal;)*
        $(wrong $wrong:literal: $instead:literal;)*
    ) => {
        $(#[$doc])*
        pub(in crate::config) static $name: Table = Table {
            path: $path,
            about: $about,
            keys: &[$(Key { name: $key, kind: $kind, default: $default, meaning: $meaning }),*],
            later: &[$(($later, $why)),*],
            wrong: &[$(($wrong, $instead)),*],
        };
    };
}

mod discovery;
mod health;
mod listeners;
mod queue;

pub(super) use discovery::{DISCOVERY, DNS, KUBERNETES, LIKE};
pub(super) use health::{HEALTH, LOAD_REPORTS};
pub(super) use listeners::{EPP, LISTENER, SELECT, TLS};
pub(super) use queue::{BUCKET, CLASS, MODEL};

/// All tables, in the order of the reference.
pub(super) static ALL: [&Table; 34] = [
    &ROOT,
    &LISTENER,
    &TLS,
    &SELECT,
    &EPP,
    &ROUTER,
    &PREFILL_LOAD,
    &CLASS,
    &BUCKET,
    &MODEL,
    &SELECTION,
    &INSTANCE,
    &BREAKER,
    &SHADOW,
    &CANARY,
    &FILTER,
    &SCORER,
    &PICKER,
    &CLASSIFIER,
    &LIMITS,
    &WORKER,
    &DISAGGREGATION,
    &DISCOVERY,
    &DNS,
    &KUBERNETES,
    &LIKE,
    &TOKENIZER,
    &TOKENIZER_LIMITS,
    &PROXY,
    &HEALTH,
    &LOAD_REPORTS,
    &WASM,
    &TRUST,
    &RECORDING,
];

table! {
    ROOT: "", "The file itself: one mapping.";
    "listen", "address, or a mapping", "127.0.0.1:8080", "where clients are served";
    "admin", "address, or a mapping", "127.0.0.1:9090", "where operators are served; anything but loopback needs a token";
    "select", "address, or a mapping", "none", "where worker selection is served to those who send requests themselves; left out, it isn't: see [`select`](#select)";
    "epp", "address, or a mapping", "none", "where gateways ask for endpoints by Envoy's external processing; left out, they can't: see [`epp`](#epp)";
    "policies_dir", "path", "none", "the folder of components; a component's type is its file's stem; left out, built-ins alone route";
    "router", "mapping", "the defaults", "what the default policy weighs by, and what is booked";
    "policy_classes", "list of mappings", "none", "the classes in which requests wait while workers are busy, at most 64; left out, there is one, which waits by `router_queue_threshold`";
    "default_policy_family", "text", "`default`, or the only one", "the family or explicit class of requests that name none, or one that there isn't";
    "uncached_isl_buckets", "list of mappings", "none", "ranges of uncached prompt lengths, for classes";
    "models", "mapping of mappings", "none", "classes of single models";
    "worker_selection", "mapping", "`default` for every role", "which policy instance decides for which role";
    "request_classifier", "mapping", "none", "who admits requests, holds or refuses them, before a worker is selected: see [Request classifiers](#request-classifiers)";
    "workers", "list of mappings", "none", "the workers that are there from the start; others come over `POST /v1/workers`; a worker that a changed file has no more is let go: all of them, if it has none";
    "discovery", "mapping", "none", "who else lists workers: see [`discovery`](#discovery)";
    "tokenizers", "list of mappings", "none", "what makes prompts into tokens, by model; the prompts of a model that isn't here are estimates, unless the client gives tokens";
    "tokenizer_threads", "count, 1 to 256", "2", "threads that make long prompts into tokens; one more is kept for those of at most 256KiB";
    "tokenizer_queue", "count, 1 to 1_000_000", "1_024", "prompts that may wait for such a thread; of one more the length is estimated";
    "tokenizer_timeout", "duration, 10ms to 1m", "2s", "how long a prompt may wait for such a thread, and be in work there; then its length is estimated";
    "proxy", "mapping", "the defaults", "how requests go to workers";
    "health", "mapping", "the defaults", "how workers are probed";
    "load_reports", "mapping", "none", "how engines are asked for their own load; left out, they aren't: see [Busy workers](#busy-workers)";
    "wasm", "mapping", "the defaults", "how components are run";
    "recording", "mapping", "none", "what is kept of decisions, and of what a request classifier did";
    "drain_timeout", "duration", "30s", "how long requests in flight may take to end once the router is told to stop; at most 1h";
}

table! {
    ROUTER: "router", "What the default policy weighs by, and what is booked. Every policy is told.";
    "overlap_score_credit", "number, at least 0", "1", "weight of a block that is cached on the device; may exceed 1";
    "overlap_score_credit_decay", "number, at least 0", "0", "how fast that credit fades with the worker's prefill load above the lightest";
    "prefill_load_scale", "number, at least 0", "1", "weight of prefill load beside decode load";
    "decode_active_request_weight", "number, at least 0", "0", "cost of each active request, in blocks";
    "host_cache_hit_weight", "number, 0 to 1", "0.75", "weight of a block in host memory";
    "disk_cache_hit_weight", "number, 0 to 1", "0.25", "weight of a block on disk or in an external store";
    "shared_cache_type", "none or hicache", "none", "what cache all workers share; `hicache` is asked at `shared_cache_url`: see [The shared cache](#the-shared-cache)";
    "shared_cache_url", "`http://host:port`", "none", "where that cache is asked; `hicache` needs it";
    "shared_cache_timeout", "duration, 1ms to 1s", "5ms", "how long a request waits for its answer; without one in time it is routed as if nothing were there";
    "shared_cache_multiplier", "number, 0 to 1", "0", "weight of a block in that cache beyond the device; left out, 0.5 with hicache";
    "router_temperature", "number, at least 0", "0", "softmax temperature over costs; 0 picks the lowest";
    "use_kv_events", "true or false", "true", "whether engines' cache events are believed; else a prompt counts as cached where it was sent";
    "router_ttl_secs", "seconds, above 0", "120", "how long a prompt counts as cached where it was sent, by workers whose engine tells nothing of its cache; of one prompt, its first `total_kv_blocks` blocks at most, or 65,536 where a worker didn't say";
    "router_approximate_cache_policy", "ttl or lru", "ttl", "what ends that: time, or the rank's memory (`total_kv_blocks`; time where a worker didn't say); `lru` needs `use_kv_events: false`";
    "router_predicted_ttl_secs", "seconds, above 0", "none", "how long a prompt counts as cached where it was sent, ahead of the engine's events; left out, events alone count; needs `use_kv_events`";
    "router_track_active_blocks", "true or false", "true", "whether KV blocks of active requests are booked";
    "router_track_output_blocks", "true or false", "false", "whether output blocks are booked as they begin (an event of a stream counts as one token); where a request says how long its output will be, what it has to itself weighs less the nearer that is; needs `router_track_active_blocks`";
    "router_assume_kv_reuse", "true or false", "true", "whether blocks that active requests share on a worker count once; else each request has its own";
    "router_track_prefill_tokens", "true or false", "true", "whether prompt tokens are booked until the first token";
    "router_prefill_load_model", "none, polynomial or mapping", "none", "by what booked prompt tokens melt while they wait for their first token: see [the model](#routerrouter_prefill_load_model); needs `router_track_prefill_tokens`";
    "active_decode_blocks_threshold", "number, 0 to 1", "none", "a rank is busy while active requests have more than this share of its KV blocks, by the router's count or by what its engine reports; the router's count isn't looked at where `total_kv_blocks` isn't known: see [Busy workers](#busy-workers)";
    "active_prefill_tokens_threshold", "tokens", "none", "a rank is busy while requests without a first token have more prompt tokens there";
    "active_prefill_tokens_threshold_frac", "number, at least 0", "none", "the same as a multiple of `max_num_batched_tokens`, which counts as 10,000,000 where a worker didn't say";
    "router_queue_threshold", "number, at least 0", "none", "a request waits while each rank that it may have has more prompt tokens to compute than this fraction of `max_num_batched_tokens`, which counts as 10,000,000 where a worker didn't say; left out, none waits; with `policy_classes`, they say it";
    "router_queue_policy", "fcfs, lcfs or wspt", "none", "which of those that wait is first: who came first, who came last, or whose prompt has least to compute; left out, who came first";
    "router_session_affinity_ttl_secs", "seconds, 1 to 31_536_000", "none", "binds sessions to workers, until they have been idle for so long: see [Session affinity](#session-affinity); left out, none is bound";
    "router_session_affinity_mode", "hard or soft", "hard", "whether a binding pins the session's requests, or is told to the policy, which may move it; needs `router_session_affinity_ttl_secs`";
    "router_conditional_disagg", "true or false", "false", "whether a decode worker computes prompts that aren't worth a prefill worker: see [Prefill and decode workers](#prefill-and-decode-workers)";
    "router_conditional_disagg_policy", "isl_bounding, prefill_load or isl_or_load", "isl_bounding", "which those are: with little that is new to the decode worker (`isl_bounding`), whose prefill worker is busy (`prefill_load`), or either";
    "router_conditional_disagg_eff_isl_threshold", "tokens", "2_048", "fewer new tokens are little";
    "router_conditional_disagg_eff_isl_ratio_threshold", "number, 0 to 1", "0.7", "if they are also a smaller share of the prompt than this";
    "router_conditional_disagg_prefill_busy_threshold", "number, at least 0", "none", "a prefill rank is busy with more than this share of its `max_num_batched_tokens` (10,000,000 where it didn't say); left out, none is";
    "router_conditional_disagg_decode_busy_threshold", "number, at least 0", "none", "a decode rank computes no prompt when more than this share of its `total_kv_blocks` is in use, or it didn't say; left out, it always may";
    later "router_event_threads": "each rank's events are applied by a task of their own, so take it out";
    later "use_remote_indexer": "each router has its own cache index, so take it out";
    later "serve_indexer": "each router has its own cache index, so take it out";
    later "enable_session_prefix_index": "sessions have no index of their own, so take it out";
    later "router_tracking_hash": "there is one way to hash blocks, so take it out";
    later "router_replica_sync": "replicas don't tell each other their load yet, so take it out";
    later "router_overlap_refresh_after_secs": "what is cached of a prompt is looked up when it is decided, however long it waited, so take it out";
    later "skip_initial_worker_wait": "the router never waits for its first worker, so take it out";
    wrong "overlap_score_weight": "an old name; set `prefill_load_scale` to the same value, and `overlap_score_credit: 0` if it was 0";
}

table! {
    PREFILL_LOAD: "router.router_prefill_load_model", "How long a prefill is expected to take: a polynomial of the tokens that are to be computed. `polynomial` has the numbers below; a mapping has its own, in milliseconds.";
    "constant_ms", "number, at least 0", "16.50142", "what any prefill takes";
    "ms_per_token", "number, at least 0", "0.01518344", "for each token";
    "ms_per_token_squared", "number, at least 0", "0.0000004209989", "for each token, times the tokens";
}

table! {
    SELECTION: "worker_selection", "Which instance decides for which role. A role that is left out uses the built-in `default`.";
    "aggregated", "an instance's name", "`default`", "for workers that do prefill and decode";
    "prefill", "an instance's name", "`default`", "for workers that do prefill only";
    "decode", "an instance's name", "`default`", "for workers that do decode only";
    "encode", "an instance's name", "`default`", "for workers that encode images, sound and the like";
    "instances", "list of mappings", "none", "the named instances";
    wrong "default": "there is no instance for all roles; write `aggregated: {value}`, and the same for other roles that there are; {value} must be an instance: if it is a policy's type, add `- { name: {value}, type: {value} }` to `instances`";
}

table! {
    INSTANCE: "worker_selection.instances[]", "An instance is one policy whole (`type`), or stages of several (`filters`, `scorers`, `picker`).";
    "name", "text", "required", "what roles, metrics and answers call it; `default` is taken";
    "type", "a policy type", "this or stages", "a component's file stem, or a built-in: default, device-aware, direct, least-loaded, power-of-two, random, round-robin, two-tier";
    "parameters", "mapping", "`{}`", "what the policy is configured with; the policy knows its keys";
    "limits", "mapping", "the defaults", "what one call may use; built-ins are not limited";
    "filters", "list of mappings", "none", "stages that keep or reject workers, in order";
    "scorers", "list of mappings", "none", "stages whose costs are added up";
    "picker", "mapping", "the lowest cost", "the stage that picks";
    "on_failure", "default, reject, skip or last-good", "default", "what becomes of a decision that it fails: the built-in decides, the request gets an error, a filter or scorer is left out (else as default), the version before decides while it is kept (else as default: see [ADMIN.md](ADMIN.md#policies-that-fail)); an instance of `direct` rejects unless it says otherwise";
    "state", "keep or discard", "keep", "whether a reload is refused when the state can't be handed over, or goes on without it";
    "breaker", "mapping", "the defaults", "when the policy is no longer asked, because it keeps failing";
    "on_all_filtered", "reject or bypass", "reject", "what becomes of a decision of which the filters reject every row: the request gets an error, or the filter that rejected the last of them is left out";
    "decision_fuel", "count, 1 to 30_000_000_000", "none", "what all stages of one decision may burn together; left out, each may burn what its limits say";
    "shadow", "list of instances' names, or of mappings", "none", "instances that are shown its decisions afterwards, and compared: nobody goes by them; see `GET /v1/policies`";
    "canary", "mapping", "none", "an instance that makes a share of its decisions";
    wrong "shadows": "the key is `shadow` here; rename it";
}

table! {
    SHADOW: "worker_selection.instances[].shadow[]", "An instance that decides what another has decided, from the same rows and columns, once the answer is on its way. Its own `shadow` and `canary` aren't heeded. Unless it is listed, the built-in `default` is shown one of a hundred decisions of any other policy.";
    "instance", "an instance's name", "required", "which; `default` is the built-in";
    "percent", "percentage, 0 to 100", "100", "the share of decisions that it is shown";
    "budget_percent", "percentage, 0 to 100", "10", "the share of one processor's time that it may take; what is over it isn't shown, and counted";
}

table! {
    CANARY: "worker_selection.instances[].canary", "An instance that makes a share of the decisions. The instance that it is tried for makes those that it fails, or for which it rejects every worker. It is rolled back, and makes none, once it does worse than it may: until the policies are changed, or `POST /v1/policies/{instance}/enable`. Each partition has its own.";
    "instance", "an instance's name", "required", "which; `default` is the built-in";
    "percent", "percentage, 0 to 100", "required", "the share of decisions that it makes";
    "by", "request or session", "request", "whether each request is one or the other by itself, or a session as a whole; requests without a session go by themselves";
    "max_failures_percent", "percentage, 0 to 100", "1", "the share of its decisions that it may fail";
    "max_p99_us", "microseconds, at least 1", "none", "what 99 of 100 of its decisions must not take longer than";
    "judged_by", "count, 1 to 1_000_000", "100", "decisions that it is judged by at least: so many hundredths of a failure are too many before it has made them";
}

table! {
    BREAKER: "worker_selection.instances[].breaker", "A policy that fails decisions in a row isn't asked for a while; `on_failure` says what becomes of decisions meanwhile. Then one decision tries it. Each partition has its own.";
    "failures", "count, at most 1_000_000", "5", "failures in a row; 0 means that it is always asked";
    "wait", "duration, 1ms to 1h", "100ms", "how long it isn't asked the first time; each failed try doubles it";
    "longest_wait", "duration, 1ms to 1h", "30s", "how long at most";
}

table! {
    FILTER: "worker_selection.instances[].filters[]", "A filter of a policy, as an instance of its own.";
    "type", "a policy type", "required", "whose filters";
    "stage", "text", "all of them", "the name of one filter of that type";
    "parameters", "mapping", "`{}`", "what the policy is configured with";
    "limits", "mapping", "the defaults", "what one call may use";
    "on_failure", "as above", "the instance's", "what becomes of a decision that it fails";
    wrong "instance": "a stage is an instance of its own; give its `type`";
    wrong "weight": "only scorers have costs to weigh; take it out";
    wrong "normalisation": "only scorers have costs to bring to a scale; take it out";
}

table! {
    SCORER: "worker_selection.instances[].scorers[]", "A scorer of a policy, as an instance of its own.";
    "type", "a policy type", "required", "whose scorers";
    "stage", "text", "all of them", "the name of one scorer of that type";
    "parameters", "mapping", "`{}`", "what the policy is configured with";
    "limits", "mapping", "the defaults", "what one call may use";
    "on_failure", "as above", "the instance's", "what becomes of a decision that it fails";
    "normalisation", "none, min-max or rank", "none", "what its costs become before that: nothing else, where they lie between the lowest (0) and the highest (1) of the rows that filters left, or the share of the other rows that cost less";
    "weight", "number", "1", "what its costs are multiplied by; below 0 where higher is better";
    wrong "instance": "a stage is an instance of its own; give its `type`";
}

table! {
    PICKER: "worker_selection.instances[].picker", "The picker of a policy, as an instance of its own.";
    "type", "a policy type", "required", "whose picker";
    "stage", "text", "the one there is", "the picker's name";
    "parameters", "mapping", "`{}`", "what the policy is configured with";
    "limits", "mapping", "the defaults", "what one call may use";
    "on_failure", "as above", "the instance's", "what becomes of a decision that it fails";
    wrong "instance": "a stage is an instance of its own; give its `type`";
    wrong "weight": "only scorers have costs to weigh; take it out";
    wrong "normalisation": "only scorers have costs to bring to a scale; take it out";
}

table! {
    CLASSIFIER: "request_classifier", "Who admits the requests of partitions that answer (aggregated and decode), each partition with an instance of its own. A component that exports the contract's `request-classifier`.";
    "type", "a classifier's type", "required", "a component's file stem; `default` is reserved";
    "parameters", "mapping", "`{}`", "what the classifier is configured with; it knows its keys";
    "limits", "mapping", "the defaults", "what one call may use, as for a policy's";
    "on_failure", "default, reject, skip or last-good", "default", "what becomes of a request that it fails on: it is admitted as it is, gets an error, is admitted (a classifier that is left out is none), or is offered to the version before while that is kept (else as default: see [Request classifiers](#request-classifiers))";
    wrong "name": "there is one classifier, and it needs no name; take it out";
}

table! {
    LIMITS: "worker_selection.instances[].limits", "Also of every stage, and of the request classifier. What one call of a component may use. What is left out goes by the component's size: one of 1MiB or more brings an interpreter along, and is large. Fuel is the limit, the deadline a backstop: it is at least twenty times as long as the fuel usually takes (a million units a millisecond), and at least 50ms. A shorter one is refused; beside fuel that goes by size, when the component is made.";
    "fuel", "units, at least 1", "the class's", "about one per wasm instruction";
    "class", "small or large", "by size", "5_000_000 fuel and 32MiB of memory, for components in Rust, C or Zig; or 100_000_000 and 256MiB, for those that bring an interpreter along";
    "memory", "size, 64KiB to 4GiB", "the class's", "linear memory";
    "deadline", "duration", "the least for the fuel", "time of a call; at most 10m; time for which the machine has no processor for it doesn't count";
    "recycle_at", "size, 64KiB to 4GiB", "three quarters of the memory", "memory beyond which an instance is replaced between two calls, with its state handed over if it can; at least half of what it has left once it is configured";
    "table_elements", "count, at most 100_000_000", "the class's", "elements of all its tables, of 8 bytes each: 20_000 of a small one, 1_000_000 of a large one";
    "reply_bytes", "size, 1KiB to 64MiB", "4MiB", "what one answer may bring into the router's memory: 8 bytes for each row that is scored";
    "log_lines", "count, at most 10_000", "20", "log lines of one call; what is over is counted and dropped";
    "log_line_bytes", "size, 64 to 64KiB", "1KiB", "the longest log line; what is over is cut off";
}

table! {
    WORKER: "workers[]", "A worker that is there from the start. Workers of one model, routing group and role share a partition, and there one block size.";
    "worker_id", "whole number", "required", "its id; no other worker has it";
    "endpoint", "`http://host:port`", "required", "where it listens, without a path";
    "model", "text", "default", "the model that it serves, as clients ask for it";
    "routing_group", "text", "default", "the group that requests can ask for";
    "role", "aggregated, prefill, decode or encode", "aggregated", "what it does for a request";
    "data_parallel_start_rank", "whole number", "0", "its first rank";
    "data_parallel_size", "count, 1 to 4096", "1", "how many ranks it has";
    "block_size", "tokens, at least 1", "16", "tokens in one KV block";
    "taints", "list of texts", "none", "what it is marked with, for requests that require or prefer it; at most 64";
    "lora_adapters", "list of texts", "none", "LoRA adapters that it has loaded, by the names that requests have for them: as `model`, or as `lora_name`; at most 64";
    "labels", "mapping of texts", "none", "free marks, for policies; at most 64";
    "total_kv_blocks", "blocks, at least 1", "not known", "KV blocks of each rank";
    "max_num_batched_tokens", "tokens, at least 1", "not known", "the most tokens that it batches in one step";
    "device_kind", "text", "not known", "what it runs on; `cpu` is what `device-aware` takes for a worker without accelerator";
    "disaggregation", "mapping", "the defaults", "how a prefill or decode worker shares prompts with others";
    "kv_event_source_mode", "auto, zmq, push or none", "auto", "how the events of its KV cache come: from the endpoints below or, with none given, from those that the engine names when asked (`auto`); from the endpoints below (`zmq`); over `POST /v1/workers/{id}/kv_events` (`push`); not at all (`none`)";
    "kv_events_endpoint", "`tcp://host:port` or `ipc://path`", "none", "the ZeroMQ endpoint of its events, as in the engine's `--kv-events-config`: the host may be `*`, for the worker's; rank n is n ports above";
    "kv_events_endpoints", "mapping of ranks to endpoints", "none", "the same, rank by rank";
    "replay_endpoint", "`tcp://host:port` or `ipc://path`", "none", "where old events can be asked for again; rank n is n ports above";
    "replay_endpoints", "mapping of ranks to endpoints", "none", "the same, rank by rank";
    "kv_events_topic", "text", "all topics", "how the topics of its events begin";
    wrong "lease": "workers of the file stay without heartbeats; register the worker over the API instead";
    wrong "model_name": "the key is `model` here; rename it";
}

table! {
    DISAGGREGATION: "workers[].disaggregation", "How a prefill or decode worker shares prompts with others. All workers of a model and routing group that do speak one protocol.";
    "protocol", "vllm or sglang", "vllm", "`vllm`: the prefill first, whose answer says where the blocks are (`kv_transfer_params`); `sglang`: both at once, with the port and a number by which they meet";
    "bootstrap_port", "port", "8_998 with sglang", "the engine's `--disaggregation-bootstrap-port`; of sglang's prefill workers only";
}

table! {
    TOKENIZER: "tokenizers[]", "What makes one model's prompts into tokens, so that the router knows which blocks of its workers' caches they are. What the engine was started with must stand here too.";
    "model", "text", "required", "the model, as clients ask for it";
    "source", "auto, tokenizer, engine or text", "auto", "where tokens come from: `auto` is the tokenizer, and the engine for what that can't do, or the text where there is no tokenizer; `engine` asks the engine's `/tokenize` for each request; `text` estimates by the prompt's length, and never matches engines' events";
    "tokenizer", "path", "none", "the folder with the model's `tokenizer.json` and its companions, or that file";
    "chat_template", "path", "the model's own", "a file with the chat template, if the engine was started with `--chat-template`";
    "content_format", "auto, string or openai", "auto", "how the template takes content, if the engine was started with `--chat-template-content-format`";
    "template_defaults", "mapping", "`{}`", "variables for the template, if the engine was started with `--default-chat-template-kwargs`";
    "exclude_tools_when_none", "true or false", "false", "whether tools are left out when a request says `tool_choice: none`, as by `--exclude-tools-when-tool-choice-none`";
    "bytes_per_token", "count, 1 to 64", "4", "bytes of text that count as one token in estimates";
    "utc_offset", "seconds, -86400 to 86400", "0", "how far engines' clocks on the wall are from UTC, for templates that write the date";
    "limits", "mapping", "the defaults", "what may be used up";
}

table! {
    TOKENIZER_LIMITS: "tokenizers[].limits", "What making one model's prompts into tokens may use up.";
    "text_bytes", "size, 1KiB to 1GiB", "4MiB", "the longest prompt that is made into tokens, which are about a million; of longer ones the length is estimated";
    "template_fuel", "units, 10_000 to 1_000_000_000", "4_000_000", "for one rendering of the template: about one for a step, and one for each 64 bytes made on the way";
    "inline_bytes", "size, at most 64KiB", "1KiB", "the longest text that is made into tokens on the thread that asks, without what the cache has";
    "cache_bytes", "size, at most 64GiB", "64MiB", "what the cache of pieces of prompts may take; 0 is off";
    "engine_timeout", "duration, 1ms to 1m", "500ms", "how long an engine may take to answer `/tokenize`";
}

table! {
    PROXY: "proxy", "How requests go to workers.";
    "disaggregation", "auto, enforce or off", "auto", "`auto`: two workers share each request where a model has prefill and decode workers, else aggregated workers serve it, else a vllm decode worker alone; `enforce`: a decode worker never computes a prompt for want of prefill workers; `off`: aggregated workers only";
    "connect_timeout", "duration", "2s", "for a TCP connection to a worker";
    "first_byte_timeout", "duration", "5m", "from the request's end to the answer's first byte; an answer that doesn't stream has its first byte when it is all there";
    "idle_timeout", "duration", "1m", "between two chunks of an answer; an engine that is told to stop may leave its streams open and silent";
    "client_timeout", "duration", "1m", "how long a client may leave unread what is sent to it, or stand still in its request's body, before it is cut off; on the average of it, a body must come at 1KiB a second";
    "total_timeout", "duration", "1h", "for the whole of a request";
    "retries", "count, at most 10", "1", "how often a request is tried elsewhere, before its first byte";
    "overload_backoff", "duration, at most 2s", "1s", "how long a worker that said 503 or 529 is left alone, or 429 to five clients in a row, unless its `Retry-After` says otherwise";
    "max_body", "size, 1KiB to 1GiB", "32MiB", "the largest request body";
    "body_budget", "size, 1KiB to 1024GiB", "1GiB", "what all request bodies may take together while they are read and sent; one that has no room is answered 503; at least `max_body`";
    "worker_token", "text", "none", "a bearer token for workers, in place of the client's own `Authorization`";
    "worker_token_env", "text", "none", "an environment variable that holds it";
}

table! {
    WASM: "wasm", "How components are run.";
    "cache_dir", "path", "none", "where compiled components are kept; left out, they are compiled at every start";
    "rescan_interval", "duration, at least 100ms", "2s", "how often the policies folder is read, besides being watched";
    "max_component_size", "size, 1KiB to 1GiB", "64MiB", "the largest component file";
    "pool_instances", "count, 1 to 10_000", "256", "instances that the pool has room for; what is over is made on demand";
    "compile_timeout", "duration, 1s to 1h", "120s", "how long one component may be compiled, by the clock on the wall: a busy machine takes longer; one that takes longer is refused, and the last good version serves on. The log says which takes more than a second";
    "trust", "mapping", "any content", "which content components may have";
}

table! {
    RECORDING: "recording", "What is kept of decisions, for `GET /v1/decisions` and `pointsman policy replay`: see [ADMIN.md](ADMIN.md#recorded-decisions). A decision that is recorded asks the policy's stages one by one, and copies every column of every rank that may have the request. A restart takes changes up.";
    "percent", "percentage, 0 to 100", "0", "the share of decisions, evenly spread; 0 records none";
    "memory", "size, 1KiB to 16GiB", "16MiB", "what the latest may take in memory";
    "file", "path", "none", "the file that they are added to, a line each; left out, they are in memory only";
    "max_file_size", "size, 1KiB to 1024GiB", "64MiB", "of one file: then it is renamed to `FILE.1`, that one to `FILE.2`, and so on";
    "files", "count, 1 to 1_000", "4", "files that are kept, the one that is written included";
    "request_classifier", "true or false", "false", "whether the file has the [request classifier](#request-classifiers)'s log, too: all that it is asked and told, and what it answers, of every request, whatever `percent` is";
}

table! {
    TRUST: "wasm.trust", "Which content components may have: see [SECURITY.md](SECURITY.md#pins-and-signatures). It is held to this before it is compiled; the last good version serves on.";
    "pins", "mapping of types to digests", "none", "the only content that a type may have: `sha256:` and 64 digits, as `policy inspect` prints them";
    "keys", "list of minisign public keys", "none", "once there is one, a component serves only if `NAME.wasm.minisig` beside it is its signature by one of them";
}
