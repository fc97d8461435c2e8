//! What the documents show is true: their YAML is taken, their commands and files are there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pointsman::config::Config;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = root().join(path);
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// The blocks of a language in a Markdown text.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_readmes_yaml_is_taken() -> Result<()> {
    let readme = read("README.md")?;
    let yaml = blocks(&readme, "yaml");
    assert!(!yaml.is_empty());
    for text in yaml {
        let config = Config::from_yaml("README.md", text, &root())?;
        assert_eq!(config.workers.len(), 2);
        assert_eq!(config.selection.instances.len(), 1);
    }
    Ok(())
}

#[test]
fn the_readmes_two_commands_are_there_and_its_links_lead_somewhere() -> Result<()> {
    let readme = read("README.md")?;
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(blocks(&readme, "sh").iter().any(|block| block.contains(command)), "{command}");
    }
    let links = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links.filter(|link| !link.starts_with('#')) {
        assert!(root().join(link).exists(), "{link}");
    }
    Ok(())
}

#[test]
fn each_bundled_policy_comes_with_yaml_that_names_it() -> Result<()> {
    for folder in std::fs::read_dir(root().join("policies"))? {
        let folder = folder?.path();
        let text = read(folder.join("policy.yaml"))?;
        let config = Config::from_yaml("policy.yaml", &text, &folder)?;
        let name = folder.file_name().and_then(|name| name.to_str()).context("a folder's name")?;
        let instances = &config.selection.instances;
        let types = instances.iter().flat_map(|instance| instance.recipe.types());
        assert!(types.into_iter().any(|used| &*used.policy_type == name), "{name}: {text}");
    }
    Ok(())
}
