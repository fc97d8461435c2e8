//! The keys of what workers are asked, beside requests: whether they are well, and how much they have to do.

use super::{Key, Table};

table! {
    HEALTH: "health", "How workers are probed. Probes never touch load counts.";
    "probes", "true or false", "true", "whether workers are probed; without, one is healthy until its requests fail (`eject_after`): for workers that the router can't reach, or that have no such path";
    "interval", "duration", "5s", "between two probes of a worker";
    "timeout", "duration", "2s", "for one probe";
    "path", "text", "/health", "what is asked for; a worker whose answer says that it `is_sleeping` (vLLM's `/is_sleeping`) is unhealthy at once, and its cache empty";
    "unhealthy_after", "count, 1 to 1_000", "3", "failed probes in a row that make a worker unhealthy";
    "healthy_after", "count, 1 to 1_000", "1", "good probes in a row that make it healthy again";
    "eject_after", "count, at most 1_000", "5", "failed requests in a row that leave a worker out, whatever its probes say: for 1s, and twice as long for each failure after that, 30s at most, until one succeeds; never more than half of a partition's workers; 0 turns it off";
}

table! {
    LOAD_REPORTS: "load_reports", "How engines are asked for their own load, by their Prometheus metrics: see [Busy workers](#busy-workers). Nobody waits for it. A restart takes changes up.";
    "interval", "duration, 100ms to 5s", "1s", "between two questions to a worker; one that fails is asked less often, at least every 10s";
    "timeout", "duration", "500ms", "for one of them; at most the interval";
    "path", "text", "/metrics", "what is asked for";
}
