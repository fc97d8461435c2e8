//! Words in messages: what was likely meant, and what there is.

use std::time::Duration;

use super::scalar::time_within;

/// The most names that a message lists; what is beyond is counted.
const MOST_LISTED: usize = 20;

/// What looks most like a word that nobody knows.
pub(crate) fn nearest<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    // Beyond this nothing is meant; and comparing costs the product of the lengths.
    const LONGEST: usize = 64;
    if word.len() > LONGEST {
        return None;
    }
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let word = plain(word);
    let most = (word.chars().count() / 3).max(1);
    let begins = |one: &str| word.chars().count() > 2 && one.starts_with(&word);
    known
        .map(|one| (strsim::damerau_levenshtein(&word, &plain(one)), one))
        .filter(|(distance, one)| *distance <= most || begins(&plain(one)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, one)| one)
}

/// Names one after the other, or `none`.
pub(crate) fn listed<'w>(names: impl Iterator<Item = &'w str>) -> String {
    let mut names = names.peekable();
    let mut text = String::new();
    for name in names.by_ref().take(MOST_LISTED) {
        text += if text.is_empty() { "" } else { ", " };
        text += name;
    }
    match names.count() {
        _ if text.is_empty() => "none".to_owned(),
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// What to write for a time with a unit, where the key wants a number of seconds or milliseconds.
pub(crate) fn as_plain_time(key: &str, text: &str) -> Option<String> {
    let (millis, unit) =
        [("_secs", 1_000, "seconds"), ("_seconds", 1_000, "seconds"), ("_ms", 1, "milliseconds")]
            .into_iter()
            .find_map(|(end, millis, unit)| key.ends_with(end).then_some((millis, unit)))?;
    let time =
        time_within(text.trim(), Duration::ZERO..=Duration::from_secs(u64::from(u32::MAX))).ok()?;
    let time = u64::try_from(time.as_millis()).ok()?;
    let number = match time % millis {
        0 => (time / millis).to_string(),
        _ => (time as f64 / millis as f64).to_string(),
    };
    Some(format!("write {number}: the key's value is a number of {unit}"))
}
