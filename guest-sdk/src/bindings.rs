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

// What a crate says of itself is exported by itself: the macros of an interface exist once, and both
// policies and classifiers have this one. Together they make the world `full-policy`.
wit_bindgen::generate!({
    path: "../wit",
    inline: "package pointsman:sdk;
        world selection {
            include pointsman:policy/policy@0.1.0;
            export pointsman:policy/fleet@0.1.0;
            export pointsman:policy/observer@0.1.0;
            export pointsman:policy/handover@0.1.0;
        }",
    world: "pointsman:sdk/selection",
    pub_export_macro: true,
    default_bindings_module: "pointsman_sdk::bindings",
    generate_all,
});

/// The call that decides at once, alone: `component::fused` exports it.
pub mod fused {
    wit_bindgen::generate!({
        path: "../wit",
        inline: "package pointsman:sdk; world fused { export pointsman:policy/fused@0.1.0; }",
        world: "pointsman:sdk/fused",
        // The type is exported with what is generated; the function is `component::fused`'s.
        export_prefix: "unused-",
        pub_export_macro: true,
        default_bindings_module: "pointsman_sdk::bindings::fused",
        with: {
            "pointsman:policy/types@0.1.0": crate::bindings::pointsman::policy::types,
        },
    });
}

/// A classifier's exports, alone: a crate may have a policy beside them.
pub mod classifier {
    wit_bindgen::generate!({
        path: "../wit",
        world: "classifier",
        pub_export_macro: true,
        default_bindings_module: "pointsman_sdk::bindings::classifier",
        with: {
            "pointsman:policy/types@0.1.0": crate::bindings::pointsman::policy::types,
            "pointsman:policy/log@0.1.0": crate::bindings::pointsman::policy::log,
        },
    });
}

/// What a crate says of itself.
pub mod description {
    wit_bindgen::generate!({
        path: "../wit",
        inline: "package pointsman:sdk; world description { export pointsman:policy/about@0.1.0; }",
        world: "pointsman:sdk/description",
        pub_export_macro: true,
        default_bindings_module: "pointsman_sdk::bindings::description",
    });
}
