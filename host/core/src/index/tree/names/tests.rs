//! Names that come and go, honest ones and such as are made to crowd one page.

use super::*;
use crate::hashing::Scope;
use crate::index::holders::Coverage;
use crate::index::tree::place::NO_RUN;
use crate::index::tree::run::Block;

/// Runs of one block each, which engines call so.
fn runs(engines: &[u64]) -> Vec<Run> {
    let run = |&engine: &u64| Run {
        blocks: vec![Block { sequence: 0, engine }],
        last: 0,
        has_unnamed: false,
        scope: Scope::default(),
        parent: Reference::NONE,
        children: 0,
        continuation: NO_RUN,
        device: Coverage::default(),
        lower: None,
    };
    engines.iter().map(run).collect()
}

fn place(run: usize) -> Place {
    Place { run: run as u32, at: 0 }
}

/// Lets all names come, every third go, and all come again.
fn check(engines: &[u64]) -> Names {
    let runs = runs(engines);
    let mut names = Names::new();
    names.approach(engines.iter().copied());
    for (at, &engine) in engines.iter().enumerate() {
        assert_eq!(names.find(&runs, engine), None);
        assert!(names.enter(&runs, engine, place(at)), "name {at} is new");
    }
    let goes = |at: usize| at.is_multiple_of(3);
    for (at, &engine) in engines.iter().enumerate().filter(|(at, _)| goes(*at)) {
        names.remove(&runs, engine, place(at + 1));
        assert_eq!(names.find(&runs, engine), Some(place(at)), "another block's name stays");
        names.remove(&runs, engine, place(at));
    }
    names.approach(engines.iter().copied());
    for (at, &engine) in engines.iter().enumerate() {
        let expected = (!goes(at)).then_some(place(at));
        assert_eq!(names.find(&runs, engine), expected, "name {at}");
        assert_eq!(names.enter(&runs, engine, place(at)), goes(at), "name {at}");
    }
    assert_eq!(names.len(), engines.len());
    names
}

#[test]
fn names_are_found_while_they_are_there() {
    for count in [1, 100, 20_000] {
        let small: Vec<u64> = (0..count).collect();
        let spread: Vec<u64> =
            (0..count).map(|at| crate::hashing::sequence_hash(Some(1), at)).collect();
        for engines in [small, spread] {
            assert!(check(&engines).crowd.is_empty());
        }
    }
}

#[test]
fn names_cost_little_more_than_their_eight_bytes() {
    let engines: Vec<u64> =
        (0..50_000).map(|at| crate::hashing::sequence_hash(Some(1), at)).collect();
    let bytes = check(&engines).bytes() as f64 / engines.len() as f64;
    assert!(bytes < 16.0, "{bytes}");
}

#[test]
fn names_made_to_crowd_one_page_are_kept_apart_without_end_of_memory() {
    // The inverse of the factor that spreads them, so that what is spread can be chosen.
    let factor = 0x9e37_79b9_7f4a_7c15_u64;
    let inverse =
        (0..6).fold(1_u64, |x, _| x.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(x))));
    assert_eq!(inverse.wrapping_mul(factor), 1);
    let named = |tag: u64, number: u64| ((number << 32) | (number ^ tag)).wrapping_mul(inverse);
    // Sixty names of one tag, and sixty of another that only its last bits tell from the first.
    let engines: Vec<u64> = (0..60)
        .flat_map(|number| [named(0xabcd_0000, number), named(0xabcd_0040, number)])
        .collect();
    assert!(engines.iter().all(|&engine| tag_of(engine) & !0x40 == 0xabcd_0000));
    let names = check(&engines);
    assert!(!names.crowd.is_empty());
    assert!(names.bytes() < 1 << 20, "{} bytes", names.bytes());
}
