//! What the page for those who come from linked policies shows is so.

use anyhow::{Context, Result};
use pointsman::config::Config;

use super::{blocks, read, root};

const PAGE: &str = "policies/MIGRATING.md";

#[test]
fn the_port_on_the_page_for_linked_policies_is_the_crate_that_is_built() -> Result<()> {
    let page = read(PAGE)?;
    let [port] = blocks(&page, "rust")[..] else { anyhow::bail!("one block of Rust") };
    let source = read("policies/soft-pin-repin/src/lib.rs")?;
    let (source, _) = source.split_once("#[cfg(test)]").context("it has tests")?;
    let (_, source) = source.split_once("\n\n").context("it has a module page")?;
    assert_eq!(port.trim_end(), source.trim_end());
    Ok(())
}

#[test]
fn the_yaml_of_linked_policies_is_taken_as_it_stands() -> Result<()> {
    let page = read(PAGE)?;
    let [yaml] = blocks(&page, "yaml")[..] else { anyhow::bail!("one block of YAML") };
    let config = Config::from_yaml(PAGE, yaml, &root())?;
    assert_eq!((config.selection.instances.len(), config.selection.roles.len()), (2, 3));
    assert_eq!(config.queue.profile("another").classes().len(), 3);
    assert_eq!(config.queue.profile("small-model").classes().len(), 1);
    assert_eq!(config.settings.router_predicted_ttl_secs, Some(5.0));
    assert!(config.classifier.is_some());
    Ok(())
}

/// `a.b: 1` as YAML.
fn alone(key: &str) -> String {
    let mut text = String::new();
    for (depth, name) in key.split('.').enumerate() {
        text += &format!("\n{}{name}:", "  ".repeat(depth));
    }
    text + " 1\n"
}

#[test]
fn each_key_of_linked_policies_that_the_page_calls_refused_is_refused_by_its_name() -> Result<()> {
    let page = read(PAGE)?;
    let table = page.lines().skip_while(|line| *line != "| key | write instead |").skip(2);
    let mut named = Vec::new();
    for row in table.take_while(|line| line.starts_with('|')) {
        let keys = row.split('|').nth(1).context("a key")?;
        for key in keys.split('`').skip(1).step_by(2) {
            let errors = Config::from_yaml(PAGE, &alone(key), &root()).err().context("refused")?;
            let told = errors.to_string();
            // Not for its value: no other one would do.
            let refused = told.contains(&format!(" {key}: ")) && !told.contains(": expected");
            assert!(refused, "{key}: {told}");
            named.push(key.to_owned());
        }
    }
    // None that `CONFIG.md` refuses is left out.
    let reference = read("host/server/CONFIG.md")?;
    let router = reference.split("\n## `router`\n").nth(1).context("a section")?;
    let line = router.lines().find(|line| line.starts_with("Refused as not supported"));
    for key in line.context("a line")?.split('`').skip(1).step_by(2) {
        assert!(named.contains(&format!("router.{key}")), "{key} is left out");
    }
    Ok(())
}

#[test]
fn headers_and_metrics_that_the_page_for_linked_policies_names_are_there() -> Result<()> {
    let page = read(PAGE)?;
    let (clients, admin) = (read("host/server/CLIENTS.md")?, read("host/server/ADMIN.md")?);
    let (_, rest) = page.split_once("Taken by the same names: ").context("a list of headers")?;
    let (headers, _) = rest.split_once(';').context("its end")?;
    let headers: Vec<_> = headers.split('`').skip(1).step_by(2).collect();
    assert!(headers.len() > 15, "{headers:?}");
    for header in headers {
        assert!(clients.contains(&format!("`{header}`")), "{header} is not read");
    }
    let metrics = page.split('`').skip(1).step_by(2).filter(|word| word.starts_with("pointsman_"));
    let metrics: Vec<_> = metrics.filter(|word| !word.contains("::")).collect();
    assert!(metrics.len() > 20, "{metrics:?}");
    for metric in metrics {
        assert!(admin.contains(&format!("\n| `{metric}` | ")), "{metric} is not shown");
    }
    Ok(())
}
