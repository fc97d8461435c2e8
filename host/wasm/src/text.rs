//! Text that a guest wrote, made fit for an operator's log: bounded, on one line.

/// The longest refusal that is quoted, in bytes.
pub(crate) const MOST_REFUSAL_BYTES: usize = 500;

/// At most `most` bytes of `text`, ended by an ellipsis where it was cut, control characters
/// replaced by spaces.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = text.get(..end).unwrap_or_default();
    let mut out: String = kept.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if end < text.len() {
        out.push('…');
    }
    out
}

/// A refusal as it is shown: quoted and bounded.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", bounded(text, MOST_REFUSAL_BYTES))
}

/// The most sentences of a refusal that are shown.
const MOST_SENTENCES: usize = 20;

/// A refusal of several sentences, one a line: each quoted and bounded, with semicolons between. As
/// quotes within are escaped, `"; "` stands nowhere else.
pub(crate) fn each_quoted(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.as_slice() {
        [] | [_] => quoted(text.trim_end()),
        lines => {
            let shown = lines.iter().take(MOST_SENTENCES).map(|line| quoted(line));
            shown.collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_text_stays_on_one_line_and_within_bounds() {
        assert_eq!(bounded("a\nb\u{1b}[31m", 100), "a b [31m");
        assert_eq!(bounded("ääää", 3), "ä…", "never cut inside a character");
        assert!(quoted(&"x".repeat(10_000)).len() < MOST_REFUSAL_BYTES + 10);
    }

    #[test]
    fn sentences_on_lines_of_their_own_are_told_apart() {
        assert_eq!(each_quoted("no \"a\"\n\nno \"; \"\n"), r#""no \"a\""; "no \"; \"""#);
        assert_eq!(each_quoted("no \"a\"\n"), r#""no \"a\"""#);
        assert_eq!(each_quoted(""), "\"\"");
        assert_eq!(each_quoted(&"x\n".repeat(1_000)).matches("\"x\"").count(), MOST_SENTENCES);
    }
}
