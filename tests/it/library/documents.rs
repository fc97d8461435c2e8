//! What the library's documents and YAML say is so.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman::cases::{CaseFile, Subject};
use pointsman::cli::check::check_with;
use pointsman::config::Config;
use pointsman_tests::guests;
use pointsman_tests::library::{LIBRARY, Native};
use serde_json::Value;

use super::component;
use crate::docs::{blocks, read, root};

/// A folder with this file, and components beside it.
fn folder(file: &Path, components: &str) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join(components))?;
    std::fs::copy(file, folder.path().join("pointsman.yaml"))?;
    Ok(folder)
}

#[test]
fn every_crates_lines_for_the_routers_yaml_are_good() -> Result<()> {
    for entry in LIBRARY {
        let yaml = root().join("policies").join(entry.name).join("policy.yaml");
        let folder = folder(&yaml, "policies")?;
        let name = format!("policies/{}.wasm", entry.name);
        std::fs::copy(guests::policy(entry.name), folder.path().join(&name))?;
        let text = std::fs::read_to_string(&yaml)?;
        assert!(text.contains(&name), "{}: {text}", entry.name);
        let report = check_with(&folder.path().join("pointsman.yaml"), &BTreeMap::new());
        assert!(report.is_good(), "{}: {report}", entry.name);
    }
    Ok(())
}

#[test]
fn policies_yaml_has_every_policy_and_is_good() -> Result<()> {
    let yaml = root().join("policies/policies.yaml");
    let text = std::fs::read_to_string(&yaml)?;
    let folder = folder(&yaml, "components")?;
    for entry in LIBRARY {
        let line = match entry.native {
            Native::Policy(_) => format!("    - name: {}\n", entry.name),
            Native::Classifier(_) => format!("type: {}", entry.name),
        };
        assert!(text.contains(&line), "{}", entry.name);
        let to = folder.path().join("components").join(format!("{}.wasm", entry.name));
        std::fs::copy(guests::policy(entry.name), to)?;
    }
    let report = check_with(&folder.path().join("pointsman.yaml"), &BTreeMap::new());
    assert!(report.is_good(), "{report}");
    // Each of them may be named for the aggregated workers, and each classifier for all.
    for entry in LIBRARY {
        let name = entry.name;
        let text = match entry.native {
            Native::Policy(_) => {
                text.replace("aggregated: least-busy", &format!("aggregated: {name}"))
            }
            Native::Classifier(_) => {
                let (before, _) = text.split_once("\nrequest_classifier:").context("it has one")?;
                let parameters = entry.parameters[0];
                format!(
                    "{before}\nrequest_classifier: {{ type: {name}, parameters: {parameters} }}\n"
                )
            }
        };
        Config::from_yaml("policies.yaml", &text, folder.path()).context(name)?;
    }
    Ok(())
}

/// The keys of the table that begins with `| parameter |`, to the next empty line.
fn documented(readme: &str) -> Vec<String> {
    let table = readme.lines().skip_while(|line| !line.starts_with("| parameter |"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| Some(row.split('`').nth(1)?.to_owned())).collect()
}

#[test]
fn every_parameter_is_in_the_crates_schema_and_in_its_readme() -> Result<()> {
    for entry in LIBRARY {
        let folder = Path::new("policies").join(entry.name);
        let readme = read(folder.join("README.md"))?;
        let schema = folder.join("src/parameters.schema.json");
        let mut keys = Vec::new();
        if root().join(&schema).exists() {
            let schema: Value = serde_json::from_str(&read(&schema)?)?;
            let properties = schema["properties"].as_object().context("properties")?;
            keys.extend(properties.keys().cloned());
            let carried = component(entry)?.describe().context("it describes itself")?;
            assert_eq!(serde_json::from_str::<Value>(&carried.parameters_schema)?, schema);
        }
        let mut documented = documented(&readme);
        documented.sort();
        keys.sort();
        assert_eq!(documented, keys, "{}", entry.name);
    }
    Ok(())
}

#[test]
fn the_catalogue_has_every_crate_and_what_its_decisions_cost() -> Result<()> {
    let catalogue = read("policies/README.md")?;
    for entry in LIBRARY {
        let link = format!("| [{0}]({0}/README.md) | ", entry.name);
        assert!(catalogue.contains(&link), "{}", entry.name);
        let costs = format!("\n| {} | ", entry.name);
        let decides = matches!(entry.native, Native::Policy(_));
        assert_eq!(catalogue.contains(&costs), decides, "{}", entry.name);
        let readme = read(Path::new("policies").join(entry.name).join("README.md"))?;
        assert!(readme.starts_with(&format!("# {}\n", entry.name)), "{}", entry.name);
        assert!(readme.contains("## Cost per call"), "{}", entry.name);
    }
    Ok(())
}

#[test]
fn the_forms_of_cases_that_the_catalogue_shows_are_met() -> Result<()> {
    let catalogue = read("policies/README.md")?;
    let [decisions, admissions] = blocks(&catalogue, "yaml")[..] else {
        anyhow::bail!("two blocks of YAML")
    };
    for (text, name) in [(decisions, "least-busy"), (admissions, "session-admission")] {
        let entry = LIBRARY.iter().find(|entry| entry.name == name).context("it is there")?;
        let component = component(entry)?;
        let subject =
            Subject { policy: Some(component.clone()), classifier: Some(component as Arc<_>) };
        for case in CaseFile::from_yaml("policies/README.md", text)?.run(&subject) {
            assert_eq!(case.failure, None, "{name}: {:?}", case.name);
        }
    }
    Ok(())
}
