//! The target of `src/openai.rs`.

#![no_main]

#[path = "../src/openai.rs"]
mod openai;
#[path = "../src/words.rs"]
mod words;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| openai::run(bytes));
