//! What the documents show is true: their YAML is taken, their commands and files are there.

mod linked;
mod promises;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pointsman::cli::check::check_with;
use pointsman::config::Config;

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(super) fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = root().join(path);
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// The blocks of a language in a Markdown text.
pub(super) fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_readmes_yaml_is_taken() -> Result<()> {
    let readme = read("README.md")?;
    let yaml = blocks(&readme, "yaml");
    let [whole, tried, tokens, around] = yaml.as_slice() else {
        anyhow::bail!("{} blocks", yaml.len())
    };
    let config = Config::from_yaml("README.md", whole, &root())?;
    assert_eq!((config.workers.len(), config.selection.instances.len()), (2, 1));
    let config = Config::from_yaml("README.md", tried, &root())?;
    assert!(config.recording.share == 1.0 && config.recording.file.is_some());
    let rollout = &config.selection.instances[0].rollout;
    assert_eq!((rollout.shadows.len(), rollout.canary.is_some()), (1, true));
    let config = Config::from_yaml("README.md", tokens, &root())?;
    assert_eq!(config.tokenizers.len(), 1);
    let config = Config::from_yaml("README.md", around, &root())?;
    assert!(config.queue.profile("any").queues() && config.settings.router_track_output_blocks);
    assert!(config.settings.session_affinity().is_some() && !config.settings.busy.are_off());
    Ok(())
}

#[test]
fn the_readmes_two_commands_are_there() -> Result<()> {
    let readme = read("README.md")?;
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(blocks(&readme, "sh").iter().any(|block| block.contains(command)), "{command}");
    }
    Ok(())
}

/// The documents below a folder, but those that builds leave there.
fn documents(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules" {
            documents(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            into.push(path);
        }
    }
    Ok(())
}

#[test]
fn the_links_of_every_document_lead_somewhere() -> Result<()> {
    let mut found = Vec::new();
    documents(&root(), &mut found)?;
    assert!(found.len() > 35, "{found:?}");
    for document in found {
        let document = document.strip_prefix(root())?.to_str().context("a name")?;
        links_lead_somewhere(document)?;
    }
    Ok(())
}

/// The links of a document are to files that are there, and to headings that these have.
fn links_lead_somewhere(document: &str) -> Result<()> {
    let text = read(document)?;
    let folder = Path::new(document).parent().context("a document has a folder")?;
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links.filter(|link| !link.contains("://")) {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let file = if file.is_empty() { PathBuf::from(document) } else { folder.join(file) };
        assert!(root().join(&file).exists(), "{document}: {link}");
        if !heading.is_empty() {
            let text = read(&file)?;
            let headings = text.lines().filter(|line| line.starts_with('#'));
            assert!(headings.map(anchor).any(|anchor| anchor == heading), "{document}: {link}");
        }
    }
    Ok(())
}

#[test]
fn the_sdks_tutorial_has_yaml_that_is_taken() -> Result<()> {
    let document = "guest-sdk/README.md";
    let text = read(document)?;
    let [yaml] = blocks(&text, "yaml")[..] else { anyhow::bail!("one block of YAML") };
    let config = Config::from_yaml(document, yaml, &root())?;
    assert_eq!(&*config.selection.instances[0].name, "mine");
    let inline = text.split('`').find(|code| code.starts_with("request_classifier:"));
    let config = Config::from_yaml(document, inline.context("a section")?, &root())?;
    assert_eq!(
        config.classifier.map(|spec| spec.classifier_type.to_string()).as_deref(),
        Some("so-many")
    );
    Ok(())
}

/// What stands behind `key = "` in a manifest.
fn set_to<'a>(manifest: &'a str, key: &str) -> Option<&'a str> {
    let line = manifest.lines().find(|line| line.starts_with(&format!("{key} = \"")))?;
    line.split('"').nth(1)
}

#[test]
fn the_versions_that_go_together_are_those_of_the_tree() -> Result<()> {
    let text = read("guest-sdk/README.md")?;
    let (_, table) = text.split_once("\n## What goes with what\n").context("a section")?;
    let (workspace, sdk) = (read("Cargo.toml")?, read("guest-sdk/Cargo.toml")?);
    let types = read("wit/types.wit")?;
    let contract = types.split(['@', ';']).nth(1).context("the contract has a version")?;
    let version = set_to(&workspace, "version").context("the host has a version")?;
    let rust = |manifest| set_to(manifest, "rust-version").context("it says which Rust");
    for row in [
        format!("| contract, `pointsman:policy` | {contract}"),
        format!("| SDK, `pointsman-sdk` | {version} | makes components for contract {contract} |"),
        format!("| host, `pointsman` | {version} |"),
        format!("| Rust, for a policy | {} or later |", rust(&sdk)?),
        format!("| Rust, for the host | {} or later |", rust(&workspace)?),
    ] {
        assert!(table.contains(&row), "{row}");
    }
    Ok(())
}

