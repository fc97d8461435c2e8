//! The keys of queueing.

use super::{Key, Table};

table! {
    CLASS: "policy_classes[]", "A class of requests that wait together: see [Queueing](#queueing). A request belongs to the class of the family that it names (`x-pointsman-policy-class`) and of its prompt's uncached length, or to the explicit class that it names.";
    "name", "letters, digits, `_`, `.`, `-`", "required", "what metrics and answers call it";
    "policy_family", "as above", "none: the class is explicit", "what requests name";
    "cache_bucket", "as above", "none", "one of `uncached_isl_buckets`; a family has one class for each";
    "queue_policy", "fcfs or wspt", "fcfs", "who is first: who came first, or whose prompt has least to compute";
    "quantum", "tokens, at least 1", "1", "its share beside other classes, in prompt tokens a round";
    "prefill_busy_threshold", "tokens", "none", "a rank is busy with more prompt tokens than that to compute; without this and the next, requests of the class never wait";
    "prefill_busy_threshold_frac", "number, at least 0", "none", "the same as a fraction of `max_num_batched_tokens`, or of 10_000_000 where a worker didn't say";
    "busy_worker_ratio", "number, above 0, at most 1", "1", "the part of the ranks that a request may have which must be busy for it to wait";
    "request_queue_limit_per_worker", "count", "none", "requests that may wait, for each worker; 0 lets none wait";
    "raw_isl_token_queue_limit_per_worker", "tokens", "none", "prompt tokens that may wait, for each worker; the request that crosses a limit is taken";
    "cached_token_queue_limit_per_worker", "tokens", "none", "cached prompt tokens that may wait, for each worker";
}

table! {
    BUCKET: "uncached_isl_buckets[]", "A range of lengths: of what of a prompt the best worker that may have it has not cached.";
    "min_tokens", "tokens", "required", "where it begins; the first one at 0, the others in ascending order";
    "bucket", "letters, digits, `_`, `.`, `-`", "required", "its name";
}

table! {
    MODEL: "models.MODEL", "What is different for one model, named as clients ask for it. It has these classes in place of the file's.";
    "default_policy_family", "text", "as for the file", "as for the file";
    "uncached_isl_buckets", "list of mappings", "none", "as for the file";
    "policy_classes", "list of mappings", "required", "as for the file";
    later "worker_selection": "one selection serves all models, so take it out";
}
