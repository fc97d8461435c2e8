//! `worker_selection`: the instances. The roles that they decide for have a page of their own.

use std::sync::Arc;

use pointsman_core::policy::normalisation::Normalisation;
use pointsman_core::policy::selection::{DEFAULT, Recipe, Rollout, StageUse, TypeUse};
use pointsman_core::policy::{InstanceSpec, OnFailure, SelectionSpec};

use super::keys::{FILTER, INSTANCE, PICKER, SCORER, SELECTION, Table};
use super::places::{Places, TypePlace};
use super::reader::{Fields, Reader, Spot};
use super::roles::{self, Lines};
use super::{limits, parameters, rollout, safeguards, scalar};

pub(super) const ON_FAILURE: &[(&str, OnFailure)] = &[
    ("default", OnFailure::Default),
    ("reject", OnFailure::Reject),
    ("skip", OnFailure::Skip),
    ("last-good", OnFailure::LastGood),
];

const NORMALISATION: &[(&str, Normalisation)] = &[
    ("none", Normalisation::None),
    ("min-max", Normalisation::MinMax),
    ("rank", Normalisation::Rank),
];

/// Whether state that can't be handed over is discarded.
const STATE: &[(&str, bool)] = &[("keep", false), ("discard", true)];

pub(super) fn read(cx: &mut Reader<'_>, spot: &Spot<'_>, places: &mut Places) -> SelectionSpec {
    let mut selection = SelectionSpec::default();
    let fields = cx.fields_or(spot, &SELECTION, roles::instead_of_selection);
    let Some(fields) = fields else { return selection };
    let mut lines = Lines::new();
    let mut followers = Vec::new();
    if let Some(spot) = fields.get("instances") {
        for item in cx.list_or(&spot, roles::instead_of_list) {
            let instance = cx.fields_or(&item, &INSTANCE, roles::instead_of_instance);
            let Some(instance) = instance else { continue };
            let name = name(cx, &instance, &mut lines);
            let shown = name.clone().unwrap_or_default();
            let after = rollout::read(cx, &instance, name.as_ref(), &mut followers);
            let spec = instance_of(cx, &instance, shown, places);
            if let (Some(name), Some(spec)) = (name, spec) {
                places.instances.insert(name, cx.at(&item));
                selection.instances.push(InstanceSpec { rollout: after, ..spec });
            }
        }
    }
    rollout::check(cx, &followers, &lines);
    selection.roles = roles::read(cx, &fields, &lines, places);
    selection
}

/// The name of an instance, which no other has.
fn name(cx: &mut Reader<'_>, instance: &Fields<'_>, lines: &mut Lines) -> Option<Arc<str>> {
    let spot = cx.required(instance, "name")?;
    let name: Arc<str> = cx.read(&spot, scalar::plain_name)?.into();
    if &*name == DEFAULT {
        let what = "the name \"default\" always means the built-in default policy";
        cx.refuse(&spot, what, "choose another name");
        return None;
    }
    if let Some(first) = lines.get(&name) {
        let what = format!("another instance, in line {first}, is named {name:?}");
        cx.refuse(&spot, what, "choose another name");
        return None;
    }
    lines.insert(name.clone(), cx.at(&spot).place.line);
    Some(name)
}

fn instance_of(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    name: Arc<str>,
    places: &mut Places,
) -> Option<InstanceSpec> {
    let mut on_failure = OnFailure::default();
    let mut discard_state = false;
    cx.set(fields, "on_failure", scalar::word(ON_FAILURE), &mut on_failure);
    cx.set(fields, "state", scalar::word(STATE), &mut discard_state);
    let safeguards = safeguards::read(cx, fields);
    let stages: Vec<_> = ["filters", "scorers", "picker"]
        .into_iter()
        .filter(|key| fields.get(key).is_some())
        .collect();
    let recipe = match (fields.get("type"), stages.as_slice()) {
        (Some(spot), []) => whole(cx, fields, &spot, &name, places).map(Recipe::Whole),
        (Some(spot), stages) => {
            let what = format!("`type` takes a policy whole, `{}` its parts", stages.join("`, `"));
            cx.refuse(&spot, what, "keep the one or the other");
            None
        }
        (None, []) => {
            let remedy = "give it `type`, for a policy whole, or `filters`, `scorers`, `picker`";
            cx.refuse(fields.spot(), "the instance names no policy", remedy);
            None
        }
        (None, _) => composed(cx, fields, &name, on_failure, places),
    };
    let recipe = recipe?;
    let omitted = fields.get("on_failure").is_none();
    if omitted && recipe.types().iter().any(|used| &*used.policy_type == "direct") {
        // A request that goes where it says, or nowhere, isn't to be decided by anybody else.
        on_failure = OnFailure::Reject;
    }
    let rollout = Rollout::default();
    Some(InstanceSpec { name, recipe, on_failure, discard_state, safeguards, rollout })
}

