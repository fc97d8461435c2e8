//! The reference of all keys, in Markdown: the tables of `CONFIG.md`.

use super::keys::{ALL, Table};

/// Every key with its type, default and meaning, one table a level.
#[must_use]
pub fn reference() -> String {
    ALL.iter().map(|table| section(table)).collect::<Vec<_>>().join("\n")
}

fn section(table: &Table) -> String {
    let title = match table.path {
        "" => "The file".to_owned(),
        path => path.split(", ").map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", "),
    };
    let rows = table.keys.iter().map(|key| {
        format!("| `{}` | {} | {} | {} |\n", key.name, key.kind, key.default, key.meaning)
    });
    let mut text = format!("## {title}\n\n{}\n\n", table.about);
    text += "| key | type | default | meaning |\n|---|---|---|---|\n";
    text.extend(rows);
    if !table.later.is_empty() {
        let keys: Vec<_> = table.later.iter().map(|(key, _)| format!("`{key}`")).collect();
        text += &format!("\nRefused as not supported by this version: {}.\n", keys.join(", "));
    }
    text
}
