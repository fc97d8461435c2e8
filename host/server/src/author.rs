//! What an author asks of a policy before anybody deploys it: a first policy, whether it keeps to the
//! contract, what it costs.
//!
//! Modules in the order of an author's loop. Nothing here serves requests, and nothing that serves
//! depends on it; how the answers look in a terminal is the command line's.

pub mod template;

mod specimen;

mod crowd;
mod scene;

pub mod examine;
pub mod race;
pub mod timing;

pub use specimen::{Given, Specimen, engine};
