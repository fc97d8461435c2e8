//! `recording`: what is kept of decisions.

use super::keys::RECORDING;
use super::places::Places;
use super::reader::{Reader, Spot};
use super::rollout::percent;
use super::scalar::{count, size, switch};
use crate::recorder::RecordingConfig;

pub(super) fn read(cx: &mut Reader<'_>, spot: &Spot<'_>, places: &mut Places) -> RecordingConfig {
    let mut recording = RecordingConfig::default();
    let Some(fields) = cx.fields(spot, &RECORDING) else { return recording };
    cx.set(&fields, "percent", percent(0.0..=100.0), &mut recording.share);
    cx.set(&fields, "memory", size(1 << 10..=16 << 30), &mut recording.memory);
    if let Some(spot) = fields.get("file") {
        places.add_key(cx.at(&spot));
        recording.file = cx.path(&spot);
    }
    cx.set(&fields, "max_file_size", size(1 << 10..=1 << 40), &mut recording.max_file_size);
    cx.set(&fields, "files", count(1..=1_000), &mut recording.files);
    cx.set(&fields, "request_classifier", switch, &mut recording.request_classifier);
    if let Some(spot) = fields.get("request_classifier")
        && recording.request_classifier
        && fields.get("file").is_none()
    {
        cx.refuse(&spot, "a request classifier's log is in the file only", "set `file`");
    }
    recording
}
