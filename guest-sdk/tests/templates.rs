//! What `pointsman policy new` writes is this test's: each template compiles, and its own tests pass.

#![expect(unreachable_pub, reason = "they are written as what a policy's own crate exports")]

#[path = "../../host/server/src/author/templates/rust/classifier/src/lib.rs"]
mod classifier;
#[path = "../../host/server/src/author/templates/rust/filter/src/lib.rs"]
mod filter;
#[path = "../../host/server/src/author/templates/rust/picker/src/lib.rs"]
mod picker;
#[path = "../../host/server/src/author/templates/rust/policy/src/lib.rs"]
mod policy;
#[path = "../../host/server/src/author/templates/rust/scorer/src/lib.rs"]
mod scorer;
