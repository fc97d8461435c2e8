//! What wit-bindgen makes of `wit/`, once for all guests.
//!
//! Generated, and used by `component.rs` and `export_policy!` only: authors see the crate's own
//! types.
#![allow(
    unsafe_code,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    reason = "generated: lowering and lifting of values is raw memory work"
)]

wit_bindgen::generate!({
    path: "../wit",
    world: "full-policy",
    pub_export_macro: true,
    default_bindings_module: "pointsman_sdk::bindings",
    generate_all,
});
