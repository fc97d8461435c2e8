//! `pointsman policy`: an author's loop (from a first crate to a component that is checked, tested and measured),
//! a look into a component, and one out of a registry.
//!
//! `pointsman check` is about a router's YAML, and not here.

mod bench;
mod build;
mod check;
pub mod inspect;
mod kept;
mod new;
mod pull;
mod replay;
mod subject;
mod test;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Policy {
    /// Write a policy to begin with, which builds and meets its own cases
    New(new::New),
    /// Build policies to components, with tools that are set up if there are none
    Build(build::Build),
    /// Check whether a component keeps to the contract, and what its calls use of their fuel
    Check(Box<check::CheckPolicy>),
    /// Have a policy meet its cases: fleets and requests with what is expected
    Test(test::Test),
    /// Measure decisions by row count, beside the built-in `default`; of a request classifier, its calls
    Bench(Box<bench::Bench>),
    /// Show what a component is: its name, stages and inputs, or what it classifies requests with, its imports and digest
    Inspect(inspect::Inspect),
    /// Pull a component out of an OCI registry into the policies folder, proven by its digest
    Pull(Box<pull::Pull>),
    /// Make recorded decisions again, by the same policy or another one, and show where it differs
    Replay(replay::ReplayArgs),
}

impl Policy {
    pub(super) fn run(self) -> Result<ExitCode> {
        match self {
            Self::New(new) => new.run(),
            Self::Build(build) => build.run(),
            Self::Check(check) => check.run(),
            Self::Test(test) => test.run(),
            Self::Bench(bench) => bench.run(),
            Self::Inspect(inspect) => inspect.run(),
            Self::Pull(pull) => pull.run(),
            Self::Replay(replay) => replay.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    /// One snapshot of every command of an author's loop, as `--help` has it.
    #[test]
    fn the_help_of_each_command_says_what_it_takes() {
        use clap::Subcommand as _;

        let mut command = super::Policy::augment_subcommands(clap::Command::new("policy"));
        command.build();
        for name in ["new", "build", "check", "test", "bench", "inspect"] {
            let command = command.find_subcommand_mut(name);
            let mut command = command.cloned().unwrap_or_default().term_width(100);
            insta::assert_snapshot!(name, command.render_long_help());
        }
    }
}
