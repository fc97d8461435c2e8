//! What a file is, before anything is compiled: a component or not, and what it asks for and gives.

use std::path::Path;

use wasmparser::{Encoding, Parser, Payload};

use crate::error::LoadError;

/// The contract's package.
const PACKAGE: &str = "pointsman:policy/";
/// The version of the contract that this host has. Every 0.1.x goes with every other.
const VERSION: &str = "0.1.0";
/// What a policy must export.
const SELECTION: &str = "pointsman:policy/worker-selection";
/// What a policy may import, in words.
const MAY_IMPORT: &str = "pointsman:policy/log@0.1 (and wasi, of which it gets an empty one)";

/// A component's outside.
#[derive(Debug)]
pub(super) struct Shape {
    /// The interfaces that it imports, sorted.
    pub(super) imports: Vec<String>,
}

/// Reads the outside of a component, and refuses what can't be a policy.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Shape, LoadError> {
    if bytes.is_empty() {
        return Err(LoadError::Empty { path: path.to_owned() });
    }
    if !bytes.starts_with(b"\0asm") {
        let text = bytes.trim_ascii_start();
        let path = path.to_owned();
        return Err(if text.starts_with(b"(") || text.starts_with(b";;") {
            LoadError::Text { path }
        } else {
            LoadError::NotWasm { path }
        });
    }
    let (mut imports, exports) = names(path, bytes)?;
    imports.sort();
    for import in &imports {
        check_import(path, import)?;
    }
    check_exports(path, &exports)?;
    Ok(Shape { imports })
}

/// The names of what the outermost component imports and exports.
fn names(path: &Path, bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), LoadError> {
    let malformed = |error: wasmparser::BinaryReaderError| LoadError::Malformed {
        path: path.to_owned(),
        reason: format!("{} (at byte {})", error.message(), error.offset()),
    };
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(LoadError::CoreModule { path: path.to_owned() });
            }
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import.map_err(malformed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

fn check_import(path: &Path, import: &str) -> Result<(), LoadError> {
    if import.starts_with("wasi:") {
        return Ok(());
    }
    let (name, version) = import.split_once('@').unwrap_or((import, ""));
    if !matches!(name.strip_prefix(PACKAGE), Some("log" | "types")) {
        let found = import.chars().take(200).collect();
        return Err(LoadError::Import { path: path.to_owned(), found, wanted: MAY_IMPORT });
    }
    check_version(path, import, name, version)
}

fn check_exports(path: &Path, exports: &[String]) -> Result<(), LoadError> {
    let mut selects = false;
    for export in exports.iter().filter(|export| export.starts_with(PACKAGE)) {
        let (name, version) = export.split_once('@').unwrap_or((export, ""));
        check_version(path, export, name, version)?;
        selects |= name == SELECTION;
    }
    if selects {
        return Ok(());
    }
    let found = match exports {
        [] => "nothing".to_owned(),
        some => some.iter().take(8).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", "),
    };
    let wanted = "\"pointsman:policy/worker-selection@0.1.0\"";
    Err(LoadError::MissingExport { path: path.to_owned(), found, wanted })
}

fn check_version(path: &Path, found: &str, name: &str, version: &str) -> Result<(), LoadError> {
    // Below 1.0 the second number counts breaks; the third grows with additions.
    let same = version.strip_prefix("0.1.").is_some_and(|rest| {
        rest.split(['-', '+']).next().is_some_and(|patch| patch.parse::<u32>().is_ok())
    });
    if same {
        return Ok(());
    }
    Err(LoadError::Version {
        path: path.to_owned(),
        found: found.chars().take(200).collect(),
        wanted: format!("\"{name}@{VERSION}\""),
    })
}