fn composed(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    name: &Arc<str>,
    on_failure: OnFailure,
    places: &mut Places,
) -> Option<Recipe> {
    for key in ["parameters", "limits"] {
        if let Some(spot) = fields.get(key) {
            let what = format!("`{key}` of an instance that is made of stages");
            cx.refuse(&spot, what, "move it to the stage that it is for");
        }
    }
    let mut stages_of = |key: &'static str, table| {
        let items = fields.get(key).map(|spot| cx.list(&spot)).unwrap_or_default();
        let stages = items.iter().map(|item| stage(cx, item, table, name, on_failure, places));
        stages.collect::<Vec<_>>()
    };
    let filters = stages_of("filters", &FILTER);
    let scorers = stages_of("scorers", &SCORER);
    let picker = fields.get("picker");
    if filters.is_empty()
        && scorers.is_empty()
        && picker.is_none()
        && !cx.is_reported(fields.path())
    {
        let remedy = "give it at least one filter, scorer or picker";
        cx.refuse(fields.spot(), "the instance has no stage", remedy);
        return None;
    }
    let picker = picker.map(|spot| stage(cx, &spot, &PICKER, name, on_failure, places));
    Some(Recipe::Composed {
        filters: filters.into_iter().collect::<Option<_>>()?,
        scorers: scorers.into_iter().collect::<Option<_>>()?,
        picker: match picker {
            None => None,
            Some(stage) => Some(stage?),
        },
    })
}

fn stage(
    cx: &mut Reader<'_>,
    spot: &Spot<'_>,
    table: &'static Table,
    instance: &Arc<str>,
    mut on_failure: OnFailure,
    places: &mut Places,
) -> Option<StageUse> {
    let fields = cx.fields(spot, table)?;
    cx.set(&fields, "on_failure", scalar::word(ON_FAILURE), &mut on_failure);
    let name = cx.optional(&fields, "stage", scalar::name);
    let (mut normalisation, mut weight) = (Normalisation::None, 1.0);
    if table.key("weight").is_some() {
        cx.set(&fields, "normalisation", scalar::word(NORMALISATION), &mut normalisation);
        cx.set(&fields, "weight", scalar::number, &mut weight);
    }
    let of = cx.required(&fields, "type");
    // Without a type there still may be mistakes in the rest.
    let source = match of {
        Some(of) => whole(cx, &fields, &of, instance, places),
        None => {
            configured(cx, &fields);
            None
        }
    };
    Some(StageUse { source: source?, stage: name, normalisation, weight, on_failure })
}

/// A type with what it is configured by; `of` is the value of `type`.
fn whole(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    of: &Spot<'_>,
    instance: &Arc<str>,
    places: &mut Places,
) -> Option<TypeUse> {
    let policy_type: Option<Arc<str>> = cx.read(of, scalar::plain_name).map(Into::into);
    let (parameters, limits) = configured(cx, fields);
    let policy_type = policy_type?;
    places.add_type(TypePlace {
        instance: instance.clone(),
        policy_type: policy_type.clone(),
        type_at: cx.at(of),
        parameters_at: fields.get("parameters").map(|spot| cx.at(&spot)),
        values_at: fields.get("parameters").map(|s| parameters::places(cx, &s)).unwrap_or_default(),
        stage_at: fields.optional("stage").map(|spot| cx.at(&spot)),
        limits_at: fields.get("limits").map(|spot| cx.at(&spot)),
    });
    Some(TypeUse { policy_type, parameters: Arc::new(parameters), limits })
}

fn configured(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
) -> (serde_json::Map<String, serde_json::Value>, pointsman_core::policy::Limits) {
    let parameters = fields.get("parameters").map(|spot| parameters::read(cx, &spot));
    let limits = fields.get("limits").map(|spot| limits::read(cx, &spot));
    (parameters.unwrap_or_default(), limits.unwrap_or_default())
}
