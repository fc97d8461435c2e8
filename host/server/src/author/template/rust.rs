//! The files of a policy in Rust.

use super::name::in_camel_case;
use super::outline::Outline;
use super::{ProjectFile, Sdk, TemplateStage, Wanted};

/// What stands for the policy's type in the templates, so that they compile as they are.
const TYPE: &str = "PolicyName";

fn source(stage: TemplateStage) -> &'static str {
    match stage {
        TemplateStage::Filter => include_str!("../templates/rust/filter/src/lib.rs"),
        TemplateStage::Scorer => include_str!("../templates/rust/scorer/src/lib.rs"),
        TemplateStage::Picker => include_str!("../templates/rust/picker/src/lib.rs"),
        TemplateStage::Policy => include_str!("../templates/rust/policy/src/lib.rs"),
        TemplateStage::Classifier => include_str!("../templates/rust/classifier/src/lib.rs"),
    }
}

/// All of a crate's files.
pub(super) fn files(wanted: &Wanted, outline: &Outline, sdk: &Sdk) -> Vec<ProjectFile> {
    let fill = |text: &str| {
        let filled = outline.fill(text, &wanted.name);
        filled.replace("{{sdk}}", &sdk.dependency(&wanted.folder))
    };
    let source = source(wanted.stage).replace(TYPE, &in_camel_case(&wanted.name));
    let mut files = vec![
        ("Cargo.toml", fill(include_str!("../templates/rust/Cargo.toml.txt"))),
        ("README.md", fill(include_str!("../templates/rust/README.md"))),
        (".gitignore", include_str!("../templates/rust/gitignore.txt").to_owned()),
        ("src/lib.rs", source),
        ("src/parameters.schema.json", outline.schema.to_owned()),
        ("cases.yaml", outline.cases.to_owned()),
        ("policy.yaml", outline.yaml(&wanted.name)),
    ];
    files.extend(sdk.lock().map(|lock| ("Cargo.lock", lock)));
    files
}
