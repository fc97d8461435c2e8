//! The contract's types as Rust, generated from `wit/`: the only place that generates any.
//!
//! Parameters are borrowed, so that a call copies nothing on the host's side but what goes into the
//! guest. Only `convert`, `instance` and `component` see these names.

wasmtime::component::bindgen!({
    path: "../../wit",
    inline: "package pointsman:host;
        world everything {
            include pointsman:policy/full-policy@0.1.0;
            include pointsman:policy/classifier@0.1.0;
        }",
    world: "pointsman:host/everything",
    ownership: Borrowing { duplicate_if_necessary: false },
});
