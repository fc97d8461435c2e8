//! What isn't about policies or workers themselves: settings, proxy, health, components.

use std::ops::RangeInclusive;
use std::time::Duration;

use pointsman_core::affinity::AffinityMode;
use pointsman_core::disaggregation::BypassPolicy;
use pointsman_core::policy::RouterSettings;
use pointsman_core::policy::settings::{
    ApproximateCachePolicy, MOST_AFFINITY_TTL_SECS, PrefillLoadModel, SharedCacheType,
};

use super::document::Value;
use super::keys::{HEALTH, LOAD_REPORTS, PREFILL_LOAD, PROXY, ROUTER, WASM};
use super::listener::from_environment;
use super::overrides;
use super::places::Places;
use super::queue::{self, RouterWide};
use super::reader::{Fields, Reader, Spot};
use super::scalar::{self, count, duration, show_size, size};
use super::trust;
use super::{
    DisaggregationMode, HealthConfig, LoadReportsConfig, ProxyConfig, Secret, SharedCacheConfig,
    WasmConfig,
};

/// Times that something waits at most: more than nothing, and less than for ever.
pub(super) const WAIT: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(86_400);

/// The longest drain: an orchestrator's patience ends before.
pub(super) const DRAIN: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3_600);

/// Sizes of bodies and of files.
pub(super) const BULK: RangeInclusive<u64> = 1 << 10..=1 << 30;

/// Of all bodies together: at most what a large machine has of memory.
pub(super) const BUDGET: RangeInclusive<u64> = 1 << 10..=1 << 40;

const APPROXIMATE: &[(&str, ApproximateCachePolicy)] =
    &[("ttl", ApproximateCachePolicy::Ttl), ("lru", ApproximateCachePolicy::Lru)];

const PREFILL_LOAD_MODELS: &[(&str, bool)] = &[("none", false), ("polynomial", true)];

const SHARED: &[(&str, SharedCacheType)] =
    &[("none", SharedCacheType::None), ("hicache", SharedCacheType::Hicache)];

const AFFINITY: &[(&str, AffinityMode)] =
    &[("hard", AffinityMode::Hard), ("soft", AffinityMode::Soft)];

/// What makes a request skip the prefill worker.
pub(super) const BYPASS: &[(&str, BypassPolicy)] = &[
    ("isl_bounding", BypassPolicy::IslBounding),
    ("prefill_load", BypassPolicy::PrefillLoad),
    ("isl_or_load", BypassPolicy::IslOrLoad),
];

const MODES: &[(&str, DisaggregationMode)] = &[
    ("auto", DisaggregationMode::Auto),
    ("enforce", DisaggregationMode::Enforce),
    ("off", DisaggregationMode::Off),
];

/// Between two questions for an engine's load: a report is believed for ten seconds, so that one that is
/// missed needn't make it too old.
const REPORTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(5);

/// Each request may wait so long for the shared cache: longer, it would be better computed.
const SHARED_WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(1);

