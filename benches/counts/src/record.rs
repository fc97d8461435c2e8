//! Counts that are kept, with what they hold for.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What counts depend on besides the code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstances {
    /// The compiler, as it tells its version.
    rustc: String,
    /// What programs are told that the processor can do, as [`processor`] has it.
    processor: String,
    /// The C library, which copies and allocates.
    c_library: String,
}

impl Circumstances {
    /// A program of this compiler on this processor.
    pub fn of(processor: String) -> Self {
        Self { rustc: env!("COUNTS_RUSTC").to_owned(), processor, c_library: c_library() }
    }
}

impl fmt::Display for Circumstances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} with {}", self.rustc, self.processor, self.c_library)
    }
}

/// The C library, as it tells its version.
fn c_library() -> String {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok();
    let said = said.filter(|said| said.status.success());
    let version = said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    version.unwrap_or_else(|| "a C library of no known version".to_owned())
}

/// What the processor can do, of that which the core and the C library choose by.
pub fn processor() -> String {
    let mut said = vec![std::env::consts::ARCH];
    #[cfg(target_arch = "x86_64")]
    {
        let features = [
            ("sse4.2", is_x86_feature_detected!("sse4.2")),
            ("avx", is_x86_feature_detected!("avx")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("bmi2", is_x86_feature_detected!("bmi2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("ermsb", is_x86_feature_detected!("ermsb")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
        ];
        said.extend(features.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name));
    }
    said.join(" ")
}

/// Instructions of each case, and what they hold for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// What they hold for.
    #[serde(flatten)]
    pub circumstances: Circumstances,
    /// Of one decision, by case and workers.
    pub instructions: BTreeMap<String, u64>,
}

impl Record {
    /// Nothing yet.
    pub fn new(circumstances: Circumstances) -> Self {
        Self { circumstances, instructions: BTreeMap::new() }
    }

    /// What is kept in a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no record", path.display()))
    }

    /// The same, and what another has that this has not.
    pub fn beside(mut self, other: Option<&Self>) -> Self {
        for (name, instructions) in other.into_iter().flat_map(|other| &other.instructions) {
            self.instructions.entry(name.clone()).or_insert(*instructions);
        }
        self
    }

    /// Keeps it in a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// What takes more than another says, by more than such a part of it, or what that doesn't have; in words.
    pub fn grown(&self, recorded: Option<&Self>, most_growth: f64) -> Vec<String> {
        let mut grown = Vec::new();
        for (name, &found) in &self.instructions {
            match recorded.and_then(|recorded| recorded.instructions.get(name)) {
                Some(&before) if found as f64 <= before as f64 * (1.0 + most_growth) => {}
                Some(before) => {
                    grown.push(format!("{name}: {found} instructions, recorded {before}"))
                }
                None => {
                    grown.push(format!("{name}: {found} instructions, none recorded; --write does"))
                }
            }
        }
        grown
    }
}
