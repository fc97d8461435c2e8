//! What the fuzz targets hold, over what real engines, clients and operators send and over all that
//! the targets have found: see `tests/fuzz/README.md`.
//!
//! The targets' bodies are compiled here too, so that they can't fall behind.

#[path = "../fuzz/src/component.rs"]
mod component;
#[path = "../fuzz/src/config.rs"]
mod config;
#[path = "../fuzz/src/events.rs"]
mod events;
#[path = "../fuzz/src/openai.rs"]
mod openai;
mod seeds;
#[path = "../fuzz/src/words.rs"]
mod words;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// An input, and what it is called.
type Input = (String, Vec<u8>);

/// The inputs that a target's runs have left.
fn corpus(target: &str) -> Vec<Input> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus is kept");
    files
        .into_iter()
        .map(|file| (file.display().to_string(), std::fs::read(file).unwrap()))
        .collect()
}

/// Runs a target's body over seeds and corpus; all that fail are named. The seeds are written where
/// `POINTSMAN_FUZZ_SEEDS` says, for a run that begins without a corpus.
fn replay(target: &str, seeds: Vec<Input>, run: fn(&[u8])) {
    assert!(!seeds.is_empty());
    if let Some(folder) = std::env::var_os("POINTSMAN_FUZZ_SEEDS") {
        let folder = Path::new(&folder).join(target);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in &seeds {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let failed = |bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| run(bytes))).is_err();
    let inputs = seeds.into_iter().chain(corpus(target));
    let failed: Vec<String> =
        inputs.filter(|(_, bytes)| failed(bytes)).map(|(name, _)| name).collect();
    assert_eq!(failed, Vec::<String>::new(), "what went wrong is told above");
}

#[test]
fn any_component_is_taken_or_refused_in_a_sentence() {
    replay("component", seeds::components(), component::run);
}

#[test]
fn any_configuration_is_taken_or_refused_at_places_that_there_are() {
    replay("config", seeds::configurations(), config::run);
}

#[test]
fn whatever_engines_tell_leaves_the_index_in_order() {
    replay("events", seeds::events(), events::run);
}

#[test]
fn whatever_clients_send_and_engines_answer_is_read_the_same_each_time() {
    replay("openai", seeds::requests_and_answers(), openai::run);
}
