//! What crosses crates, tested as a user meets it: YAML in, HTTP in, HTTP out.
//!
//! One binary, a module an area. Each test is named after the promise that it holds.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should say where")]

mod author;
mod classifier;
mod classifier_log;
mod composition;
mod containment;
mod contract;
mod default_cost;
mod disaggregation;
mod docs;
mod embedding;
mod envoy;
mod examples;
mod forgetting;
mod front_door;
mod fuzz;
#[path = "../guests/compose.rs"]
mod guests;
mod inspect;
mod library;
mod lifecycle;
mod load_reports;
mod metrics;
mod observer;
mod one_lane;
mod overload;
mod parameters;
mod parity;
mod processes;
mod publisher;
mod queueing;
mod recording;
mod recordings;
mod reload;
mod rollout;
mod rules;
mod safeguards;
mod select;
mod sessions;
mod shared_cache;
mod taking_up;
