//! The log: what of a guest's lines gets there, and what is beside them.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_core::policy::PolicyProvider;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::rig::{Case, component, environment};

/// One line: its level, and its fields.
type Line = (Level, Vec<(&'static str, String)>);

/// Keeps the lines of policies.
#[derive(Clone, Default)]
struct Keeps(Arc<Mutex<Vec<Line>>>);

struct Fields(Vec<(&'static str, String)>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }
}

impl Subscriber for Keeps {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "pointsman::policy"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        self.0.lock().push((*event.metadata().level(), fields.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What stands in the log after one call of a scorer that writes so.
fn written(writes: &str) -> Vec<Line> {
    let chatters = std::fs::read_to_string("../../tests/guests/chatters.wat").unwrap();
    let (imports, _) = chatters.split_once(";;; score").unwrap();
    let score = format!(
        ";;; score
        (func $score (result i32)
          {writes}
          (call $ok-list (global.get $numbers) (global.get $length)))
        ;;; end"
    );
    let mut policy = component(&format!("{imports}{score}")).instantiate(&environment()).unwrap();
    let kept = Keeps::default();
    tracing::subscriber::with_default(kept.clone(), || Case::new(&[1.0]).score(&mut *policy))
        .unwrap();
    std::mem::take(&mut *kept.0.lock())
}

fn of<'a>(line: &'a Line, field: &str) -> &'a str {
    line.1.iter().find(|(name, _)| *name == field).map_or("", |(_, value)| value)
}

#[test]
fn a_line_has_its_level_and_the_policys_name_beside_it() {
    let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
    // Five letters of the filter's name.
    let write = |level| format!("(call $write (i32.const {level}) (i32.const 1024) (i32.const 5))");
    let lines = written(&(0..5).map(write).collect::<String>());
    assert_eq!(lines.iter().map(|line| line.0).collect::<Vec<_>>(), levels);
    for line in &lines {
        let beside = (of(line, "policy"), of(line, "policy_type"), of(line, "message"));
        assert_eq!(beside, ("tested", "x", "every"));
        assert_eq!(of(line, "partition"), "m/default/aggregated");
    }
}

#[test]
fn twenty_lines_a_call_of_a_kibibyte_each_are_written() {
    let letters = |length: u32| {
        format!(
            "(memory.fill (i32.const 8192) (i32.const 120) (i32.const {length}))
             (call $write (i32.const 2) (i32.const 8192) (i32.const {length}))"
        )
    };
    let lines = written(&letters(8).repeat(25));
    assert_eq!(lines.len(), 20);
    let lengths =
        [1_024, 1_025, 50_000].map(|length| of(&written(&letters(length))[0], "message").len());
    assert_eq!(lengths[0], 1_024, "it is whole");
    assert!(lengths[1..].iter().all(|&cut| (1_000..1_100).contains(&cut)), "{lengths:?}");
}
