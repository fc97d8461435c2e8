//! `CLIENTS.md` names what the code names.

use std::path::Path;

const CLIENTS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/CLIENTS.md"));

/// The text literals of all of this module's sources, tests left out.
fn literals() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.join("openai")];
    let mut files = vec![root.join("openai.rs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match path.is_dir() {
                true if !["tests", "snapshots"].contains(&&*name) => folders.push(path),
                false if name.ends_with(".rs") && name != "tests.rs" => files.push(path),
                _ => {}
            }
        }
    }
    let code = |file| {
        let text = std::fs::read_to_string(file).unwrap();
        text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
    };
    let literals = files.into_iter().map(code).flat_map(|code| {
        let pieces: Vec<_> = code.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        pieces
    });
    literals.collect()
}

#[test]
fn every_header_that_the_code_names_is_described() {
    let header = |text: &&String| {
        let plain = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        // What many headers begin with is no header.
        let plain = plain && !text.ends_with('-');
        plain && (text.starts_with("x-") || text.ends_with("-id"))
    };
    let literals = literals();
    let headers: Vec<_> = literals.iter().filter(header).collect();
    assert!(headers.len() > 20, "{headers:?}");
    for name in headers {
        assert!(CLIENTS.contains(&format!("`{name}`")), "CLIENTS.md says nothing of {name}");
    }
}

#[test]
fn every_setting_that_is_named_is_one() {
    let settings = crate::config::reference();
    for name in CLIENTS.split('`').skip(1).step_by(2) {
        let name = name.rsplit_once("proxy.").map_or(name, |(_, key)| key);
        let is_setting = ["_timeout", "_body", "_budget"].iter().any(|end| name.ends_with(end));
        if is_setting && name != "request_timeout" && name != "decision_timeout" {
            let known = settings.contains(&format!("| `{name}` |"));
            assert!(known || name == "upstream_timeout", "{name} is no setting");
        }
    }
}
