//! What is asked of every sentence that somebody reads, whoever wrote what it is about.

/// Panics if a message isn't one line that can be read: empty, longer than `most` bytes, or with
/// characters that move a terminal's cursor.
pub(crate) fn sentence(text: &str, most: usize) {
    assert!(!text.trim().is_empty(), "a message that says nothing");
    assert!(text.len() <= most, "a message of {} bytes: {:.300}", text.len(), text);
    let odd = text.chars().find(|c| c.is_control());
    assert_eq!(odd, None, "a message of several lines or none: {text:?}");
}
