//! The Pointsman server: what stands around the decision core.
//!
//! The library is the product; `main.rs` only starts it. Modules in the order of a router's life
//! and a request's way.

mod bearer;
mod bodies;
pub mod clock;
pub mod config;
mod json;
mod shortage;

pub mod feeds;

pub mod desks;
pub mod discovery;
pub mod dispatch;
pub mod policies;
pub mod registry;

pub mod prompts;
pub mod shared_cache;
pub mod tokens;

pub mod afterwards;
pub mod app;
pub mod author;
pub mod cases;
mod decisions;
mod described;
pub mod housekeeping;
pub mod recorder;
pub mod replay;
pub mod telemetry;

mod stays;

pub mod openai;

mod rest;

pub mod admin;
pub mod epp;
pub mod select;
pub mod serve;

pub mod cli;

pub mod demo;
pub mod load_client;
pub mod mock_engine;
