//! What a new policy in a language other than Rust begins with: a project that builds and meets its own cases as it stands.

use crate::language::Language;

/// In the files, the policy's name.
const NAME: &str = "new-policy";

const PYTHON: &[(&str, &str)] = &[
    ("pyproject.toml", include_str!("../templates/python/pyproject.toml")),
    ("policy.py", include_str!("../templates/python/policy.py")),
    ("parameters.schema.json", include_str!("../templates/parameters.schema.json")),
    ("cases.yaml", include_str!("../templates/cases.yaml")),
    ("README.md", include_str!("../templates/python/README.md")),
    (".gitignore", include_str!("../templates/python/gitignore")),
];

const JAVASCRIPT: &[(&str, &str)] = &[
    ("package.json", include_str!("../templates/js/package.json")),
    ("policy.js", include_str!("../templates/js/policy.js")),
    ("contract.d.ts", include_str!("../templates/js/contract.d.ts")),
    ("parameters.schema.json", include_str!("../templates/parameters.schema.json")),
    ("cases.yaml", include_str!("../templates/cases.yaml")),
    ("README.md", include_str!("../templates/js/README.md")),
    (".gitignore", include_str!("../templates/js/gitignore")),
];

/// The files of a new policy, as paths in its folder and what stands in them. None for Rust, whose template is a crate, and C, whose is the sample
/// in the library.
#[must_use]
pub fn templates(language: Language, name: &str) -> Vec<(&'static str, String)> {
    let files = match language {
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
        Language::Rust | Language::C => &[],
    };
    files.iter().map(|(path, text)| (*path, text.replace(NAME, name))).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use wit_parser::{Resolve, TypeDefKind};

    use super::*;
    use crate::contract;

    fn camel(name: &str) -> String {
        let mut parts = name.split('-');
        let mut all = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            all.push_str(&part[..1].to_uppercase());
            all.push_str(&part[1..]);
        }
        all
    }

    #[test]
    fn a_new_policy_has_its_name_everywhere_and_a_manifest() {
        for language in [Language::Python, Language::JavaScript] {
            let files = templates(language, "my-first");
            assert!(files.iter().any(|(path, _)| *path == language.manifest()));
            assert!(files.iter().all(|(_, text)| !text.contains(NAME)), "{language:?}");
        }
    }

    #[test]
    fn the_types_for_editors_have_every_field_function_and_case_of_the_contract() {
        let folder = tempfile::tempdir().unwrap();
        let exports = ["about", "worker-selection"].map(str::to_owned);
        contract::write(folder.path(), &exports).unwrap();
        let mut resolve = Resolve::default();
        resolve.push_path(folder.path()).unwrap();
        let text = include_str!("../templates/js/contract.d.ts");
        let mut wanted = Vec::new();
        for (_, interface) in resolve.interfaces.iter() {
            if !matches!(interface.name.as_deref(), Some("types" | "about" | "worker-selection")) {
                continue;
            }
            wanted.extend(interface.functions.keys().map(|name| format!("{}(", camel(name))));
            for id in interface.types.values() {
                match &resolve.types[*id].kind {
                    TypeDefKind::Record(record) => {
                        wanted.extend(
                            record.fields.iter().map(|field| format!("{}:", camel(&field.name))),
                        );
                    }
                    TypeDefKind::Flags(flags) => {
                        wanted.extend(
                            flags.flags.iter().map(|flag| format!("{}:", camel(&flag.name))),
                        );
                    }
                    TypeDefKind::Enum(cases) => {
                        wanted.extend(cases.cases.iter().map(|case| format!("\"{}\"", case.name)));
                    }
                    TypeDefKind::Variant(cases) => {
                        wanted.extend(
                            cases.cases.iter().map(|case| format!("tag: \"{}\"", case.name)),
                        );
                    }
                    _ => {}
                }
            }
        }
        assert!(wanted.len() > 60, "{} of the contract", wanted.len());
        let missing: Vec<_> = wanted.iter().filter(|wanted| !text.contains(*wanted)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
