//! Each promise of the contract names the tests that hold it, and these are there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pointsman_core::policy::Limits;
use pointsman_wasm::EngineConfig;

use super::{read, root};

const PAGE: &str = "wit/README.md";

/// Where tests of the contract's promises are.
const SOURCES: [&str; 6] =
    ["host/core", "host/wasm", "host/server/src", "guest-sdk/src", "guest-sdk/tests", "tests/it"];

fn sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            into.push((path, text));
        }
    }
    Ok(())
}

/// Whether a function of that name is marked as a test.
fn has_test(text: &str, name: &str) -> bool {
    let Some((before, _)) = text.split_once(&format!("fn {name}(")) else { return false };
    let attributes = before.rsplit("\n\n").next().unwrap_or_default();
    attributes.contains("#[test]") || attributes.contains("#[tokio::test")
}

/// Whether a file is the module of that name, or lies in its folder.
fn is_of(path: &Path, module: &str) -> bool {
    let named = |part: &Path| part.file_stem().is_some_and(|stem| stem == module);
    path.ancestors().any(named)
}

#[test]
fn each_promise_of_the_contract_names_tests_that_there_are() -> Result<()> {
    let page = read(PAGE)?;
    let (_, section) = page.split_once("\n## Which test holds what\n").context("a section")?;
    let mut files = Vec::new();
    for folder in SOURCES {
        sources(&root().join(folder), &mut files)?;
    }
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| test |"));
    let mut promises = 0;
    for row in rows {
        let tests: Vec<_> = row.split('`').filter_map(|word| word.split_once("::")).collect();
        assert!(!tests.is_empty(), "nothing holds: {row}");
        promises += 1;
        for (module, name) in tests {
            let there =
                files.iter().any(|(path, text)| is_of(path, module) && has_test(text, name));
            assert!(there, "{module} has no test {name}");
        }
    }
    assert!(promises > 50, "the page names its tests in another way: {promises}");
    Ok(())
}

/// A number as the page writes it: `5,000,000`.
fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

#[test]
fn the_limits_that_the_page_names_are_those_in_force() -> Result<()> {
    let page = read(PAGE)?;
    let (_, section) = page.split_once("\n## Limits\n").context("a section")?;
    let (section, _) = section.split_once("\n## ").context("another one")?;
    let section = section.split_whitespace().collect::<Vec<_>>().join(" ");
    let config = EngineConfig::default();
    let [mut fuel, mut deadline, mut memory, mut tables]: [String; 4] = Default::default();
    for (of, called) in [(Limits::small(), ""), (Limits::large(), " (`large`: ")] {
        fuel += &format!("{called}{}", grouped(of.fuel.context("set")?));
        deadline += &format!("{called}{:?}", of.deadline.context("set")?);
        memory += &format!("{called}{} MiB", of.memory.context("set")? >> 20);
        tables += &format!("{called}{}", grouped(of.table_elements.context("set")?));
        if called.is_empty() {
            fuel += " a call";
            deadline += " a call";
            memory += " of linear memory";
            tables += " elements in all";
        }
    }
    let small = Limits::small();
    let sentences: [String; 11] = [
        format!("from {} MiB on `large`", config.large_component_bytes >> 20),
        fuel,
        deadline.replace("100ms", "100 ms").replace("2s", "2 s"),
        format!("never under {} ms", Limits::MIN_DEADLINE.as_millis()),
        memory,
        tables,
        format!("**Answers**: {} MiB each", small.reply_bytes >> 20),
        format!("{} lines a call", small.log_lines),
        format!("more than {} KiB are cut", small.log_line_bytes >> 10),
        format!("{} MiB of file", config.most_component_bytes >> 20),
        format!("{} minutes to compile", config.compile_timeout.as_secs() / 60).replace('2', "two"),
    ];
    for sentence in sentences {
        assert!(section.contains(&sentence), "the page doesn't say: {sentence}");
    }
    Ok(())
}
