//! The rules that classes keep, each by itself and together.
//!
//! Owns what is wrong with a profile, in words that name the key: whoever reads one from a file adds
//! the place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ClassSpec, ProfileSpec};
use crate::queue::QueuePolicy;

/// The most classes of a profile: each is looked at when load falls, and has series in metrics.
pub const MOST_CLASSES: usize = 64;

/// The longest name of a class, a family or a bucket, in bytes.
const MOST_NAME: usize = 128;

/// Where a mistake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfilePlace {
    /// In the profile as a whole.
    Profile,
    /// In the bucket at this place.
    Bucket(usize),
    /// In the class at this place.
    Class(usize),
}

/// A mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileProblem {
    /// Where.
    pub place: ProfilePlace,
    /// The key; it need not be there.
    pub key: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// Whether a text can name a class, a family or a bucket: letters, digits, `_`, `.` and `-`.
#[must_use]
pub fn is_class_name(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || b"_.-".contains(&c);
    !name.is_empty() && name.len() <= MOST_NAME && name.bytes().all(fits)
}

/// All that is wrong.
pub(super) fn problems(spec: &ProfileSpec) -> Vec<ProfileProblem> {
    let mut rules = Rules::default();
    let classes = &spec.policy_classes;
    match classes.len() {
        0 => rules.whole("policy_classes", "there is no class", "name one, or leave the key out"),
        1..=MOST_CLASSES => {}
        many => {
            let remedy = format!("keep at most {MOST_CLASSES}");
            rules.whole("policy_classes", format!("{many} classes"), remedy);
        }
    }
    rules.buckets(spec);
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (at, class) in classes.iter().enumerate() {
        let place = ProfilePlace::Class(at);
        rules.class(place, class);
        if !names.insert(&class.name) {
            let what = format!("another class is named {:?}", class.name);
            rules.add(place, "name", what, "choose another name");
        }
    }
    rules.families(spec);
    rules.default_choice(spec);
    rules.0
}

#[derive(Default)]
struct Rules(Vec<ProfileProblem>);

impl Rules {
    fn add(
        &mut self,
        place: ProfilePlace,
        key: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(ProfileProblem { place, key, what: what.into(), remedy: remedy.into() });
    }

    fn whole(&mut self, key: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(ProfilePlace::Profile, key, what, remedy);
    }

    fn name(&mut self, place: ProfilePlace, key: &'static str, name: &str) {
        if !is_class_name(name) {
            let remedy =
                format!("use letters, digits, `_`, `.` and `-`, at most {MOST_NAME} of them");
            self.add(place, key, format!("{name:?} is no name"), remedy);
        }
    }

    /// What one class says of itself.
    fn class(&mut self, place: ProfilePlace, class: &ClassSpec) {
        self.name(place, "name", &class.name);
        if let Some(family) = &class.policy_family {
            self.name(place, "policy_family", family);
        }
        if class.queue_policy == QueuePolicy::Lcfs {
            let what = "lcfs beside other classes would starve whoever came first";
            let remedy = "use fcfs or wspt; lcfs is for `router_queue_policy`, without classes";
            self.add(place, "queue_policy", what, remedy);
        }
        if class.quantum == 0 {
            let remedy = "give it at least 1";
            self.add(place, "quantum", "a class without a share is never served", remedy);
        }
        let frac = class.prefill_busy_threshold_frac;
        if frac.is_some_and(|frac| !(frac.is_finite() && frac >= 0.0)) {
            let what = "the fraction is out of range";
            self.add(place, "prefill_busy_threshold_frac", what, "give a number of at least 0");
        }
        let Some(ratio) = class.busy_worker_ratio else { return };
        if !(ratio > 0.0 && ratio <= 1.0) {
            let what = format!("{ratio} is out of range");
            self.add(place, "busy_worker_ratio", what, "give a number above 0 and at most 1");
        }
        if !class.queues() {
            let remedy = "set `prefill_busy_threshold` or `prefill_busy_threshold_frac` beside it";
            self.add(place, "busy_worker_ratio", "nothing says when a rank is busy", remedy);
        }
    }

