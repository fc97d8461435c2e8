//! Looks through a body as it comes, for where its JSON object ends and which model it names.
//!
//! It reads each byte once, and keeps nothing but a name. What is no JSON isn't refused here: it has no
//! end, and whoever parses it says so.

use memchr::memchr2;

/// The longest text that is looked at whole: no model has a longer name.
const MOST_TEXT: usize = 1_024;

/// How far a body has been looked through.
#[derive(Debug, Default)]
pub(super) struct Scan {
    depth: u32,
    /// Within a text.
    text: bool,
    /// The text's next byte is escaped.
    escaped: bool,
    /// The next text of the object itself is a key.
    key_next: bool,
    /// The text that is being read, of those that matter; none of others.
    kept: Option<Vec<u8>>,
    /// The last key of the object itself was the model's.
    after_model: bool,
    state: State,
    model: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Only white space has come.
    #[default]
    Before,
    Within,
    /// The object has ended.
    After,
    /// It is no object.
    Other,
}

impl Scan {
    /// The next piece comes.
    pub(super) fn see(&mut self, mut piece: &[u8]) {
        while let Some((&byte, rest)) = piece.split_first() {
            piece = match self.state {
                State::After | State::Other => return,
                State::Before => {
                    self.begin(byte);
                    rest
                }
                State::Within if self.text => self.in_text(piece),
                State::Within => self.in_structure(piece),
            };
        }
    }

    /// Whether the object has come to its end.
    pub(super) fn has_ended(&self) -> bool {
        self.state == State::After
    }

    /// The model that it names, once its name is there.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn begin(&mut self, byte: u8) {
        match byte {
            b'{' => {
                (self.state, self.depth, self.key_next) = (State::Within, 1, true);
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => self.state = State::Other,
        }
    }

    fn in_structure<'b>(&mut self, piece: &'b [u8]) -> &'b [u8] {
        for (at, byte) in piece.iter().enumerate() {
            match byte {
                b'"' => {
                    self.text = true;
                    let matters = self.depth == 1 && (self.key_next || self.after_model);
                    self.kept = matters.then(Vec::new);
                    return piece.get(at + 1..).unwrap_or_default();
                }
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.state = State::After;
                        return &[];
                    }
                }
                b',' if self.depth == 1 => (self.key_next, self.after_model) = (true, false),
                b':' if self.depth == 1 => self.key_next = false,
                _ => {}
            }
        }
        &[]
    }

    fn in_text<'b>(&mut self, piece: &'b [u8]) -> &'b [u8] {
        let mut at = 0;
        if std::mem::take(&mut self.escaped) {
            at = 1;
        }
        loop {
            let rest = piece.get(at..).unwrap_or_default();
            let Some(next) = memchr2(b'"', b'\\', rest) else {
                self.keep(piece);
                // A byte that is escaped may come with the next piece.
                self.escaped = at > piece.len();
                return &[];
            };
            at += next;
            if piece.get(at) == Some(&b'"') {
                self.keep(piece.get(..at).unwrap_or_default());
                self.end_text();
                return piece.get(at + 1..).unwrap_or_default();
            }
            at += 2;
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            if kept.len() + bytes.len() <= MOST_TEXT {
                kept.extend_from_slice(bytes);
            } else {
                self.kept = None;
            }
        }
    }

    fn end_text(&mut self) {
        self.text = false;
        let kept = self.kept.take();
        if self.depth == 1 && self.key_next {
            self.after_model = kept.is_some_and(|key| key == b"model");
        } else if std::mem::take(&mut self.after_model)
            && let Some(raw) = kept
        {
            let quoted = [b"\"", &*raw, b"\""].concat();
            self.model = serde_json::from_slice(&quoted).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(pieces: &[&[u8]]) -> Scan {
        let mut scan = Scan::default();
        pieces.iter().for_each(|piece| scan.see(piece));
        scan
    }

    #[test]
    fn the_model_and_the_end_are_found_however_the_body_is_cut() {
        for (body, model) in [
            (r#"{"model":"m","messages":[{"role":"user","content":"a}b\"}{\\"}]}"#, Some("m")),
            (
                r#" { "messages" : [ { "model" : "no" } ] , "model" : "a\u00e9\"b" } "#,
                Some("a\u{e9}\"b"),
            ),
            (r#"{"x":"model","y":{"model":"no"},"z":["model"]}"#, None),
            (r#"{"model":null,"a":"b"}"#, None),
            (r#"{"model":{"model":"no"},"k":1}"#, None),
            (r#"{"a\\":"\\","model":"m"}"#, Some("m")),
            ("{}", None),
        ] {
            let bytes = body.as_bytes();
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    let scan = scan(&pieces);
                    assert_eq!((scan.model(), scan.has_ended()), (model, true), "{pieces:?}");
                }
            }
            let end = body.trim_end().len() - 1;
            assert!(!scan(&[&bytes[..end]]).has_ended(), "{body}");
        }
    }

    #[test]
    fn the_model_is_known_as_soon_as_its_name_has_come() {
        assert_eq!(scan(&[br#"{"model": "m""#]).model(), Some("m"));
        assert_eq!(scan(&[br#"{"model": "m"#]).model(), None);
        let long = format!(r#"{{"model":"{}"}}"#, "m".repeat(2_000));
        let long = scan(&[long.as_bytes()]);
        assert!(long.model().is_none() && long.has_ended());
    }

    #[test]
    fn what_is_no_object_has_no_end_and_nothing_makes_it_fail() {
        for body in ["[1]", "nonsense", "", "  ", "}", "\"{}\"", "{\"a\":\"\\"] {
            assert!(!scan(&[body.as_bytes()]).has_ended(), "{body}");
        }
        // A second value is for whoever parses it.
        assert!(scan(&[b"{} {}"]).has_ended());
    }
}
