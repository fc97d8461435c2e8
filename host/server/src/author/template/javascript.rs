//! The files of a policy in JavaScript.

use super::outline::Outline;
use super::{ProjectFile, TemplateStage, Wanted};

fn source(stage: TemplateStage) -> &'static str {
    match stage {
        TemplateStage::Filter => include_str!("../templates/js/filter/policy.js"),
        TemplateStage::Scorer => include_str!("../templates/js/scorer/policy.js"),
        TemplateStage::Picker => include_str!("../templates/js/picker/policy.js"),
        TemplateStage::Policy => include_str!("../templates/js/policy/policy.js"),
        TemplateStage::Classifier => include_str!("../templates/js/classifier/policy.js"),
    }
}

/// All of a project's files.
pub(super) fn files(wanted: &Wanted, outline: &Outline) -> Vec<ProjectFile> {
    let fill = |text: &str| {
        outline.fill(text, &wanted.name).replace("{{interface}}", wanted.stage.interface())
    };
    vec![
        ("package.json", fill(include_str!("../templates/js/package.json.txt"))),
        ("README.md", fill(include_str!("../templates/js/README.md"))),
        (".gitignore", include_str!("../templates/js/gitignore.txt").to_owned()),
        ("policy.js", fill(source(wanted.stage))),
        ("guest.js", include_str!("../templates/js/guest.js").to_owned()),
        ("contract.d.ts", pointsman_build::CONTRACT_TYPES.to_owned()),
        ("parameters.schema.json", outline.schema.to_owned()),
        ("cases.yaml", outline.cases.to_owned()),
        ("policy.yaml", outline.yaml(&wanted.name)),
    ]
}
