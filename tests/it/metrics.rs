//! The list of metrics in `ADMIN.md` is whole and true: of what the code can count, and of what a router
//! that has much to count shows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use pointsman::load_client::Ask;
use pointsman_tests::guests;
use pointsman_tests::rig::{MODEL, Plan, Rig};

use crate::docs::{read, root};

/// A family: its type and its labels.
#[derive(Debug, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
}

/// What stands between backticks.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rows of the document's table.
fn documented() -> Result<BTreeMap<String, Family>> {
    let document = read("host/server/ADMIN.md")?;
    let (_, section) = document.split_once("\n## Metrics\n").context("there is a section")?;
    let mut families = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, unit, labels, what] = cells[..] else { anyhow::bail!("{row}") };
        ensure!(!unit.is_empty() && !what.is_empty(), "{row}");
        let labels = quoted(labels);
        let family = Family { kind: kind.to_owned(), labels };
        let before = families.insert(name.trim_matches('`').to_owned(), family);
        ensure!(before.is_none(), "{name} stands there twice");
    }
    Ok(families)
}

/// What a page of metrics has.
fn shown(page: &str) -> Result<BTreeMap<String, Family>> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in page.lines() {
        if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').context("a type has a name")?;
            let family = Family { kind: kind.to_owned(), labels: BTreeSet::new() };
            families.insert(name.to_owned(), family);
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, _) = line.rsplit_once(' ').context("a series has a value")?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let of_histogram = ["_bucket", "_sum", "_count"].into_iter();
        let mut bases = of_histogram.filter_map(|end| name.strip_suffix(end));
        let base = bases.find(|base| families.contains_key(*base)).unwrap_or(name);
        let family = families.get_mut(base).with_context(|| format!("{line} has no type"))?;
        // Values of these have no quotes and no commas in them.
        let names = labels.trim_end_matches('}').split("\",").filter_map(|one| one.split_once('='));
        let names = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le");
        family.labels.extend(names);
    }
    Ok(families)
}

/// The names that stand as texts in the files that define what is counted.
fn counted() -> Result<BTreeSet<String>> {
    let folder = root().join("host/server/src");
    let meters = std::fs::read_dir(folder.join("admin/meters"))?;
    let mut files: Vec<_> = meters.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    files.push(folder.join("telemetry/names.rs"));
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let texts = text.split('"').filter(|part| part.starts_with("pointsman_"));
        names.extend(texts.map(str::to_owned));
    }
    Ok(names)
}

#[test]
fn each_metric_that_the_code_names_has_a_row_and_each_row_is_of_one() -> Result<()> {
    let documented: BTreeSet<_> = documented()?.into_keys().collect();
    let counted = counted()?;
    let missing: Vec<_> = counted.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&counted).collect();
    assert!(missing.is_empty() && gone.is_empty(), "missing: {missing:?}, gone: {gone:?}");
    Ok(())
}

/// A router with classes, sessions, a shadow, a canary, a classifier and records, whose engines are asked
/// for their load.
async fn start() -> Result<Rig> {
    let mut plan = Plan::new(2);
    let component = |path: &std::path::Path| std::fs::read(path);
    plan.policies.push(("least-busy.wasm".to_owned(), component(guests::least_busy())?));
    plan.policies.push(("admission.wasm".to_owned(), component(guests::session_admission())?));
    plan.selection = "  aggregated: it
  instances:
    - name: it
      type: least-busy
      parameters: { min_device_overlap_blocks: 0 }
      shadow: [{ instance: next, budget_percent: 100 }]
      canary: { instance: next, percent: 50 }
    - { name: next, type: two-tier }
"
    .to_owned();
    plan.more += "request_classifier: { type: admission, parameters: { most_in_flight: 100 } }
load_reports: { interval: 100ms, timeout: 100ms }
recording: { percent: 100, request_classifier: true, file: decisions.jsonl }
router: { router_session_affinity_ttl_secs: 60, router_session_affinity_mode: soft }
policy_classes: [{ name: default, prefill_busy_threshold: 0 }]
";
    plan.start().await
}

#[tokio::test]
async fn what_a_running_router_shows_is_as_the_document_says() -> Result<()> {
    let rig = start().await?;
    for nth in 0..20 {
        let mut ask = Ask::new(MODEL, format!("prompt {nth}"));
        ask.session = Some(format!("s{}", nth % 3));
        let answer = rig.public.ask(&ask).await?;
        ensure!(answer.is_good(), "{} {}", answer.status, answer.text());
    }
    // Nobody serves it.
    rig.public.ask(&Ask::new("nope", "x")).await?;
    rig.wait_for("engines to have told of their load", async || {
        Ok(rig
            .admin
            .get("/metrics")
            .await?
            .text()
            .contains("\npointsman_reported_running_requests{"))
    })
    .await?;
    let shown = shown(&rig.admin.get("/metrics").await?.text())?;
    let documented = documented()?;
    for (name, family) in &shown {
        let row = documented.get(name).with_context(|| format!("ADMIN.md has no {name}"))?;
        assert_eq!(row, family, "{name}");
    }
    // Of what needs no failure, cache feed, prefill worker or shared cache, nearly all is there.
    assert!(shown.len() * 2 > documented.len(), "{} of {}", shown.len(), documented.len());
    for name in [
        "shadow_decisions",
        "canary_decisions",
        "classifier_requests",
        "recorded_decisions",
        "session_affinity",
    ] {
        assert!(shown.contains_key(&format!("pointsman_{name}_total")), "{name}");
    }
    rig.stop().await;
    Ok(())
}
