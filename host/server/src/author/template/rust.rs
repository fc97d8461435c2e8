//! The files of a policy in Rust.

use super::name::in_camel_case;
use super::{ProjectFile, Sdk, TemplateStage, Wanted};

/// What stands for the policy's type in the templates, so that they compile as they are.
const TYPE: &str = "PolicyName";

/// What differs from stage to stage.
struct Parts {
    summary: &'static str,
    source: &'static str,
    cases: &'static str,
    schema: &'static str,
    /// The router's YAML.
    yaml: &'static str,
    /// The parameters: each with its default and its meaning.
    parameters: &'static [[&'static str; 3]],
}

macro_rules! parts {
    ($stage:literal, $yaml:literal, $summary:literal, $parameters:expr) => {
        Parts {
            summary: $summary,
            source: include_str!(concat!("../templates/rust/", $stage, "/src/lib.rs")),
            cases: include_str!(concat!("../templates/rust/", $stage, "/cases.yaml")),
            schema: include_str!(concat!(
                "../templates/rust/",
                $stage,
                "/src/parameters.schema.json"
            )),
            yaml: include_str!(concat!("../templates/rust/", $yaml)),
            parameters: $parameters,
        }
    };
}

const MOST_REQUESTS: [&str; 3] =
    ["most_requests", "64", "from so many requests on a worker gets no more"];
const BLOCKS_PER_REQUEST: [&str; 3] =
    ["blocks_per_request", "8", "what a request under way weighs, in blocks"];

fn parts(stage: TemplateStage) -> Parts {
    match stage {
        TemplateStage::Filter => parts!(
            "filter",
            "policy.yaml",
            "Leaves out workers that have enough to do",
            &[MOST_REQUESTS]
        ),
        TemplateStage::Scorer => {
            parts!(
                "scorer",
                "policy.yaml",
                "Warm caches first, but no crowd",
                &[BLOCKS_PER_REQUEST]
            )
        }
        TemplateStage::Picker => parts!(
            "picker",
            "policy.yaml",
            "The warmest of the idle",
            &[[
                "more_requests",
                "4",
                "how many requests more than the fewest a worker may have to be picked for its cache"
            ]]
        ),
        TemplateStage::Policy => parts!(
            "policy",
            "policy.yaml",
            "Warm caches first, but no crowd",
            &[MOST_REQUESTS, BLOCKS_PER_REQUEST]
        ),
        TemplateStage::Classifier => parts!(
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

/// All of a crate's files.
pub(super) fn files(wanted: &Wanted, sdk: &Sdk) -> Vec<ProjectFile> {
    let Parts { summary, source, cases, schema, yaml, parameters } = parts(wanted.stage);
    let rows =
        parameters.iter().map(|[key, value, what]| format!("| `{key}` | {value} | {what} |"));
    let rows: Vec<_> = rows.collect();
    let example = parameters.iter().map(|[key, value, _]| format!("{key}: {value}"));
    let example: Vec<_> = example.collect();
    let fill = |text: &str| {
        text.replace("{{name}}", &wanted.name)
            .replace("{{summary}}", summary)
            .replace("{{sdk}}", &sdk.dependency(&wanted.folder))
            .replace("{{parameters}}", &rows.join("\n"))
            .replace("{{example}}", &example.join(", "))
    };
    let mut files = vec![
        ("Cargo.toml", fill(include_str!("../templates/rust/Cargo.toml.txt"))),
        ("README.md", fill(include_str!("../templates/rust/README.md"))),
        (".gitignore", include_str!("../templates/rust/gitignore.txt").to_owned()),
        ("src/lib.rs", source.replace(TYPE, &in_camel_case(&wanted.name))),
        ("src/parameters.schema.json", schema.to_owned()),
        ("cases.yaml", cases.to_owned()),
        ("policy.yaml", fill(yaml)),
    ];
    files.extend(sdk.lock().map(|lock| ("Cargo.lock", lock)));
    files
}
