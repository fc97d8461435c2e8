//! The way through a file of decisions, line by line.
//!
//! Owns which line can't be read and what becomes of it: where a router ended in the middle of one, that
//! is skipped and counted; whatever else is wrong ends the way, with the line's number. It doesn't know
//! what a line is good for.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use anyhow::{Context, Error, Result, bail};

use crate::config::open_file;
use crate::recorder::{Read, read};

/// The longest line that is read: some ten thousand ranks.
const MOST_LINE: u64 = 64 << 20;

/// What lines were that are neither decisions nor settings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// Those that a later version writes.
    pub(super) others: u64,
    /// Those that end in their middle.
    pub(super) cut: u64,
}

impl Lines {
    /// In words; nothing if there is nothing to be said.
    pub(super) fn told(&self) -> String {
        match self.cut {
            0 => String::new(),
            1 => "cut off     1 line, with which a file ends or the router ended: it is left out\n"
                .to_owned(),
            cut => format!(
                "cut off     {cut} lines, with which files end or the router ended: they are left out\n"
            ),
        }
    }
}

/// Goes through a file, line by line.
pub(super) fn walk(
    path: &Path,
    lines: &mut Lines,
    each: &mut dyn FnMut(Read) -> Result<()>,
) -> Result<()> {
    let file = open_file(path).with_context(|| format!("can't read {}", path.display()))?;
    let mut file = BufReader::new(file);
    let (mut number, mut line) = (0_u64, Vec::new());
    // What is wrong with the line before, if that is that it ends too early.
    let mut cut: Option<Error> = None;
    loop {
        line.clear();
        number += 1;
        let at = || format!("{}:{number}", path.display());
        let size = file.by_ref().take(MOST_LINE).read_until(b'\n', &mut line).with_context(at)?;
        if size == 0 {
            lines.cut += u64::from(cut.is_some());
            return Ok(());
        }
        if size as u64 == MOST_LINE {
            bail!(
                "{}: the line is longer than {MOST_LINE} bytes, so this is no file of decisions",
                at()
            );
        }
        // Half a character is the end of half a line.
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        let what = match read(text.trim_end()) {
            Err(error) if error.is_cut && cut.is_none() => {
                cut = Some(Error::new(error).context(at()));
                continue;
            }
            read => read.with_context(at),
        };
        // A router that begins to write behind half a line writes its settings first. What a classifier's
        // log lacks shows by its numbers.
        match cut.take() {
            Some(_) if matches!(what, Ok(Read::Settings(_) | Read::Classifier(_))) => {
                lines.cut += 1
            }
            Some(error) => return Err(error),
            None => {}
        }
        match what? {
            Read::Other(_) => lines.others += 1,
            known => each(known).with_context(at)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a file with these lines: those that were left out, or why not.
    fn walked(text: impl AsRef<[u8]>) -> Result<Lines, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("d.jsonl");
        std::fs::write(&path, text).expect("a file");
        let mut lines = Lines::default();
        let told = walk(&path, &mut lines, &mut |_| Ok(()));
        told.map_err(|error| format!("{error:#}").replace(&path.display().to_string(), "FILE"))?;
        Ok(lines)
    }

    fn settings() -> String {
        let settings = serde_json::to_value(pointsman_core::policy::RouterSettings::default());
        let settings = settings.expect("they are JSON");
        serde_json::json!({
            "kind": "settings", "number": 1, "router_seed": "7", "settings": settings,
        })
        .to_string()
    }

    #[test]
    fn a_line_that_was_cut_off_is_left_out_and_counted() {
        let (whole, later) = (settings(), r#"{"kind":"later"}"#);
        let half = r#"{"kind":"decision","settings":1,"session":"ä"#;
        assert_eq!(walked(format!("{whole}\n{later}\n")), Ok(Lines { others: 1, cut: 0 }));
        for end in ["", "\n", "\n\n"] {
            let text = format!("{whole}\n{half}{end}");
            assert_eq!(walked(text), Ok(Lines { others: 0, cut: 1 }), "{end:?}");
        }
        // Within a character; and where another router has gone on.
        let text = format!("{whole}\n{half}").into_bytes();
        assert_eq!(walked(&text[..text.len() - 1]), Ok(Lines { others: 0, cut: 1 }));
        let again = format!("{whole}\n{half}\n{whole}\n{later}\n{half}");
        assert_eq!(walked(again), Ok(Lines { others: 1, cut: 2 }));
        assert!(Lines { others: 0, cut: 2 }.told().starts_with("cut off     2 lines"));
        assert_eq!(Lines { others: 3, cut: 0 }.told(), "");
    }

    #[test]
    fn any_other_bad_line_is_told_with_its_number() {
        let (whole, later) = (settings(), r#"{"kind":"later"}"#);
        let half = r#"{"kind":"decision","settings":1"#;
        for (text, at) in [
            (format!("{whole}\n{half}\n{later}\n"), "FILE:2: no line"),
            (format!("{whole}\n\nnonsense\n{later}\n"), "FILE:3: no line"),
            (format!("{whole}\nnonsense"), "FILE:2: no line"),
            (format!("{half}\n{half}\n"), "FILE:1: no line"),
        ] {
            let told = walked(&text).err().unwrap_or_default();
            assert!(told.starts_with(at), "{told}");
        }
    }
}
