//! `request_classifier`: who admits requests.

use std::sync::Arc;

use pointsman_core::classifier::ClassifierSpec;
use pointsman_core::policy::OnFailure;
use pointsman_core::policy::selection::DEFAULT;

use super::keys::CLASSIFIER;
use super::places::{Places, TypePlace};
use super::reader::{Reader, Spot};
use super::selection::ON_FAILURE;
use super::{limits, parameters, scalar};

pub(super) fn read(
    cx: &mut Reader<'_>,
    spot: &Spot<'_>,
    places: &mut Places,
) -> Option<ClassifierSpec> {
    let fields = cx.fields(spot, &CLASSIFIER)?;
    let mut on_failure = OnFailure::default();
    cx.set(&fields, "on_failure", scalar::word(ON_FAILURE), &mut on_failure);
    let read = fields.get("parameters").map(|spot| parameters::read(cx, &spot));
    let limits = fields.get("limits").map(|spot| limits::read(cx, &spot)).unwrap_or_default();
    let of = cx.required(&fields, "type")?;
    let classifier_type: Arc<str> = cx.read(&of, scalar::plain_name)?.into();
    if &*classifier_type == DEFAULT {
        let what = "the type \"default\" is reserved: without a classifier, everybody is admitted";
        cx.refuse(&of, what, "name the classifier, or take `request_classifier` out");
        return None;
    }
    places.classifier = Some(TypePlace {
        instance: "request_classifier".into(),
        policy_type: classifier_type.clone(),
        type_at: cx.at(&of),
        parameters_at: fields.get("parameters").map(|spot| cx.at(&spot)),
        values_at: fields.get("parameters").map(|s| parameters::places(cx, &s)).unwrap_or_default(),
        stage_at: None,
        limits_at: fields.get("limits").map(|spot| cx.at(&spot)),
    });
    let parameters = Arc::new(read.unwrap_or_default());
    Some(ClassifierSpec { classifier_type, parameters, limits, on_failure })
}
