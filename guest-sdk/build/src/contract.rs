//! The contract, for tools that generate bindings from it: the `.wit` files of this version, and a world with what one policy exports.

use std::path::Path;

use crate::language::Language;
use crate::write::write_atomically;

/// The package's files.
const FILES: [(&str, &str); 9] = [
    ("about.wit", include_str!("../../../wit/about.wit")),
    ("fleet.wit", include_str!("../../../wit/fleet.wit")),
    ("fused.wit", include_str!("../../../wit/fused.wit")),
    ("handover.wit", include_str!("../../../wit/handover.wit")),
    ("log.wit", include_str!("../../../wit/log.wit")),
    ("observer.wit", include_str!("../../../wit/observer.wit")),
    ("request-classifier.wit", include_str!("../../../wit/request-classifier.wit")),
    ("types.wit", include_str!("../../../wit/types.wit")),
    ("worker-selection.wit", include_str!("../../../wit/worker-selection.wit")),
];

/// Its types as JavaScript sees them, for authors' editors.
pub const TYPES: &str = include_str!("../js/contract.d.ts");

/// What a component may export.
pub(crate) const INTERFACES: [&str; 7] =
    ["about", "fleet", "fused", "handover", "observer", "request-classifier", "worker-selection"];

/// What a component exports unless its manifest says otherwise.
pub(crate) fn usual(language: Language) -> &'static [&'static str] {
    match language {
        Language::C => &["worker-selection", "about"],
        _ => &["worker-selection"],
    }
}

/// The world's name in the folder that [`write`] fills.
pub(crate) const WORLD: &str = "component";

/// SHA-256 of the contract with what C policies export, in hexadecimal.
#[must_use]
pub fn digest() -> String {
    let exports: Vec<String> = c_exports();
    let texts: Vec<&str> = FILES.iter().map(|(_, text)| *text).collect();
    crate::component::digest(format!("{}{}", texts.concat(), world(&exports)).as_bytes())
}

/// What C policies export.
fn c_exports() -> Vec<String> {
    usual(Language::C).iter().map(|&name| name.to_owned()).collect()
}

/// Fills a folder as generators of C bindings take it; the answer is the world's name.
///
/// # Errors
///
/// It can't be written.
pub fn write_for_c(folder: &Path) -> std::io::Result<&'static str> {
    write(folder, &c_exports()).map(|()| WORLD)
}

/// Fills a folder as bindings generators take it: the world at its top, the contract under `deps`.
pub(crate) fn write(folder: &Path, exports: &[String]) -> std::io::Result<()> {
    let package = folder.join("deps/pointsman-policy");
    std::fs::create_dir_all(&package)?;
    for (name, text) in FILES {
        write_atomically(&package.join(name), text.as_bytes())?;
    }
    write_atomically(&folder.join("world.wit"), world(exports).as_bytes())?;
    Ok(())
}

/// A world with the contract's import, and these interfaces exported.
fn world(exports: &[String]) -> String {
    let version = version();
    let exports: String = exports
        .iter()
        .map(|name| format!("  export pointsman:policy/{name}@{version};\n"))
        .collect();
    format!(
        "package guest:policy;\n\nworld {WORLD} {{\n  import pointsman:policy/log@{version};\n{exports}}}\n"
    )
}

/// The contract's version, as each of its files begins with it.
fn version() -> &'static str {
    let (_, text) = FILES[0];
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("package pointsman:policy@").trim_end_matches(';')
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use wit_parser::{Resolve, TypeDefKind};

    use super::*;

    fn camel(name: &str) -> String {
        let mut parts = name.split('-');
        let mut all = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            all.push_str(&part[..1].to_uppercase());
            all.push_str(&part[1..]);
        }
        all
    }

    #[test]
    fn the_types_for_editors_have_every_field_function_and_case_of_the_contract() {
        const TOLD: [&str; 4] = ["types", "about", "worker-selection", "request-classifier"];
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &TOLD[1..].iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
            .unwrap();
        let mut resolve = Resolve::default();
        resolve.push_path(folder.path()).unwrap();
        let mut wanted = Vec::new();
        for (_, interface) in resolve.interfaces.iter() {
            if !interface.name.as_deref().is_some_and(|name| TOLD.contains(&name)) {
                continue;
            }
            wanted.extend(interface.functions.keys().map(|name| format!("{}(", camel(name))));
            for id in interface.types.values() {
                let field = |name: &str| format!("{}:", camel(name));
                match &resolve.types[*id].kind {
                    TypeDefKind::Record(record) => {
                        wanted.extend(record.fields.iter().map(|it| field(&it.name)));
                    }
                    TypeDefKind::Flags(flags) => {
                        wanted.extend(flags.flags.iter().map(|it| field(&it.name)));
                    }
                    TypeDefKind::Enum(cases) => {
                        wanted.extend(cases.cases.iter().map(|it| format!("\"{}\"", it.name)));
                    }
                    TypeDefKind::Variant(cases) => {
                        wanted.extend(cases.cases.iter().map(|it| format!("tag: \"{}\"", it.name)));
                    }
                    _ => {}
                }
            }
        }
        assert!(wanted.len() > 100, "{} of the contract", wanted.len());
        let missing: Vec<_> = wanted.iter().filter(|wanted| !TYPES.contains(*wanted)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_interface_of_the_contract_can_be_exported() {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<String> = INTERFACES.iter().map(|&name| name.to_owned()).collect();
        write(folder.path(), &all).unwrap();
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_path(folder.path()).unwrap();
        let world = resolve.select_world(&[package], Some(WORLD)).unwrap();
        assert_eq!(resolve.worlds[world].exports.len(), INTERFACES.len());

        // Those are all but what is imported and what holds no functions.
        let mut names: Vec<_> =
            resolve.interfaces.iter().filter_map(|(_, found)| found.name.as_deref()).collect();
        names.retain(|name| !matches!(*name, "types" | "log"));
        names.sort_unstable();
        assert_eq!(names, INTERFACES);
    }
}
