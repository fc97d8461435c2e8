//! JSON as people and programs send it to the router.
//!
//! Owns what holds for every body on either listener: how fields are read so that everything that is
//! wrong with them is said at once and in words, what a value can be, and what becomes of texts that
//! other parsers take and ours doesn't. It doesn't know what the fields mean.

mod fields;
mod repeats;
mod surrogates;
pub(crate) mod values;

pub(crate) use fields::Fields;
pub use fields::{Problem, Problems};
pub(crate) use repeats::{Told, read};
pub(crate) use surrogates::without_lone_surrogates;
