//! `/metrics`: the engine's counters under vLLM's names, or SGLang's if it hands prompts over as that
//! does, in Prometheus' text format.
//!
//! A subset of the names: what a router or an autoscaler reads. There are no histograms.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::config::{MockProtocol, MockRole};
use super::engine::Engine;

/// The content type a vLLM answers with.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=1.0.0; charset=utf-8";

const RUNNING: &str = "vllm:num_requests_running";
const WAITING: &str = "vllm:num_requests_waiting";
const KV_USAGE: &str = "vllm:kv_cache_usage_perc";
const CACHE_QUERIES: &str = "vllm:prefix_cache_queries_total";
const CACHE_HITS: &str = "vllm:prefix_cache_hits_total";
const PREEMPTIONS: &str = "vllm:num_preemptions_total";
const PROMPT_TOKENS: &str = "vllm:prompt_tokens_total";
const CACHED_TOKENS: &str = "vllm:prompt_tokens_cached_total";
const GENERATION_TOKENS: &str = "vllm:generation_tokens_total";
const SUCCESS: &str = "vllm:request_success_total";
const CACHE_CONFIG: &str = "vllm:cache_config_info";

/// The page.
pub(super) fn page(engine: &Engine) -> Bytes {
    match engine.config.protocol {
        MockProtocol::Vllm => vllm(engine),
        MockProtocol::Sglang => sglang(engine),
    }
}

/// The share of its KV blocks that running requests hold.
fn usage(engine: &Engine) -> f64 {
    let used = engine.stats.kv_blocks.load(Relaxed) as f64;
    (used / f64::from(engine.config.total_kv_blocks)).min(1.0)
}

fn sglang(engine: &Engine) -> Bytes {
    let (stats, config) = (&engine.stats, &engine.config);
    let model = escaped(config.models.first().map_or("", String::as_str));
    let kind = match config.role {
        MockRole::Aggregated => "unified",
        MockRole::Prefill => "prefill",
        MockRole::Decode => "decode",
    };
    let labels =
        format!("engine_type=\"{kind}\",model_name=\"{model}\",pp_rank=\"0\",tp_rank=\"0\"");
    let mut page = String::with_capacity(1024);
    for (name, help, value) in [
        (
            "sglang:num_running_reqs",
            "The number of running requests.",
            stats.running.load(Relaxed) as f64,
        ),
        (
            "sglang:num_queue_reqs",
            "The number of requests in the waiting queue.",
            stats.waiting.load(Relaxed) as f64,
        ),
        ("sglang:token_usage", "The token usage.", usage(engine)),
    ] {
        family(&mut page, name, "gauge", help);
        sample(&mut page, name, &labels, value);
    }
    page.into()
}

fn vllm(engine: &Engine) -> Bytes {
    let stats = &engine.stats;
    let config = &engine.config;
    let model = escaped(config.models.first().map_or("", String::as_str));
    let labels = format!("engine=\"0\",model_name=\"{model}\"");
    let usage = usage(engine);
    let prompt = stats.prompt_tokens.load(Relaxed) as f64;

    let mut page = String::with_capacity(4096);
    let mut metric = |name: &str, kind: &str, help: &str, value: f64| {
        family(&mut page, name, kind, help);
        sample(&mut page, name, &labels, value);
    };
    metric(
        RUNNING,
        "gauge",
        "Number of requests in model execution batches.",
        stats.running.load(Relaxed) as f64,
    );
    metric(
        WAITING,
        "gauge",
        "Number of requests waiting to be processed.",
        stats.waiting.load(Relaxed) as f64,
    );
    metric(KV_USAGE, "gauge", "KV-cache usage. 1 means 100 percent usage.", usage);
    metric(
        CACHE_QUERIES,
        "counter",
        "Prefix cache queries, in terms of number of queried tokens.",
        prompt,
    );
    metric(CACHE_HITS, "counter", "Prefix cache hits, in terms of number of cached tokens.", 0.0);
    metric(PREEMPTIONS, "counter", "Cumulative number of preemption from the engine.", 0.0);
    metric(PROMPT_TOKENS, "counter", "Number of prefill tokens processed.", prompt);
    metric(CACHED_TOKENS, "counter", "Number of cached prompt tokens (local + external).", 0.0);
    metric(
        GENERATION_TOKENS,
        "counter",
        "Number of generation tokens processed.",
        stats.generated_tokens.load(Relaxed) as f64,
    );

    family(&mut page, SUCCESS, "counter", "Count of successfully processed requests.");
    for (reason, count) in [
        ("stop", &stats.completed_stop),
        ("length", &stats.completed_length),
        ("abort", &stats.aborted),
        ("error", &stats.failed),
    ] {
        let labels = format!("engine=\"0\",finished_reason=\"{reason}\",model_name=\"{model}\"");
        sample(&mut page, SUCCESS, &labels, count.load(Relaxed) as f64);
    }

    family(&mut page, CACHE_CONFIG, "gauge", "Information of the LLMEngine CacheConfig");
    let labels = format!(
        "block_size=\"{}\",enable_prefix_caching=\"False\",engine=\"0\",kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"{}\"",
        config.block_size,
        u64::from(config.block_size) * u64::from(config.total_kv_blocks),
        config.total_kv_blocks
    );
    sample(&mut page, CACHE_CONFIG, &labels, 1.0);
    page.into()
}

fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    // Writing into a String can't fail.
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn sample(page: &mut String, name: &str, labels: &str, value: f64) {
    // `{:?}` writes whole numbers as Python does: `3.0`.
    let _ = writeln!(page, "{name}{{{labels}}} {value:?}");
}

/// A label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
