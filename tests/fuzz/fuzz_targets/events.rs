//! The target of `src/events.rs`.

#![no_main]

#[path = "../src/events.rs"]
mod events;
#[path = "../src/words.rs"]
mod words;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| events::run(bytes));