/// What a heading is called in links.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn each_bundled_policy_comes_with_yaml_that_names_it() -> Result<()> {
    for folder in std::fs::read_dir(root().join("policies"))? {
        let folder = folder?.path();
        if !folder.is_dir() {
            continue;
        }
        let text = read(folder.join("policy.yaml"))?;
        let config = Config::from_yaml("policy.yaml", &text, &folder)?;
        let name = folder.file_name().and_then(|name| name.to_str()).context("a folder's name")?;
        let instances = &config.selection.instances;
        let types = instances.iter().flat_map(|instance| instance.recipe.types());
        let selects = types.into_iter().any(|used| &*used.policy_type == name);
        let classifies = config.classifier.is_some_and(|spec| &*spec.classifier_type == name);
        assert!(selects || classifies, "{name}: {text}");
    }
    Ok(())
}

/// What a sample's first comment says to do first, if anything: the variables to set, and the words
/// of the command to run.
fn first_steps(sample: &str) -> (BTreeMap<String, String>, Vec<&str>) {
    let line = sample.lines().next().unwrap_or_default();
    let Some(line) = line.strip_prefix("# First, in the source tree: ") else {
        return (BTreeMap::new(), Vec::new());
    };
    let (variables, command) = match line.strip_prefix("export ").and_then(|l| l.split_once("; ")) {
        Some((variables, command)) => (variables, command),
        None => ("", line),
    };
    let variables = variables.split_whitespace().filter_map(|one| one.split_once('='));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (variables, command.split_whitespace().collect())
}

#[test]
fn each_sample_is_good_once_its_first_line_is_done_and_check_says_what_is_not() -> Result<()> {
    let mut samples = 0;
    for sample in std::fs::read_dir(root().join("host/server/samples"))? {
        let sample = sample?.path();
        if sample.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        samples += 1;
        let name = sample.file_name().context("a sample's name")?;
        let text = read(&sample)?;
        let (variables, command) = first_steps(&text);

        // The tree as far as samples name it, without what their first lines make.
        let tree = tempfile::TempDir::new()?;
        let server = tree.path().join("host/server");
        std::fs::create_dir_all(server.join("samples"))?;
        std::fs::create_dir_all(server.join("testdata/tls"))?;
        for file in ["certificate.pem", "key.pem"] {
            let path = Path::new("testdata/tls").join(file);
            std::fs::copy(root().join("host/server").join(&path), server.join(&path))?;
        }
        let copy = server.join("samples").join(name);
        std::fs::write(&copy, &text)?;

        let before = check_with(&copy, &BTreeMap::new());
        assert_eq!(before.is_good(), command.is_empty(), "{before}");
        for variable in variables.keys() {
            assert!(before.problems.iter().any(|problem| problem.contains(variable)), "{before}");
        }
        if variables.is_empty() && !command.is_empty() {
            let build = "`pointsman policy build CRATE_DIR --out ";
            assert!(before.problems[0].contains(build), "{before}");
        }

        if let ["pointsman", "policy", "build", crates @ .., "--out", out] = command.as_slice() {
            std::fs::create_dir(tree.path().join(out))?;
            let built = [
                pointsman_tests::guests::least_busy(),
                pointsman_tests::guests::least_prefill(),
                pointsman_tests::guests::session_admission(),
            ];
            for source in crates {
                let name = Path::new(source).file_name().context("a crate's name")?;
                let component = built.iter().find(|path| path.file_stem() == Some(name));
                let component = component.with_context(|| format!("{source} is not built here"))?;
                let to = tree.path().join(out).join(name).with_extension("wasm");
                std::fs::copy(component, to)?;
            }
        }
        let after = check_with(&copy, &variables);
        assert!(after.is_good(), "{after}");
        assert!(!after.warnings.iter().any(|warning| warning.contains(".yaml:")), "{after}");
    }
    assert_eq!(samples, 4);
    Ok(())
}
