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
fn each_block_of_rust_is_compiled_and_run() {
    let blocks = README.split("```rust\n").skip(1);
    let blocks: Vec<_> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 6, "{} blocks", blocks.len());
    for block in blocks {
        assert!(FILES.iter().any(|file| file.contains(block)), "it isn't here:\n{block}");
    }
}
