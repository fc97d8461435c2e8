//! Versions side by side, shown with one that was never released.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

#[expect(dead_code, reason = "the other test binaries use the rest of it")]
#[path = "../../../../../tests/guests/compose.rs"]
mod guests;
mod v0_0_9;

use std::path::Path;

use pointsman_core::clock::Moment;
use pointsman_core::ids::{DecisionId, DpRank, WorkerId, WorkerRank};
use pointsman_core::policy::candidates::Matrix;
use pointsman_core::policy::{
    Candidates, Input, PolicyInstance, PolicyProvider, RequestView, RowMask,
};
use pointsman_core::request::{InputTrigger, RouteRequest};
use pointsman_core::testing::environment;

use super::*;
use crate::component::ComponentPolicy;
use crate::engine::{EngineConfig, PolicyEngine};
use crate::error::LoadError;

/// A host that takes one version more.
static BOTH: [Contract; 2] = [
    Contract { version: Version::new(0, 0, 9), find: v0_0_9::find },
    Contract { version: Version::new(0, 1, 0), find: v0_1::find },
];

fn load(taken: &'static [Contract], name: &str) -> Result<ComponentPolicy, LoadError> {
    let engine =
        PolicyEngine::new(EngineConfig { pooled_instances: 0, ..EngineConfig::default() }).unwrap();
    let path = format!("{name}.wasm");
    let bytes = guests::guest(name);
    ComponentPolicy::load_checked(taken, &engine, name, Path::new(&path), &bytes)
}

/// What three rows with 2, 1 and 0 active requests come to, at 1,000 ms: kept rows, costs, pick.
fn decide(policy: &ComponentPolicy) -> (Vec<usize>, Vec<f64>, usize) {
    let environment = environment();
    let mut instance: Box<dyn PolicyInstance> = policy.instantiate(&environment).unwrap();
    let ids = [1, 2, 3].map(|id| WorkerRank { worker_id: WorkerId(id), dp_rank: DpRank(0) });
    let mut matrix = Matrix::new(&[Input::ActiveRequests]);
    matrix.fill(3, |_, column| column.copy_from_slice(&[2.0, 1.0, 0.0]));
    let declared = [Input::ActiveRequests].into_iter().collect();
    let rows = Candidates::new(&ids, &matrix, declared, &[]);
    let mut request = RouteRequest::new("r", environment.partition.clone(), 41);
    request.trigger = Some(InputTrigger::ToolResult);
    let moment = Moment { now_ms: 1000, seed: 9 };
    let view = RequestView::new(&request, DecisionId(1), moment, 16, true, None);

    let mut mask = RowMask::default();
    mask.keep_all(3);
    instance.keep(0, &view, &rows, &mut mask).unwrap();
    let mut costs = vec![0.0; 3];
    instance.score(0, &view, &rows, &mut costs).unwrap();
    let picked = instance.pick(&view, &rows, &[1e300, 1.0, -1e300]).unwrap();
    (mask.iter().collect(), costs, picked)
}

#[test]
fn guests_of_two_contracts_decide_side_by_side() {
    let (old, new) = (load(&BOTH, "older-contract").unwrap(), load(&BOTH, "template").unwrap());
    assert_eq!(old.built_for().to_string(), "0.0.9");
    assert_eq!(new.built_for().to_string(), "0.1.0");
    assert_eq!(decide(&old), (vec![0, 2], vec![1002.0, 1001.0, 1000.0], 2));
    assert_eq!(decide(&new), (vec![0, 1, 2], vec![2.0, 1.0, 0.0], 2));
    old.probe(&environment()).unwrap();
    assert_eq!(load(&BOTH, "later-version").unwrap().built_for().to_string(), "0.1.7");
}

#[test]
fn a_guest_that_no_adapter_speaks_with_gets_a_sentence() {
    let refused = |taken, name| load(taken, name).unwrap_err().to_string();
    assert_eq!(
        refused(&TAKEN, "older-contract"),
        "older-contract.wasm: built for pointsman:policy 0.0.9; this host takes 0.1.x; \
         rebuild it with a current SDK"
    );
    assert_eq!(
        refused(&BOTH, "wrong-version"),
        "wrong-version.wasm: built for pointsman:policy 0.2.0; this host takes 0.0.9, 0.1.x; \
         rebuild it with this host's SDK, or take a newer host"
    );
}

#[test]
fn a_version_is_matched_as_the_linker_matches_names() {
    let taken = [(0, 0, 9), (0, 1, 0), (0, 3, 2), (2, 0, 0)].map(|(major, minor, patch)| {
        Contract { version: Version::new(major, minor, patch), find: v0_1::find }
    });
    let check = |version: &str, wanted: &str| {
        let got = match of(&taken, &format!("pointsman:policy/log{version}")) {
            Ok((contract, _)) => contract.shown(),
            Err(misfit) => misfit.to_string(),
        };
        assert!(got.starts_with(wanted), "{version}: {got:?} should begin with {wanted:?}");
    };
    for (version, wanted) in [
        ("@0.0.9", "0.0.9"),
        ("@0.1.0", "0.1.x"),
        ("@0.1.44", "0.1.x"),
        ("@0.1.0+built", "0.1.x"),
        ("@0.3.0", "0.3.x"),
        ("@2.7.1", "2.x"),
    ] {
        check(version, wanted);
    }
    let takes = "this host takes 0.0.9, 0.1.x, 0.3.x, 2.x; ";
    for (version, found) in [("@0.0.8", "0.0.8"), ("@0.0.10", "0.0.10"), ("@0.2.0", "0.2.0")] {
        let advice = "rebuild it with a current SDK";
        check(version, &format!("built for pointsman:policy {found}; {takes}{advice}"));
    }
    check("@1.0.0", "built for pointsman:policy 1.0.0; ");
    check("@0.1.0-rc.1", "built for pointsman:policy 0.1.0-rc.1; ");
    let advice = "rebuild it with this host's SDK, or take a newer host";
    check("@3.0.0", &format!("built for pointsman:policy 3.0.0; {takes}{advice}"));
    check("", "names \"pointsman:policy/log\", which is of no version; ");
    check("@0.1", "names \"pointsman:policy/log@0.1\", which is of no version; ");
}

#[test]
fn a_component_is_built_for_one_contract() {
    let check = |names: &[&str], wanted: &str| {
        let names = names.iter().map(|name| format!("pointsman:policy/{name}"));
        let names: Vec<String> = names.collect();
        let got = match of_all(&BOTH, names.iter().map(String::as_str)) {
            Ok(Some((contract, version))) => format!("{} by {}", version, contract.shown()),
            Ok(None) => "none".to_owned(),
            Err(misfit) => misfit.to_string(),
        };
        assert_eq!(got, wanted);
    };
    check(&[], "none");
    check(&["worker-selection@0.1.0", "about@0.1.2", "fused@0.1.1"], "0.1.2 by 0.1.x");
    check(
        &["worker-selection@0.1.0", "about@0.0.9"],
        "exports interfaces of pointsman:policy 0.1.0 and of 0.0.9; build it for one of them",
    );
}
