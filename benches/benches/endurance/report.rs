//! What a part of the bench found, and whether that is what was promised.

use std::fmt;

use anyhow::{Context, Result};

/// How much more than its plateau memory may be.
const MARGIN: f64 = 1.1;

/// What was found in one part.
#[derive(Debug)]
pub(crate) struct Part {
    /// What was done.
    pub(crate) title: String,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    what: String,
    found: String,
    /// What was promised, and whether it is so; none for what is only told.
    promise: Option<(String, bool)>,
}

impl Part {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), lines: Vec::new() }
    }

    /// Tells something.
    pub(crate) fn tell(&mut self, what: &str, found: impl fmt::Display) {
        self.lines.push(Line { what: what.to_owned(), found: found.to_string(), promise: None });
    }

    /// Holds something against what was promised.
    pub(crate) fn promise(
        &mut self,
        what: &str,
        found: impl fmt::Display,
        promised: &str,
        is_so: bool,
    ) {
        self.tell(what, found);
        if let Some(line) = self.lines.last_mut() {
            line.promise = Some((promised.to_owned(), is_so));
        }
    }

    /// Something that there may not be any of.
    pub(crate) fn none_of(&mut self, what: &str, found: u64) {
        self.promise(what, found, "none", found == 0);
    }

    /// Holds readings of resident memory against their plateau.
    pub(crate) fn memory(&mut self, readings: &Readings) {
        let Some((plateau, least, most)) = readings.plateau() else {
            self.promise("resident memory", "too few readings", "some", false);
            return;
        };
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        self.tell("resident memory, plateau", format!("{:.1} MiB", mib(plateau)));
        self.promise(
            "after that",
            format!("{:.1} to {:.1} MiB ({:.3})", mib(least), mib(most), ratio(most, plateau)),
            "at most 1.1 of it",
            most as f64 <= plateau as f64 * MARGIN,
        );
    }

    /// How many promises are broken.
    pub(crate) fn broken(&self) -> usize {
        let promises = self.lines.iter().filter_map(|line| line.promise.as_ref());
        promises.filter(|(_, is_so)| !is_so).count()
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Line { what, found, promise } in &self.lines {
            write!(f, "  {what:<46}{found}")?;
            if let Some((promised, is_so)) = promise {
                write!(f, "   [{promised}: {}]", if *is_so { "kept" } else { "BROKEN" })?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Readings of resident memory at equal steps.
#[derive(Debug, Default)]
pub(crate) struct Readings(pub(crate) Vec<u64>);

impl Readings {
    /// The plateau, and the least and the most that was read after it. The first tenth is for warming
    /// up; the plateau is the median of the next two.
    fn plateau(&self) -> Option<(u64, u64, u64)> {
        let tenth = self.0.len() / 10;
        let mut level = self.0.get(tenth..3 * tenth)?.to_vec();
        level.sort_unstable();
        let after = self.0.get(3 * tenth..)?;
        Some((*level.get(level.len() / 2)?, *after.iter().min()?, *after.iter().max()?))
    }
}

pub(crate) fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

/// Resident bytes of this process, and its threads.
pub(crate) fn process() -> Result<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/status").context("needs Linux's /proc")?;
    let number = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let resident = number("VmRSS:").context("/proc/self/status tells no VmRSS")?;
    Ok((resident << 10, number("Threads:").context("/proc/self/status tells no Threads")?))
}
