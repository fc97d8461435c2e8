//! Loading: what is taken, and the sentence for what isn't.

use std::path::Path;
use std::time::Duration;

use pointsman_core::policy::{Cause, InstantiateError, Limits, PolicyEnvironment, PolicyProvider};
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine, SizeClass};

use crate::guests::{all, guest, varied};
use crate::rig::{Case, engine, environment, instance, load};

fn refused(name: &str, words: &[&str]) {
    let text = load(name).unwrap_err().to_string();
    for word in [&format!("{name}.wasm: ")[..]].iter().chain(words) {
        assert!(text.contains(word), "{text:?} should say {word:?}");
    }
}

#[test]
fn what_is_no_policy_is_refused_in_one_sentence() {
    refused("core-module", &["is a core module, wanted a component"]);
    refused(
        "imports-network",
        &["imports \"acme:net/http@1.0.0\"", "pointsman:policy/log (and wasi"],
    );
    refused("wrong-version", &["built for pointsman:policy 0.2.0; this host takes 0.1.x"]);
    refused("older-contract", &["built for pointsman:policy 0.0.9; this host takes 0.1.x"]);
    refused("exports-nothing", &["exports nothing", "worker-selection@0.1.0"]);
    refused(
        "wrong-signature",
        &["\"pointsman:policy/worker-selection#score\"", "expected `f64` found `f32`"],
    );
    refused("loops-at-start", &["fuel"]);
}

#[test]
fn bytes_that_are_no_component_are_refused_in_one_sentence() {
    let load = |bytes: &[u8]| {
        let loaded = ComponentPolicy::load(engine(), "x", Path::new("dir/x.wasm"), bytes);
        loaded.unwrap_err().to_string()
    };
    assert!(load(b"").contains("dir/x.wasm: is empty"));
    assert!(load(b"#!/bin/sh").contains("is not WebAssembly"));
    assert!(load(b"  (component)").contains("is WebAssembly text"));
    assert!(load(b"\0asm").contains("is not a valid component"));
    let whole = guest("template");
    for cut in [9, 100, whole.len() / 2, whole.len() - 1] {
        assert!(load(&whole[..cut]).contains("x.wasm: "), "cut at {cut}");
    }
}