pub(super) fn router(
    cx: &mut Reader<'_>,
    spot: &Spot<'_>,
    places: &mut Places,
) -> (RouterSettings, SharedCacheConfig, RouterWide) {
    let mut settings = RouterSettings::default();
    let Some(fields) = cx.fields(spot, &ROUTER) else { return Default::default() };
    let queue = queue::router_wide(cx, &fields);
    let numbers: [(&'static str, &mut f64); 8] = [
        ("overlap_score_credit", &mut settings.overlap_score_credit),
        ("overlap_score_credit_decay", &mut settings.overlap_score_credit_decay),
        ("prefill_load_scale", &mut settings.prefill_load_scale),
        ("decode_active_request_weight", &mut settings.decode_active_request_weight),
        ("host_cache_hit_weight", &mut settings.host_cache_hit_weight),
        ("disk_cache_hit_weight", &mut settings.disk_cache_hit_weight),
        ("router_temperature", &mut settings.router_temperature),
        ("router_ttl_secs", &mut settings.router_ttl_secs),
    ];
    for (key, to) in numbers {
        cx.set(&fields, key, scalar::number, to);
    }
    let shared = cx.optional(&fields, "shared_cache_type", scalar::word(SHARED));
    let multiplier = cx.optional(&fields, "shared_cache_multiplier", scalar::number);
    settings.share(shared.unwrap_or_default(), multiplier);
    let shared_cache = shared_cache(cx, &fields, settings.shared_cache_type, places);
    settings.router_predicted_ttl_secs =
        cx.optional(&fields, "router_predicted_ttl_secs", scalar::number);
    let policy = &mut settings.router_approximate_cache_policy;
    cx.set(&fields, "router_approximate_cache_policy", scalar::word(APPROXIMATE), policy);
    settings.router_prefill_load_model =
        fields.get("router_prefill_load_model").and_then(|spot| prefill_load_model(cx, &spot));
    let switches: [(&'static str, &mut bool); 5] = [
        ("use_kv_events", &mut settings.use_kv_events),
        ("router_track_active_blocks", &mut settings.router_track_active_blocks),
        ("router_track_output_blocks", &mut settings.router_track_output_blocks),
        ("router_assume_kv_reuse", &mut settings.router_assume_kv_reuse),
        ("router_track_prefill_tokens", &mut settings.router_track_prefill_tokens),
    ];
    for (key, to) in switches {
        cx.set(&fields, key, scalar::switch, to);
    }
    let busy = &mut settings.busy;
    busy.active_decode_blocks_threshold =
        cx.optional(&fields, "active_decode_blocks_threshold", scalar::number);
    busy.active_prefill_tokens_threshold =
        cx.optional(&fields, "active_prefill_tokens_threshold", scalar::count(0..=u64::MAX));
    busy.active_prefill_tokens_threshold_frac =
        cx.optional(&fields, "active_prefill_tokens_threshold_frac", scalar::number);
    let seconds = count(1..=u64::from(MOST_AFFINITY_TTL_SECS));
    let key = "router_session_affinity_ttl_secs";
    // One that is there and can't be read is one mistake, and no other's cause.
    let given = fields.get(key).is_some().then_some(1);
    settings.router_session_affinity_ttl_secs = cx.optional(&fields, key, seconds).or(given);
    let mode = &mut settings.router_session_affinity_mode;
    cx.set(&fields, "router_session_affinity_mode", scalar::word(AFFINITY), mode);
    conditional(cx, &fields, &mut settings);
    overrides::conditional(cx, spot, &mut settings.conditional_disagg);
    check(cx, spot, Some(&fields), &settings);
    (settings, shared_cache, queue)
}

/// What is out of range, or out of place, at its key: or at `spot`, if the environment says it.
pub(super) fn check(
    cx: &mut Reader<'_>,
    spot: &Spot<'_>,
    fields: Option<&Fields<'_>>,
    settings: &RouterSettings,
) {
    for (key, problem) in settings.problems() {
        let at = fields.and_then(|fields| fields.get(key));
        let (what, expected) = problem.split_once("; ").unwrap_or((&problem, "lower it"));
        match at {
            Some(at) => cx.refuse(&at, what, expected),
            None => cx.refuse(spot, format!("{key}: {what}"), expected),
        }
    }
}

/// A word, or a mapping of what the polynomial's numbers are.
fn prefill_load_model(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Option<PrefillLoadModel> {
    let mut model = PrefillLoadModel::default();
    if !matches!(spot.node().value, Value::Mapping(_)) {
        let is_on = cx.read(spot, scalar::word(PREFILL_LOAD_MODELS));
        return is_on.filter(|is_on| *is_on).map(|_| model);
    }
    let fields = cx.fields(spot, &PREFILL_LOAD)?;
    for (key, to) in [
        ("constant_ms", &mut model.constant_ms),
        ("ms_per_token", &mut model.ms_per_token),
        ("ms_per_token_squared", &mut model.ms_per_token_squared),
    ] {
        cx.set(&fields, key, scalar::number, to);
    }
    Some(model)
}

fn conditional(cx: &mut Reader<'_>, fields: &Fields<'_>, settings: &mut RouterSettings) {
    let rule = &mut settings.conditional_disagg;
    cx.set(fields, "router_conditional_disagg", scalar::switch, &mut rule.enabled);
    cx.set(fields, "router_conditional_disagg_policy", scalar::word(BYPASS), &mut rule.policy);
    let (tokens, to) = ("router_conditional_disagg_eff_isl_threshold", &mut rule.isl_threshold);
    cx.set(fields, tokens, count(0..=u64::MAX), to);
    let ratio = "router_conditional_disagg_eff_isl_ratio_threshold";
    cx.set(fields, ratio, scalar::number, &mut rule.isl_ratio_threshold);
    let busy = "router_conditional_disagg_prefill_busy_threshold";
    rule.prefill_busy_threshold = cx.optional(fields, busy, scalar::number);
    let busy = "router_conditional_disagg_decode_busy_threshold";
    rule.decode_busy_threshold = cx.optional(fields, busy, scalar::number);
}

/// Where the shared cache is asked. There is no usual place.
fn shared_cache(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    shared: SharedCacheType,
    places: &mut Places,
) -> SharedCacheConfig {
    let mut config = SharedCacheConfig::default();
    cx.set(fields, "shared_cache_timeout", duration(SHARED_WAIT), &mut config.timeout);
    match (fields.get("shared_cache_url"), fields.get("shared_cache_type")) {
        (Some(spot), _) => {
            places.add_key(cx.at(&spot));
            config.url = cx.read_url(&spot, scalar::cache_url);
        }
        (None, Some(spot)) if shared != SharedCacheType::None => {
            let remedy = "add `shared_cache_url: http://host:port`, or set none";
            cx.refuse(&spot, "nothing says where that cache is asked", remedy);
        }
        (None, _) => {}
    }
    config
}

pub(super) fn proxy(cx: &mut Reader<'_>, spot: &Spot<'_>) -> ProxyConfig {
    let mut proxy = ProxyConfig::default();
    let Some(fields) = cx.fields(spot, &PROXY) else { return proxy };
    cx.set(&fields, "disaggregation", scalar::word(MODES), &mut proxy.disaggregation);
    cx.set(&fields, "connect_timeout", duration(WAIT), &mut proxy.connect_timeout);
    cx.set(&fields, "first_byte_timeout", duration(WAIT), &mut proxy.first_byte_timeout);
    cx.set(&fields, "idle_timeout", duration(WAIT), &mut proxy.idle_timeout);
    cx.set(&fields, "client_timeout", duration(WAIT), &mut proxy.client_timeout);
    cx.set(&fields, "total_timeout", duration(WAIT), &mut proxy.total_timeout);
    cx.set(&fields, "retries", count(0..=10), &mut proxy.retries);
    let backoff = Duration::ZERO..=Duration::from_secs(2);
    cx.set(&fields, "overload_backoff", duration(backoff), &mut proxy.overload_backoff);
    cx.set(&fields, "max_body", size(BULK), &mut proxy.max_body);
    cx.set(&fields, "body_budget", size(BUDGET), &mut proxy.body_budget);
    // The default has room for the largest body that can be allowed.
    if let Some(spot) = fields.get("body_budget")
        && proxy.body_budget < proxy.max_body
    {
        let budget = show_size(proxy.body_budget as u64);
        let most = show_size(proxy.max_body as u64);
        let what = format!("{budget} have no room for one body of {most}, which `max_body` allows");
        cx.refuse(&spot, what, format!("set at least {most}, or lower `max_body`"));
    }
    let spot = fields.get("worker_token");
    let written = spot.as_ref().and_then(|spot| cx.read_secret(spot, scalar::token)).map(Secret);
    let named = from_environment(cx, &fields, "worker_token_env");
    if let (Some(spot), Some(_)) = (&spot, &named) {
        let what = "`worker_token_env` names the token already";
        cx.refuse(spot, what, "keep one of the two");
    }
    proxy.worker_token = written.or(named);
    proxy
}

pub(super) fn health(cx: &mut Reader<'_>, spot: &Spot<'_>) -> HealthConfig {
    let mut health = HealthConfig::default();
    let Some(fields) = cx.fields(spot, &HEALTH) else { return health };
    cx.set(&fields, "probes", scalar::switch, &mut health.probes);
    cx.set(&fields, "interval", duration(WAIT), &mut health.interval);
    cx.set(&fields, "timeout", duration(WAIT), &mut health.timeout);
    cx.set(&fields, "path", scalar::url_path, &mut health.path);
    cx.set(&fields, "unhealthy_after", count(1..=1_000), &mut health.unhealthy_after);
    cx.set(&fields, "healthy_after", count(1..=1_000), &mut health.healthy_after);
    cx.set(&fields, "eject_after", count(0..=1_000), &mut health.eject_after);
    health
}

pub(super) fn load_reports(cx: &mut Reader<'_>, spot: &Spot<'_>) -> LoadReportsConfig {
    let mut reports = LoadReportsConfig::default();
    let Some(fields) = cx.fields(spot, &LOAD_REPORTS) else { return reports };
    cx.set(&fields, "interval", duration(REPORTS), &mut reports.interval);
    cx.set(&fields, "timeout", duration(WAIT), &mut reports.timeout);
    cx.set(&fields, "path", scalar::url_path, &mut reports.path);
    if reports.timeout > reports.interval {
        let [timeout, interval] = [reports.timeout, reports.interval].map(scalar::show);
        let at = fields.get("timeout").or_else(|| fields.get("interval"));
        let what = format!("a timeout of {timeout} is longer than the interval of {interval}");
        cx.refuse(at.as_ref().unwrap_or(spot), what, "set a shorter timeout, or a longer interval");
    }
    reports
}

pub(super) fn wasm(cx: &mut Reader<'_>, spot: &Spot<'_>) -> WasmConfig {
    let mut wasm = WasmConfig::default();
    let Some(fields) = cx.fields(spot, &WASM) else { return wasm };
    wasm.cache_dir = fields.get("cache_dir").and_then(|spot| cx.path(&spot));
    // Reading a folder costs little, but not nothing.
    let rescan = Duration::from_millis(100)..=*WAIT.end();
    cx.set(&fields, "rescan_interval", duration(rescan), &mut wasm.rescan_interval);
    cx.set(&fields, "max_component_size", size(BULK), &mut wasm.max_component_size);
    cx.set(&fields, "pool_instances", count(1..=10_000), &mut wasm.pool_instances);
    let compile = Duration::from_secs(1)..=Duration::from_secs(3_600);
    cx.set(&fields, "compile_timeout", duration(compile), &mut wasm.compile_timeout);
    wasm.trust = fields.get("trust").map(|spot| trust::read(cx, &spot)).unwrap_or_default();
    wasm
}
