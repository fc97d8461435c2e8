//! Text that a guest wrote, made fit for an operator's log: bounded, on one line.

/// The longest refusal that is quoted, in bytes.
pub(crate) const MOST_REFUSAL_BYTES: usize = 500;

/// The longest log line that is written, in bytes.
pub(crate) const MOST_LOG_LINE_BYTES: usize = 1024;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_text_stays_on_one_line_and_within_bounds() {
        assert_eq!(bounded("a\nb\u{1b}[31m", 100), "a b [31m");
        assert_eq!(bounded("ääää", 3), "ä…", "never cut inside a character");
        assert!(quoted(&"x".repeat(10_000)).len() < MOST_REFUSAL_BYTES + 10);
    }
}