#[test]
fn a_component_has_no_more_instances_tables_and_memories_than_it_may() {
    // The template with so many instances more, of a module that has this.
    let load = |count: usize, has: &str| {
        let further = "(core instance (instantiate $further))\n".repeat(count);
        let bytes = varied(&format!(
            ";;; exports
            (core module $further {has})
            {further}
            (export \"pointsman:policy/worker-selection@0.1.0\" (instance $selection))
            ;;; end"
        ));
        let loaded = ComponentPolicy::load(engine(), "x", Path::new("x.wasm"), &bytes);
        loaded.map(drop).map_err(|error| error.to_string())
    };
    for (most, has, named) in [
        (256, "", "instance count too high"),
        (128, "(table 1 funcref) (table 1 funcref)", "table count too high"),
        (64, "(memory 1)", "memory count too high"),
    ] {
        assert_eq!(load(most - 10, has), Ok(()), "{has}");
        let told = load(most + 1, has).unwrap_err();
        assert!(told.starts_with("x.wasm: ") && told.contains(named), "{told}");
    }
}

#[test]
fn a_sentence_stays_one_whatever_a_component_calls_things() {
    let long = "x".repeat(60_000);
    let import = |name: &str| format!("(component (import \"{name}\" (instance)))");
    let texts = [
        (import(&format!("acme:{long}/x")), "imports \"acme:xxx"),
        (import(&format!("pointsman:policy/{long}")), "which is of no version"),
        (import(&format!("pointsman:policy/log@0.2.0-{long}")), "pointsman:policy 0.2.0-xxx"),
        (import(&format!("pointsman:policy/log@0.0.1+{long}")), "pointsman:policy 0.0.1+xxx"),
        (
            format!("(component (core module $m) (export \"{long}\" (core module $m)))"),
            "exports \"xxx",
        ),
    ];
    let texts = texts.map(|(text, words)| (wat::parse_str(&text).unwrap(), words));
    // The parser shows what is no module in it as a list of several lines.
    let nested = b"\0asm\x0d\0\x01\0\x01\x08nope\x01\0\0\0".to_vec();
    for (bytes, words) in texts.into_iter().chain([(nested, "bad magic number")]) {
        let loaded = ComponentPolicy::load(engine(), "x", Path::new("x.wasm"), &bytes);
        let text = loaded.unwrap_err().to_string();
        assert!(text.contains(words), "{text:.300} should say {words:?}");
        assert!(text.len() < 600, "{} bytes: {text:.300}", text.len());
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

#[test]
fn a_component_for_a_later_contract_that_only_grew_is_taken() {
    let mut policy = instance("later-version").unwrap();
    assert_eq!(Case::new(&[2.0, 1.0]).pick(&mut *policy).unwrap(), 1);
}

#[test]
fn a_configuration_that_does_not_hold_is_refused_in_a_sentence() {
    let check = |name: &str, words: &str| {
        let text = instance(name).unwrap_err().to_string();
        assert!(text.contains(words), "{text:?} should say {words:?}");
    };
    check("refuses-configuration", r#"refuses to be configured: "not \"today\"""#);
    check("declares-unknown-input", "unknown input \"active-reqwests\"; this host knows: identity");
    check("declares-fused", "\"fused\", but does not export the interface \"fused\"");
}

#[test]
fn a_dry_run_finds_what_loads_and_does_not_work() {
    let probe = |name: &str| load(name).unwrap().probe(&environment());
    let fine = probe("template").unwrap();
    assert!(fine.most_fuel > 0 && fine.most_fuel_per_decision > fine.most_fuel);
    assert_eq!(fine.refusals, Vec::<String>::new());
    assert_eq!(probe("refuses-to-score").unwrap().refusals.len(), 3, "a refusal isn't a fault");
    let check = |name: &str, words: &str| {
        let text = probe(name).unwrap_err().to_string();
        assert!(text.contains(words), "{text:?} should say {words:?}");
    };
    check("traps", "scorer \"load\" failed in a dry run over 1 rows: trap");
    check("loops-in-keep", "filter \"everyone\" failed in a dry run over 1 rows: fuel");
    check("scores-nan", "the cost of row 0 is NaN");
    check("scores-infinity", "the cost of row 0 is inf");
    check("picks-out-of-range", "row 1 was picked out of 1");
    check("scores-too-few", "0 costs for 1 rows");
    check("refuses-configuration", "refuses to be configured");
}

#[test]
fn an_empty_answer_of_a_filter_is_no_failure() {
    let mut policy = instance("keeps-none").unwrap();
    assert_eq!(Case::new(&[1.0, 2.0]).keep(&mut *policy).unwrap(), Vec::<usize>::new());
}

#[test]
fn when_the_pool_is_full_instances_are_made_outside_it() {
    let config = EngineConfig { pooled_instances: 2, ..EngineConfig::default() };
    let engine = PolicyEngine::new(config).unwrap();
    let policy =
        ComponentPolicy::load(&engine, "x", Path::new("x.wasm"), &guest("template")).unwrap();
    let mut instances: Vec<_> =
        (0..5).map(|_| policy.instantiate(&environment()).unwrap()).collect();
    for instance in &mut instances {
        assert_eq!(Case::new(&[2.0, 1.0]).pick(&mut **instance).unwrap(), 1);
    }
    let counters = engine.counters();
    assert_eq!((counters.pool_exhausted, counters.on_demand_instances), (3, 3));
}

#[test]
fn a_component_that_does_not_fit_a_slot_lives_outside_the_pool() {
    let unused: String = (0..40)
        .map(|i| format!("(core module $m{i}) (core instance (instantiate $m{i}))\n"))
        .collect();
    let many = varied(&format!(";;; lowered\n{unused};;; end\n"));
    let before = engine().counters().on_demand_instances;
    let policy = ComponentPolicy::load(engine(), "x", Path::new("x.wasm"), &many).unwrap();
    policy.instantiate(&environment()).unwrap();
    assert!(engine().counters().on_demand_instances >= before + 2);
}

#[test]
fn limits_that_are_not_set_go_by_the_components_size() {
    let load = |large_component_bytes| {
        let config =
            EngineConfig { pooled_instances: 2, large_component_bytes, ..EngineConfig::default() };
        let engine = PolicyEngine::new(config).unwrap();
        let path = Path::new("x.wasm");
        ComponentPolicy::load(&engine, "x", path, &guest("loops-in-score")).unwrap()
    };
    let (small, large) = (load(1 << 20), load(1));
    assert_eq!((small.class(), large.class()), (SizeClass::Small, SizeClass::Large));
    let unset = PolicyEnvironment { limits: Limits::default(), ..environment() };
    for (policy, fuel) in [(&small, Limits::SMALL_FUEL), (&large, Limits::LARGE_FUEL)] {
        let mut instance = policy.instantiate(&unset).unwrap();
        let error = Case::new(&[1.0]).score(&mut *instance).unwrap_err();
        assert_eq!((error.cause, instance.last_fuel()), (Cause::Fuel, Some(fuel)));
    }
    let deadline = Some(Duration::from_millis(100));
    let short =
        PolicyEnvironment { limits: Limits { deadline, ..Limits::default() }, ..environment() };
    small.instantiate(&short).unwrap();
    let error = large.instantiate(&short).unwrap_err();
    assert!(matches!(error, InstantiateError::Limits { .. }));
    let words = "a deadline of 100ms can end a call before 100000000 fuel does; set at least 2s";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn compiled_components_are_found_again_by_the_next_engine() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        pooled_instances: 2,
        cache_dir: Some(dir.path().join("compiled")),
        ..EngineConfig::default()
    };
    let load = || {
        let engine = PolicyEngine::new(config.clone()).unwrap();
        let path = Path::new("x.wasm");
        let policy = ComponentPolicy::load(&engine, "x", path, &guest("template")).unwrap();
        let small = policy.instantiate(&environment()).unwrap();
        let mut roomy = environment();
        roomy.limits.memory = Some(64 << 20);
        let large = policy.instantiate(&roomy).unwrap();
        drop((small, large));
        engine.counters()
    };
    let first = load();
    assert_eq!(
        (first.cache_hits, first.cache_misses),
        (1, 1),
        "one compilation serves both engines"
    );
    let second = load();
    assert_eq!((second.cache_hits, second.cache_misses), (2, 0));
}

#[test]
fn every_guest_is_tried_by_some_test() {
    let tests = [
        include_str!("calls.rs"),
        include_str!("classifier.rs"),
        include_str!("hosted.rs"),
        include_str!("loading.rs"),
        include_str!("order.rs"),
        include_str!("state.rs"),
        include_str!("wasi.rs"),
        // Those that only a router shows.
        include_str!("../../../../tests/it/select/hostile.rs"),
    ]
    .concat();
    for name in all() {
        assert!(tests.contains(&format!("\"{name}\"")), "no test uses the guest {name}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_no_regular_one_is_refused_without_being_opened() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("pipe.wasm");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [fifo.as_path(), dir.path(), Path::new("/dev/zero")] {
        let error = ComponentPolicy::open(engine(), "p", path).unwrap_err().to_string();
        assert!(error.contains("is no regular file, wanted a component"), "{error}");
    }
    let gone = ComponentPolicy::open(engine(), "p", &dir.path().join("gone.wasm")).unwrap_err();
    assert!(gone.to_string().contains("can't be read"), "{gone}");
    let file = dir.path().join("p.wasm");
    std::fs::write(&file, guest("template")).unwrap();
    assert_eq!(ComponentPolicy::open(engine(), "p", &file).unwrap().path(), file);
}
