//! The target of `src/config.rs`.

#![no_main]

#[path = "../src/config.rs"]
mod config;
#[path = "../src/words.rs"]
mod words;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| config::run(bytes));