    fn buckets(&mut self, spec: &ProfileSpec) {
        let buckets = &spec.uncached_isl_buckets;
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (at, bucket) in buckets.iter().enumerate() {
            let place = ProfilePlace::Bucket(at);
            self.name(place, "bucket", &bucket.bucket);
            if !names.insert(&bucket.bucket) {
                let what = format!("another bucket is named {:?}", bucket.bucket);
                self.add(place, "bucket", what, "choose another name");
            }
            match at.checked_sub(1).and_then(|before| buckets.get(before)) {
                None if bucket.min_tokens != 0 => {
                    let what = format!("the first bucket begins at {}", bucket.min_tokens);
                    self.add(place, "min_tokens", what, "begin at 0, so that every length has one");
                }
                Some(before) if bucket.min_tokens <= before.min_tokens => {
                    let what =
                        format!("{} doesn't come after {}", bucket.min_tokens, before.min_tokens);
                    self.add(place, "min_tokens", what, "put the buckets in ascending order");
                }
                _ => {}
            }
        }
    }

    /// Families have one class for each bucket; the others have none.
    fn families(&mut self, spec: &ProfileSpec) {
        let buckets = &spec.uncached_isl_buckets;
        let mut families: BTreeMap<&Arc<str>, Vec<Option<&str>>> = BTreeMap::new();
        for (at, class) in spec.policy_classes.iter().enumerate() {
            let place = ProfilePlace::Class(at);
            let Some(family) = &class.policy_family else {
                if class.cache_bucket.is_some() {
                    let what = "a bucket without a family";
                    self.add(place, "cache_bucket", what, "add `policy_family`, or take it out");
                }
                continue;
            };
            let bucket = class.cache_bucket.as_deref();
            let known = bucket.is_some_and(|name| buckets.iter().any(|b| &*b.bucket == name));
            match bucket {
                None if !buckets.is_empty() => {
                    let remedy = "add `cache_bucket`, one of `uncached_isl_buckets`";
                    self.add(place, "cache_bucket", "the class says no bucket", remedy);
                    continue;
                }
                Some(name) if !known => {
                    let what = format!("there is no bucket {name:?}");
                    self.add(place, "cache_bucket", what, "add it to `uncached_isl_buckets`");
                    continue;
                }
                _ => {}
            }
            let served = families.entry(family).or_default();
            if served.contains(&bucket) {
                let shown = bucket.map(|name| format!(", bucket {name:?}")).unwrap_or_default();
                let what = format!("another class serves family {family:?}{shown}");
                self.add(place, "policy_family", what, "keep one of the two");
            }
            served.push(bucket);
        }
        for (family, served) in &families {
            let missing = buckets.iter().filter(|b| !served.contains(&Some(&*b.bucket)));
            for bucket in missing {
                let what = format!("family {family:?} has no class for bucket {:?}", bucket.bucket);
                self.whole("policy_classes", what, "add one");
            }
        }
        for (at, class) in spec.policy_classes.iter().enumerate() {
            if class.policy_family.is_none() && families.contains_key(&class.name) {
                let what = format!("a family is named {:?} too", class.name);
                let remedy = "choose another name, so that requests can say which they mean";
                self.add(ProfilePlace::Class(at), "name", what, remedy);
            }
        }
        if families.is_empty() && !buckets.is_empty() {
            let remedy = "give classes `policy_family` and `cache_bucket`, or take the buckets out";
            self.whole("uncached_isl_buckets", "no class serves a bucket", remedy);
        }
    }

    fn default_choice(&mut self, spec: &ProfileSpec) {
        if spec.policy_classes.is_empty() {
            return;
        }
        let choices: BTreeSet<&str> = spec.choices().map(|choice| &**choice).collect();
        let known = choices.iter().copied().collect::<Vec<_>>().join(", ");
        match spec.default_choice() {
            Some(choice) if choices.contains(&**choice) => {}
            Some(choice) => {
                let what = format!("there is no family or explicit class {choice:?}");
                self.whole("default_policy_family", what, format!("name one of {known}"));
            }
            None => {
                let what = "nothing says where requests belong that name no class";
                let remedy = format!("set `default_policy_family` to one of {known}");
                self.whole("default_policy_family", what, remedy);
            }
        }
    }
}
