//! What a stage's first policy is, whatever it is written in: its sentence, parameters, schema, cases, and the lines for the router's YAML.
//!
//! The texts are those of `templates/rust`, so that the same cases hold for each language. What is written around them is the languages' own.

use super::TemplateStage;

/// What differs from stage to stage.
pub(super) struct Outline {
    /// What it does, without a full stop.
    pub(super) summary: &'static str,
    /// `cases.yaml`.
    pub(super) cases: &'static str,
    /// `parameters.schema.json`.
    pub(super) schema: &'static str,
    /// The router's YAML.
    yaml: &'static str,
    /// The parameters: each with its default and its meaning.
    parameters: &'static [[&'static str; 3]],
}

macro_rules! outline {
    ($stage:literal, $yaml:literal, $summary:literal, $parameters:expr) => {
        Outline {
            summary: $summary,
            cases: include_str!(concat!("../templates/rust/", $stage, "/cases.yaml")),
            schema: include_str!(concat!(
                "../templates/rust/",
                $stage,
                "/src/parameters.schema.json"
            )),
            yaml: include_str!(concat!("../templates/", $yaml)),
            parameters: $parameters,
        }
    };
}

const MOST_REQUESTS: [&str; 3] =
    ["most_requests", "64", "from so many requests on a worker gets no more"];
const BLOCKS_PER_REQUEST: [&str; 3] =
    ["blocks_per_request", "8", "what a request under way weighs, in blocks"];

pub(super) fn of(stage: TemplateStage) -> Outline {
    match stage {
        TemplateStage::Filter => outline!(
            "filter",
            "policy.yaml",
            "Leaves out workers that have enough to do",
            &[MOST_REQUESTS]
        ),
        TemplateStage::Scorer => {
            outline!(
                "scorer",
                "policy.yaml",
                "Warm caches first, but no crowd",
                &[BLOCKS_PER_REQUEST]
            )
        }
        TemplateStage::Picker => outline!(
            "picker",
            "policy.yaml",
            "The warmest of the idle",
            &[[
                "more_requests",
                "4",
                "how many requests more than the fewest a worker may have to be picked for its cache"
            ]]
        ),
        TemplateStage::Policy => outline!(
            "policy",
            "policy.yaml",
            "Warm caches first, but no crowd",
            &[MOST_REQUESTS, BLOCKS_PER_REQUEST]
        ),
        TemplateStage::Classifier => outline!(
            "classifier",
            "classifier.yaml",
            "So many requests at a time, the others behind them in their order",
            &[
                ["at_a_time", "256", "requests that are under way at once"],
                ["most_waiting", "10000", "requests that wait at once; further ones are refused"]
            ]
        ),
    }
}

impl Outline {
    /// A text with everything in its place.
    pub(super) fn fill(&self, text: &str, name: &str) -> String {
        let rows = self
            .parameters
            .iter()
            .map(|[key, value, what]| format!("| `{key}` | {value} | {what} |"));
        let rows: Vec<_> = rows.collect();
        let example = self.parameters.iter().map(|[key, value, _]| format!("{key}: {value}"));
        let example: Vec<_> = example.collect();
        text.replace("{{name}}", name)
            .replace("{{summary}}", self.summary)
            .replace("{{parameters}}", &rows.join("\n"))
            .replace("{{example}}", &example.join(", "))
    }

    /// The lines that make a router use it.
    pub(super) fn yaml(&self, name: &str) -> String {
        self.fill(self.yaml, name)
    }
}
