//! The README's Rust is this test's: each of its blocks stands word for word in a file that is compiled
//! and run here.

#![expect(unreachable_pub, reason = "it is written as what a policy's own crate exports")]

#[path = "readme/classifier.rs"]
mod classifier;
#[path = "readme/policy.rs"]
mod policy;

const README: &str = include_str!("../README.md");
const FILES: [&str; 2] = [include_str!("readme/policy.rs"), include_str!("readme/classifier.rs")];

#[test]
fn the_blocks_of_rust_one_after_another_are_crates_that_are_compiled_and_run() {
    let blocks = README.split("```rust\n").skip(1);
    let mut blocks = blocks.filter_map(|rest| rest.split("```").next()).peekable();
    for file in FILES {
        // A word on what it is, and behind the last block what isn't in the README.
        let (_, file) = file.split_once("\n\n").unwrap_or_default();
        let mut rest = file;
        while let Some(behind) = blocks.peek().and_then(|block| rest.strip_prefix(*block)) {
            blocks.next();
            rest = behind.strip_prefix('\n').unwrap_or(behind);
        }
        let left = rest.lines().next().unwrap_or_default();
        assert!(left.is_empty() || left.starts_with("/// What isn't in the README"), "{left}");
        assert_ne!(rest, file, "its first block isn't the file's beginning");
    }
    assert_eq!(blocks.next(), None, "it is in no file");
}
