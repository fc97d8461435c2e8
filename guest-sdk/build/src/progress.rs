//! What a person sees while a minute goes by.
//!
//! Work reports steps to a [`Progress`]; who shows them, and how, is the caller's choice: [`Spinner`] at a terminal, [`Lines`] in a log,
//! [`Quiet`] in a build script. Warm runs report at most one step, the guests' build.

use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// One step of the work, told as it begins.
#[derive(Clone, Debug)]
pub enum Step {
    /// Another process is setting up the same toolchain.
    Waiting,
    /// `rustup target add` runs, within its limit.
    AddingTarget {
        /// How long it may take.
        limit: Duration,
    },
    /// apt fetches package lists into a private folder.
    RefreshingLists,
    /// apt fetches packages.
    Downloading {
        /// How many.
        packages: usize,
        /// Their size together, as apt states it.
        bytes: u64,
    },
    /// The packages are unpacked, not installed.
    Unpacking {
        /// How many.
        packages: usize,
    },
    /// The standard library is compiled for the guest target.
    BuildingStd {
        /// The compiler's own version line.
        rustc: String,
    },
    /// A language's tool is fetched from its registry.
    InstallingTool {
        /// The tool, with its version.
        tool: String,
    },
    /// Policies are built.
    BuildingGuests {
        /// The packages' names.
        packages: Vec<String>,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => {
                f.write_str("waiting for another process that sets up the guest toolchain")
            }
            Self::AddingTarget { limit } => {
                write!(f, "asking rustup for the wasm target, for {} s at most", limit.as_secs())
            }
            Self::RefreshingLists => f.write_str("reading the distribution's package lists"),
            Self::Downloading { packages, bytes } => {
                write!(
                    f,
                    "downloading {packages} packages of a wasm toolchain, {}",
                    HumanBytes(*bytes)
                )
            }
            Self::Unpacking { packages } => {
                write!(f, "unpacking {packages} packages into the cache folder")
            }
            Self::BuildingStd { rustc } => write!(
                f,
                "building the standard library for wasm with {rustc} (once, about a minute)"
            ),
            Self::InstallingTool { tool } => {
                write!(f, "installing {tool} into the cache folder (once)")
            }
            Self::BuildingGuests { packages } => write!(f, "building {}", packages.join(", ")),
        }
    }
}

/// Hears of the work while it goes on. Called from the working thread and from one that reads a child's output; calls are short and rare.
pub trait Progress: Sync {
    /// A step begins; the one before it has ended.
    fn step(&self, step: &Step);

    /// So much of the current step is done, where that can be known.
    fn advance(&self, _done: u64, _total: u64) {}

    /// A line that cargo wrote while building guests: status and compiler messages alike.
    fn cargo_line(&self, _line: &str) {}

    /// Whether those lines are shown, all that is wrong among them. An error doesn't say them again then.
    fn shows_cargo(&self) -> bool {
        false
    }

    /// The work has ended, well or badly.
    fn finish(&self) {}
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn step(&self, _step: &Step) {}
}

/// Plain lines on stderr: every step, and what cargo says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines;

impl Progress for Lines {
    fn step(&self, step: &Step) {
        eprintln!("pointsman: {step}");
    }

    fn cargo_line(&self, line: &str) {
        eprintln!("{line}");
    }

    fn shows_cargo(&self) -> bool {
        true
    }
}

/// A moving line on stderr that goes away at the end; compiler messages stay above it.
#[derive(Debug)]
pub struct Spinner {
    bar: ProgressBar,
}

impl Default for Spinner {
    fn default() -> Self {
        Self { bar: ProgressBar::new_spinner() }
    }
}

impl Progress for Spinner {
    fn step(&self, step: &Step) {
        self.bar.set_style(ProgressStyle::default_spinner());
        self.bar.set_message(step.to_string());
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    fn advance(&self, done: u64, total: u64) {
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {bar:20} {percent:>3} %") {
            self.bar.set_style(style);
        }
        self.bar.set_length(total);
        self.bar.set_position(done.min(total));
    }

    fn cargo_line(&self, line: &str) {
        if !is_status(line) {
            self.bar.suspend(|| eprintln!("{line}"));
        }
    }

    fn shows_cargo(&self) -> bool {
        true
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Whether a line is one of cargo's own (`   Compiling x v1.0.0`): a verb set flush right in twelve columns.
fn is_status(line: &str) -> bool {
    let Some((verb, _)) = line.trim_start().split_once(' ') else {
        return false;
    };
    let indent = line.len() - line.trim_start().len();
    verb.starts_with(|first: char| first.is_ascii_uppercase())
        && indent > 0
        && indent + verb.len() == 12
}

/// The display that suits stderr: a spinner at a terminal, lines elsewhere.
#[must_use]
pub fn for_stderr() -> Box<dyn Progress> {
    if std::io::stderr().is_terminal() { Box::new(Spinner::default()) } else { Box::new(Lines) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_status_lines_are_told_from_compiler_messages() {
        for status in [
            "   Compiling policy v0.1.0 (/w/policy)",
            "    Finished `release` profile",
            "     Locking 3 packages",
        ] {
            assert!(is_status(status), "{status}");
        }
        for message in [
            "warning: unused variable: `x`",
            " --> src/lib.rs:1:1",
            "  |",
            "error: could not compile `policy`",
            "",
        ] {
            assert!(!is_status(message), "{message}");
        }
    }

    #[test]
    fn a_download_says_how_much_it_is() {
        let step = Step::Downloading { packages: 6, bytes: 138_000_000 };
        assert_eq!(step.to_string(), "downloading 6 packages of a wasm toolchain, 131.61 MiB");
    }
}
