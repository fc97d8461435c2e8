//! `policy_classes` and what belongs to them, for all models and for some: in which classes requests
//! wait.
//!
//! The rules that classes keep are the core's; this page says where in the file one is broken.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::queue::{
    Bucket, ClassSpec, Profile, ProfilePlace, ProfileProblem, ProfileSpec, QueuePolicy,
    QueueSettings, is_class_name,
};

use super::keys::{BUCKET, CLASS, MODEL};
use super::reader::{Fields, Reader, Spot};
use super::scalar::{self, Expected, Read, count};

const POLICIES: &[(&str, QueuePolicy)] =
    &[("fcfs", QueuePolicy::Fcfs), ("lcfs", QueuePolicy::Lcfs), ("wspt", QueuePolicy::Wspt)];

/// The keys of a profile, of the file or of a model.
const PROFILE: [&str; 3] = ["policy_classes", "default_policy_family", "uncached_isl_buckets"];

/// What `router` says of queueing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RouterWide {
    threshold: Option<f64>,
    policy: Option<QueuePolicy>,
}

/// Reads what `router` says of queueing.
pub(super) fn router_wide(cx: &mut Reader<'_>, router: &Fields<'_>) -> RouterWide {
    RouterWide {
        threshold: cx.optional(router, "router_queue_threshold", fraction),
        policy: cx.optional(router, "router_queue_policy", scalar::word(POLICIES)),
    }
}

/// Reads the profiles of all models.
pub(super) fn read(cx: &mut Reader<'_>, root: &Fields<'_>, wide: RouterWide) -> QueueSettings {
    let without = Profile::of_threshold(wide.threshold, wide.policy.unwrap_or_default());
    let mut settings = QueueSettings { default: Arc::new(without), models: BTreeMap::new() };
    if let Some(profile) = profile(cx, root) {
        settings.default = Arc::new(profile);
        if wide.threshold.is_some() || wide.policy.is_some() {
            let what = "`router_queue_threshold` and `router_queue_policy` are for routers without";
            let remedy = "say it in the classes, and take those out of `router`";
            let spot = root.get("policy_classes");
            cx.refuse(spot.as_ref().unwrap_or(root.spot()), what, remedy);
        }
    }
    let models = root.get("models").map(|spot| cx.entries(&spot)).unwrap_or_default();
    for (model, spot) in models {
        let Some(fields) = cx.fields(&spot, &MODEL) else { continue };
        if scalar::name(model).is_err() {
            cx.refuse(&spot, "no model is named so", "name one that workers serve");
        }
        if let Some(profile) = profile(cx, &fields) {
            settings.models.insert(model.into(), Arc::new(profile));
        } else if PROFILE.iter().all(|&key| fields.get(key).is_none()) {
            cx.refuse(&spot, "nothing is said of the model", "give it `policy_classes`");
        }
    }
    settings
}

/// One profile; none if there is none, or it isn't in good order.
fn profile(cx: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Profile> {
    if PROFILE.iter().all(|&key| fields.get(key).is_none()) {
        return None;
    }
    let classes = items(cx, fields, "policy_classes");
    let buckets = items(cx, fields, "uncached_isl_buckets");
    let read_classes: Vec<_> = classes.iter().map(|item| class(cx, item)).collect();
    let read_buckets: Vec<_> = buckets.iter().map(|item| bucket(cx, item)).collect();
    let default = cx.optional(fields, "default_policy_family", class_name);
    let spec = ProfileSpec {
        default_policy_family: default,
        // Rules about all of them say nothing of those that couldn't be read.
        policy_classes: read_classes.into_iter().collect::<Option<_>>()?,
        uncached_isl_buckets: read_buckets.into_iter().collect::<Option<_>>()?,
    };
    let problems = match Profile::new(spec) {
        Ok(profile) => return Some(profile),
        Err(problems) => problems,
    };
    let all = fields.spot();
    let place_of = |place| match place {
        ProfilePlace::Profile => all,
        ProfilePlace::Class(at) => classes.get(at).unwrap_or(all),
        ProfilePlace::Bucket(at) => buckets.get(at).unwrap_or(all),
    };
    // What of a class can't be read is reported already, and reads as absent.
    let told = problems.into_iter().filter(|problem| {
        let spot = place_of(problem.place);
        problem.place == ProfilePlace::Profile || !cx.is_reported(spot.path())
    });
    let told: Vec<_> = told.collect();
    for ProfileProblem { place, key, what, remedy } in told {
        cx.refuse(&place_of(place).child_or_self(key), what, remedy);
    }
    None
}

fn items<'n>(cx: &mut Reader<'_>, fields: &Fields<'n>, key: &'static str) -> Vec<Spot<'n>> {
    fields.get(key).map(|spot| cx.list(&spot)).unwrap_or_default()
}

fn class(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Option<ClassSpec> {
    let fields = cx.fields(spot, &CLASS)?;
    let name = cx.required(&fields, "name");
    let name = name.and_then(|spot| cx.read(&spot, class_name));
    let mut class = ClassSpec::new(name.clone().unwrap_or_default());
    class.policy_family = cx.optional(&fields, "policy_family", class_name);
    class.cache_bucket = cx.optional(&fields, "cache_bucket", class_name);
    cx.set(&fields, "queue_policy", scalar::word(POLICIES), &mut class.queue_policy);
    cx.set(&fields, "quantum", count(1..=1 << 40), &mut class.quantum);
    class.prefill_busy_threshold = cx.optional(&fields, "prefill_busy_threshold", limit);
    class.prefill_busy_threshold_frac =
        cx.optional(&fields, "prefill_busy_threshold_frac", fraction);
    class.busy_worker_ratio = cx.optional(&fields, "busy_worker_ratio", scalar::number);
    class.request_queue_limit_per_worker =
        cx.optional(&fields, "request_queue_limit_per_worker", limit);
    class.raw_isl_token_queue_limit_per_worker =
        cx.optional(&fields, "raw_isl_token_queue_limit_per_worker", limit);
    class.cached_token_queue_limit_per_worker =
        cx.optional(&fields, "cached_token_queue_limit_per_worker", limit);
    name.map(|_| class)
}

fn bucket(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Option<Bucket> {
    let fields = cx.fields(spot, &BUCKET)?;
    let least = cx.required(&fields, "min_tokens");
    let name = cx.required(&fields, "bucket");
    let min_tokens = least.and_then(|spot| cx.read(&spot, limit));
    let bucket = name.and_then(|spot| cx.read(&spot, class_name));
    Some(Bucket { min_tokens: min_tokens?, bucket: bucket? })
}

fn limit(text: &str) -> Read<u64> {
    count(0..=u64::MAX)(text)
}

fn fraction(text: &str) -> Read<f64> {
    let number = scalar::number(text).ok().filter(|number| *number >= 0.0);
    number.ok_or_else(|| Expected::new("a finite number, at least 0"))
}

fn class_name(text: &str) -> Read<Arc<str>> {
    let expected = || Expected::new("a name of letters, digits, `_`, `.` and `-`");
    is_class_name(text).then(|| text.into()).ok_or_else(expected)
}
