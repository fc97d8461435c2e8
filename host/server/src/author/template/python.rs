//! The files of a policy in Python.

use super::outline::Outline;
use super::{ProjectFile, TemplateStage, Wanted};

fn source(stage: TemplateStage) -> &'static str {
    match stage {
        TemplateStage::Filter => include_str!("../templates/python/filter/policy.py"),
        TemplateStage::Scorer => include_str!("../templates/python/scorer/policy.py"),
        TemplateStage::Picker => include_str!("../templates/python/picker/policy.py"),
        TemplateStage::Policy => include_str!("../templates/python/policy/policy.py"),
        TemplateStage::Classifier => include_str!("../templates/python/classifier/policy.py"),
    }
}

/// All of a project's files.
pub(super) fn files(wanted: &Wanted, outline: &Outline) -> Vec<ProjectFile> {
    let fill = |text: &str| {
        outline.fill(text, &wanted.name).replace("{{interface}}", wanted.stage.interface())
    };
    vec![
        ("pyproject.toml", fill(include_str!("../templates/python/pyproject.toml.txt"))),
        ("README.md", fill(include_str!("../templates/python/README.md"))),
        (".gitignore", include_str!("../templates/python/gitignore.txt").to_owned()),
        ("policy.py", fill(source(wanted.stage))),
        ("guest.py", include_str!("../templates/python/guest.py").to_owned()),
        ("parameters.schema.json", outline.schema.to_owned()),
        ("cases.yaml", outline.cases.to_owned()),
        ("policy.yaml", outline.yaml(&wanted.name)),
    ]
}
