//! The keys of who lists workers beside the file and the API.

use super::{Key, Table};

table! {
    DISCOVERY: "discovery", "Who lists workers beside this file and the API: each of a list is registered, and let go when it is listed no longer. While nobody can be asked, the workers stay as they are. As it was at start; a changed file changes nothing of it.";
    "dns", "list of mappings", "none", "names whose records are workers";
    "kubernetes", "mapping", "none", "a pool of pods";
}

table! {
    DNS: "discovery.dns[]", "A name whose records are workers, such as a headless service's: looked up at start, and time and again.";
    "name", "text", "required", "the name; one that ends in a dot is looked up as it is";
    "records", "address or srv", "address", "what is looked up: addresses, all with `port`; or services, which bring their ports";
    "port", "port", "none", "where each address listens; required with addresses";
    "refresh", "duration, 100ms to 1h", "5s", "how long between two look-ups";
    "servers", "list of `ip:port`", "the system's", "the name servers that are asked";
    "worker", "mapping", "the defaults", "what each worker is like";
}

table! {
    KUBERNETES: "discovery.kubernetes", "The pods of an `InferencePool` that are ready and stay, one worker for each of the pool's ports. The API server is found as `kubectl` does, or by the service account that pods have.";
    "pool", "text", "required", "the pool's name";
    "namespace", "text", "its own", "the pool's namespace";
    "api_version", "group and version", "inference.networking.k8s.io/v1", "of the pool; `inference.networking.x-k8s.io/v1alpha2` is taken, too";
    "server", "`http://host:port` or `https://host:port`", "found", "where the API server is, if it asks for nothing";
    "worker", "mapping", "the defaults", "what each worker is like";
}

table! {
    LIKE: "discovery.dns[].worker, discovery.kubernetes.worker", "What each worker of a list is like: as of `workers[]`, without what the list says.";
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
    wrong "worker_id": "each worker of a list has an id by where it is; leave it out";
    wrong "endpoint": "the list says where workers are; leave it out";
}
