//! The target of `src/component.rs`.

#![no_main]

#[path = "../src/component.rs"]
mod component;
#[path = "../src/words.rs"]
mod words;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| component::run(bytes));
