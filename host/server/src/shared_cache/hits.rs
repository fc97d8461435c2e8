//! The answer: which of the blocks that were asked for are there.
//!
//! Owns what is taken as one: sorted half-open ranges of positions that don't overlap, within what
//! was asked. Anything else is no answer at all: a cache that gets this wrong knows other blocks.

use serde::Deserialize;

use super::SharedHits;

/// So many ranges are kept, from the prompt's beginning on. Each row of a decision counts over all of
/// them, so that thousands would slow decisions down; a cache that evicts block by block leaves few.
pub(super) const MOST_RANGES: usize = 256;

#[derive(Deserialize)]
struct Answer {
    /// Half-open: from the first on, without the second.
    ranges: Vec<[u32; 2]>,
}

/// Reads an answer to a question about so many blocks; or what is wrong with it.
pub(super) fn read(body: &[u8], blocks: usize) -> Result<SharedHits, String> {
    let Answer { ranges } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let mut hits = Vec::new();
    let mut before = 0;
    for [start, end] in ranges {
        if start < before || end < start {
            return Err(format!("the range [{start}, {end}] comes after {before}"));
        }
        if end as usize > blocks {
            return Err(format!("the range [{start}, {end}] goes beyond {blocks} blocks"));
        }
        before = end;
        match hits.last_mut() {
            _ if start == end => {}
            // One that goes on where the last one ends is the same one.
            Some(std::ops::Range { end: last, .. }) if *last == start => *last = end,
            _ => hits.push(start..end),
        }
    }
    hits.truncate(MOST_RANGES);
    Ok(hits.into())
}

/// How many blocks that are.
pub(super) fn count(hits: &SharedHits) -> u64 {
    hits.iter().map(|hit| u64::from(hit.end - hit.start)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(body: &str) -> Vec<[u32; 2]> {
        let hits = read(body.as_bytes(), 10).expect("it is an answer");
        hits.iter().map(|hit| [hit.start, hit.end]).collect()
    }

    #[test]
    fn ranges_are_taken_as_they_stand_and_those_that_touch_are_one() {
        assert_eq!(taken(r#"{"ranges":[]}"#), Vec::<[u32; 2]>::new());
        assert_eq!(taken(r#"{"ranges":[[0,3],[5,6]]}"#), [[0, 3], [5, 6]]);
        assert_eq!(taken(r#"{"ranges":[[0,3],[3,6],[6,6],[9,10]]}"#), [[0, 6], [9, 10]]);
        assert_eq!(taken(r#"{"took": 1, "ranges": [[9, 10]], "total_hits": 1}"#), [[9, 10]]);
    }

    #[test]
    fn what_cannot_be_true_is_no_answer() {
        for body in [
            "",
            "[]",
            "null",
            "{}",
            r#"{"ranges":null}"#,
            r#"{"not_ranges":[[0,2]]}"#,
            r#"{"ranges":[[0,2]]"#,
            r#"{"ranges":[0,2]}"#,
            r#"{"ranges":[[0,2,3]]}"#,
            r#"{"ranges":[[-1,2]]}"#,
            r#"{"ranges":[[0.5,2]]}"#,
            r#"{"ranges":[[0,4294967296]]}"#,
            r#"{"ranges":[[2,1]]}"#,
            r#"{"ranges":[[5,6],[0,3]]}"#,
            r#"{"ranges":[[0,3],[2,6]]}"#,
            r#"{"ranges":[[0,11]]}"#,
            r#"{"ranges":[[11,11]]}"#,
        ] {
            assert!(read(body.as_bytes(), 10).is_err(), "{body}");
        }
    }

    #[test]
    fn of_a_cache_in_pieces_the_beginning_counts() {
        let ranges: Vec<[u32; 2]> = (0..1_000).map(|at| [2 * at, 2 * at + 1]).collect();
        let body = serde_json::json!({ "ranges": ranges }).to_string();
        let hits = read(body.as_bytes(), 2_000).expect("it is an answer");
        assert_eq!((hits.len(), count(&hits)), (MOST_RANGES, MOST_RANGES as u64));
        assert_eq!(hits.last(), Some(&(510..511)));
    }
}
