//! Makes the C bindings of the contract anew, and notes which contract that was.
//!
//! `cargo run` in this folder, whenever a `.wit` file has changed; `--check` writes nothing, and fails if the kept
//! ones are others.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use wit_parser::Resolve;

fn main() -> Result<()> {
    let checks = std::env::args().any(|argument| argument == "--check");
    let folder = tempfile::tempdir()?;
    let world = pointsman_build::write_contract_for_c(folder.path())?;
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(folder.path())?;
    let world = resolve.select_world(&[package], Some(world))?;
    let mut files = wit_bindgen_core::Files::default();
    let mut generator = wit_bindgen_c::Opts::default().build();
    generator.generate(&mut resolve, world, &mut files)?;
    let made = |name: &str| {
        let found = files.iter().find(|(made, _)| *made == name);
        found.map(|(_, bytes)| bytes.to_vec()).with_context(|| format!("no {name} was made"))
    };
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/c");
    let digest = format!("{}\n", pointsman_build::contract_digest()).into_bytes();
    let all = [
        ("component.h", made("component.h")?),
        ("component.c", made("component.c")?),
        ("contract.sha256", digest),
    ];
    for (name, bytes) in all {
        let file = kept.join(name);
        if checks {
            let there = std::fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
            ensure!(there == bytes, "{} is of another contract; run this without --check", file.display());
        } else {
            std::fs::write(&file, bytes).with_context(|| format!("writing {}", file.display()))?;
        }
    }
    Ok(())
}
