//! An engine's `/metrics`, read for what it says of the engine's load.
//!
//! Owns the names under which engines say it, and by which label they tell their ranks apart. Of a page
//! in Prometheus' text form, which may have thousands of lines, only those of a few families are looked
//! into, and each of these must be well formed. It doesn't know who asked.

use std::collections::BTreeMap;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gauge {
    Running,
    Waiting,
    Usage,
}

/// A family, what it says, and the label that has the rank: vLLM's and SGLang's.
const FAMILIES: [(&str, Gauge, &str); 7] = [
    ("vllm:num_requests_running", Gauge::Running, "engine"),
    ("vllm:num_requests_waiting", Gauge::Waiting, "engine"),
    ("vllm:kv_cache_usage_perc", Gauge::Usage, "engine"),
    // Before it had that name.
    ("vllm:gpu_cache_usage_perc", Gauge::Usage, "engine"),
    ("sglang:num_running_reqs", Gauge::Running, "dp_rank"),
    ("sglang:num_queue_reqs", Gauge::Waiting, "dp_rank"),
    ("sglang:token_usage", Gauge::Usage, "dp_rank"),
];

/// What an engine says of one of its ranks. What it doesn't say is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Said {
    pub(super) running: Option<u64>,
    pub(super) waiting: Option<u64>,
    /// The share of its KV blocks that is in use, 1 being all of them.
    pub(super) usage: Option<f64>,
}

/// Why a page says nothing that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("line {line} isn't what a metric of an engine should be: {what}")]
    Malformed { line: usize, what: &'static str },
    #[error(
        "it has none of the metrics by which vLLM and SGLang tell their load; SGLang wants \
         `--enable-metrics`, for others leave `load_reports` out"
    )]
    Nothing,
    #[error("{0}; mend data_parallel_start_rank and data_parallel_size")]
    Ranks(String),
}

/// What a page says, by rank, of a worker with `size` ranks from `first` on.
pub(super) fn read(page: &str, first: u32, size: u32) -> Result<BTreeMap<u32, Said>, Unreadable> {
    let mut labelled: BTreeMap<Option<u32>, Said> = BTreeMap::new();
    for (at, line) in page.lines().enumerate() {
        let named = FAMILIES.iter().find_map(|(name, gauge, rank)| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with(['{', ' ', '\t']).then_some((*gauge, *rank, rest))
        });
        let Some((gauge, rank_label, rest)) = named else { continue };
        let malformed = |what| Unreadable::Malformed { line: at + 1, what };
        let (rank, value) = sample(rest, rank_label).map_err(malformed)?;
        let said = labelled.entry(rank).or_default();
        // An engine that isn't sure says NaN.
        if value.is_nan() {
            continue;
        }
        if !(value.is_finite() && value >= 0.0) {
            return Err(malformed("its value is no number of at least 0"));
        }
        // One that splits a rank's work over several devices tells each; and by priority, too, beside
        // the sum. The largest is what there is.
        let whole = value.round() as u64;
        match gauge {
            Gauge::Running => said.running = said.running.max(Some(whole)),
            Gauge::Waiting => said.waiting = said.waiting.max(Some(whole)),
            Gauge::Usage => said.usage = Some(said.usage.map_or(value, |most| most.max(value))),
        }
    }
    assigned(labelled, first, size)
}

/// Gives each labelled rank to the worker's.
fn assigned(
    labelled: BTreeMap<Option<u32>, Said>,
    first: u32,
    size: u32,
) -> Result<BTreeMap<u32, Said>, Unreadable> {
    if labelled.is_empty() {
        return Err(Unreadable::Nothing);
    }
    // Whatever it calls the only one.
    if let (1, 1, Some(said)) = (size, labelled.len(), labelled.values().next()) {
        return Ok(BTreeMap::from([(first, *said)]));
    }
    let ranks: BTreeMap<u32, Said> =
        labelled.into_iter().filter_map(|(rank, said)| Some((rank?, said))).collect();
    let Some((&last, _)) = ranks.last_key_value() else {
        let text = format!("it doesn't tell ranks apart, and the worker has {size}");
        return Err(Unreadable::Ranks(text));
    };
    let has = |rank: u32| rank.checked_sub(first).is_some_and(|nth| nth < size);
    // Ranks are numbered over all engines, or within one.
    if ranks.keys().all(|&rank| has(rank)) {
        return Ok(ranks);
    }
    if last < size {
        return Ok(ranks
            .into_iter()
            .map(|(nth, said)| (first.saturating_add(nth), said))
            .collect());
    }
    let stranger = ranks.keys().find(|&&rank| !has(rank)).unwrap_or(&last);
    Err(Unreadable::Ranks(format!("it tells of rank {stranger}, and the worker hasn't one")))
}

/// What stands behind a family's name: the rank, if a label says it, and the value.
fn sample(rest: &str, rank_label: &str) -> Result<(Option<u32>, f64), &'static str> {
    let (rank, rest) = match rest.strip_prefix('{') {
        Some(labels) => rank_of(labels, rank_label)?,
        None => (None, rest),
    };
    let mut words = rest.split_ascii_whitespace();
    let value = words.next().ok_or("it has no value")?;
    let value: f64 = value.parse().map_err(|_| "its value is no number")?;
    if words.next().is_some_and(|time| time.parse::<i64>().is_err()) {
        return Err("what follows its value is no time");
    }
    if words.next().is_some() {
        return Err("something follows its time");
    }
    Ok((rank, value))
}

/// Reads labels up to their end. Returns the rank, and what follows.
fn rank_of<'a>(labels: &'a str, wanted: &str) -> Result<(Option<u32>, &'a str), &'static str> {
    let (mut rank, mut rest) = (None, labels.trim_start());
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((rank, after));
        }
        let (name, value) = rest.split_once("=\"").ok_or("a label has no value in quotes")?;
        let mut escaped = false;
        let end = value.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let (value, after) =
            end.and_then(|end| value.split_at_checked(end)).ok_or("a label has no end")?;
        if name.trim() == wanted {
            rank = Some(value.parse().map_err(|_| "its rank is no whole number")?);
        }
        // Past the quote.
        rest = after.strip_prefix('"').unwrap_or_default().trim_start();
        rest = match rest.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if rest.starts_with('}') => rest,
            None => return Err("its labels have no end"),
        };
    }
}

#[cfg(test)]
mod tests;
