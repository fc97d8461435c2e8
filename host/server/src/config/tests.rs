#![expect(clippy::unwrap_used, reason = "a test's panic is its message")]

mod booking;
mod company;
mod disaggregation;
mod discovery;
mod epp;
mod places;
mod queueing;
mod quotes;
mod refusals;
mod samples;
mod select;
mod texts;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use super::{Config, ConfigErrors};

/// Reads a text, without the process's environment.
fn read(text: &str) -> Result<Config, ConfigErrors> {
    let strings = [
        ("TOKEN", "from-the-environment\n"),
        ("BLANK", "two words"),
        ("POINTSMAN_CLIENT_TOKEN", "client-2"),
        ("POINTSMAN_WORKER_TOKEN", "worker-1"),
    ];
    let strings: BTreeMap<String, String> =
        strings.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    Config::from_bytes("pointsman.yaml", text.as_bytes(), Path::new("/etc/pointsman"), &strings)
}

fn good(text: &str) -> Config {
    read(text).unwrap_or_else(|errors| panic!("{text}\nis refused:\n{errors}"))
}

/// All that is wrong with a text, as an operator sees it.
fn mistakes(text: &str) -> String {
    match read(text) {
        Ok(config) => panic!("{text}\nis taken as:\n{config:#?}"),
        Err(errors) => errors.to_string(),
    }
}
