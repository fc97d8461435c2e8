//! What the file and the environment say of prefill and decode.

use pointsman_core::disaggregation::{BypassPolicy, ConditionalDisagg, Protocol};
use pointsman_core::ids::Role;

use super::*;
use crate::config::DisaggregationMode;

const SELECTION: &str = "worker_selection: { aggregated: a, prefill: a, instances: [ \
    { name: a, type: least-loaded }, { name: b, type: random } ] }\n";

fn with(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let strings: BTreeMap<String, String> =
        variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    Config::from_bytes("f.yaml", text.as_bytes(), Path::new(""), &strings)
}

fn chosen(variables: &[(&str, &str)]) -> [String; 4] {
    let config = with(SELECTION, variables).unwrap();
    Role::ALL.map(|role| config.selection.instance_name(role).to_owned())
}

const PREFILL: &str = "POINTSMAN_ROUTER_PREFILL_POLICY";
const DECODE: &str = "POINTSMAN_ROUTER_DECODE_POLICY";
const ALL: &str = "POINTSMAN_ROUTER_WORKER_SELECTION_POLICY";

#[test]
fn a_roles_variable_comes_before_the_one_for_all_and_that_before_the_file() {
    for (variables, expected) in [
        (&[][..], ["a", "a", "default", "default"]),
        (&[(ALL, "b")], ["b", "b", "b", "b"]),
        (&[(PREFILL, "b")], ["a", "b", "default", "default"]),
        (&[(ALL, "b"), (DECODE, "a")], ["b", "b", "a", "b"]),
        (&[(ALL, " b\n"), (PREFILL, "default")], ["b", "default", "b", "b"]),
        (&[(ALL, "  "), (PREFILL, "")], ["a", "a", "default", "default"]),
        (&[(ALL, "default")], ["default", "default", "default", "default"]),
    ] {
        assert_eq!(chosen(variables), expected, "{variables:?}");
    }
    // The file needs no word on it.
    let config = with("{}", &[(ALL, "default")]).unwrap();
    assert_eq!(config.selection.instance_name(Role::Prefill), "default");
}

#[test]
fn a_variable_that_names_nobody_is_a_mistake_with_its_name() {
    let told = with(SELECTION, &[(PREFILL, "c")]).unwrap_err().to_string();
    let what = "POINTSMAN_ROUTER_PREFILL_POLICY names \"c\", and no instance is called so";
    assert!(told.contains(what) && told.contains("name one of a, b, default"), "{told}");
    assert!(with("{}", &[(ALL, "random")]).is_err(), "a type is no instance");
}

#[test]
fn conditional_disaggregation_is_as_the_file_says_unless_the_environment_does() {
    let rule = |text: &str, variables: &[(&str, &str)]| {
        with(text, variables).unwrap().settings.conditional_disagg
    };
    assert_eq!(rule("{}", &[]), ConditionalDisagg::default());
    let text = "router: { router_conditional_disagg: true, router_conditional_disagg_policy: isl_or_load, \
        router_conditional_disagg_eff_isl_threshold: 100, \
        router_conditional_disagg_eff_isl_ratio_threshold: 0.5, \
        router_conditional_disagg_prefill_busy_threshold: 0.25, \
        router_conditional_disagg_decode_busy_threshold: 2 }\n";
    let written = ConditionalDisagg {
        enabled: true,
        policy: BypassPolicy::IslOrLoad,
        isl_threshold: 100,
        isl_ratio_threshold: 0.5,
        prefill_busy_threshold: Some(0.25),
        decode_busy_threshold: Some(2.0),
    };
    assert_eq!(rule(text, &[]), written);
    let name = |rest: &str| format!("POINTSMAN_ROUTER_CONDITIONAL_DISAGG{rest}");
    let names = [
        name(""),
        name("_POLICY"),
        name("_EFF_ISL_THRESHOLD"),
        name("_EFF_ISL_RATIO_THRESHOLD"),
        name("_PREFILL_BUSY_THRESHOLD"),
        name("_DECODE_BUSY_THRESHOLD"),
    ];
    let values = ["false", "prefill_load", " 7 ", "0.1", "3", "0.9"];
    let variables: Vec<_> = names.iter().map(String::as_str).zip(values).collect();
    let said = ConditionalDisagg {
        enabled: false,
        policy: BypassPolicy::PrefillLoad,
        isl_threshold: 7,
        isl_ratio_threshold: 0.1,
        prefill_busy_threshold: Some(3.0),
        decode_busy_threshold: Some(0.9),
    };
    assert_eq!(rule(text, &variables), said);
    assert_eq!(rule("{}", &variables), said);
    for (variable, value) in names.iter().zip(["maybe", "load", "-1", "1.5", "x", "-0.5"]) {
        for text in ["{}", "router: {}\n"] {
            let told = with(text, &[(variable, value)]).unwrap_err().to_string();
            let key = "router_conditional_disagg";
            assert!(told.contains(variable.as_str()) || told.contains(key), "{variable}: {told}");
        }
    }
}

#[test]
fn what_contradicts_itself_of_prefill_and_decode_is_told() {
    let told = mistakes(
        "router:\n  router_conditional_disagg_policy: prefill_load\n\
         \x20 router_conditional_disagg_eff_isl_ratio_threshold: 1.5\n\
         proxy: { disaggregation: on }\n\
         workers:\n\
         - { worker_id: 1, endpoint: http://a:1, role: prefill, disaggregation: { protocol: sglang } }\n\
         - { worker_id: 2, endpoint: http://a:2, role: decode }\n\
         - { worker_id: 3, endpoint: http://a:3, disaggregation: {} }\n\
         - { worker_id: 4, endpoint: http://a:4, role: prefill, routing_group: b, disaggregation: { bootstrap_port: 1 } }\n\
         - { worker_id: 5, endpoint: http://a:5, role: decode, routing_group: c, disaggregation: { protocol: sglang, bootstrap_port: 1 } }\n\
         - { worker_id: 6, endpoint: http://a:6, role: decode, routing_group: d, disaggregation: { protocol: trtllm, bootstrap_port: 0, room: 1 } }\n",
    );
    for expected in [
        "router.router_conditional_disagg_policy: \"prefill_load\" goes by a threshold; set",
        "router.router_conditional_disagg_eff_isl_ratio_threshold: 1.5 is out of range; expected 0 to 1",
        "proxy.disaggregation: ",
        "workers[1]: protocol vllm where worker 1 in line 6 speaks sglang; set the same, or give",
        "workers[2].disaggregation: a worker that shares no prompt has no protocol for it; take it out",
        "workers[3].disaggregation.bootstrap_port: vllm workers meet at no port; take it out",
        "workers[4].disaggregation.bootstrap_port: workers meet at the prefill worker's port; give it",
        "workers[5].disaggregation.protocol: ",
        "workers[5].disaggregation.bootstrap_port: ",
        "workers[5].disaggregation.room: ",
    ] {
        assert!(told.contains(expected), "{expected} is missing:\n{told}");
    }
}

#[test]
fn prefill_and_decode_workers_are_as_written() {
    let config = good(
        "proxy: { disaggregation: enforce }\n\
         workers:\n\
         - { worker_id: 1, endpoint: http://a:1, role: prefill, disaggregation: { protocol: sglang, bootstrap_port: 9_000 } }\n\
         - { worker_id: 2, endpoint: http://a:2, role: decode, disaggregation: { protocol: sglang } }\n\
         - { worker_id: 3, endpoint: http://a:3, role: prefill, routing_group: b, disaggregation: {} }\n",
    );
    assert_eq!(config.proxy.disaggregation, DisaggregationMode::Enforce);
    let said: Vec<_> = config.workers.iter().map(|worker| worker.disaggregation).collect();
    assert_eq!(
        said.iter().map(|one| one.protocol).collect::<Vec<_>>(),
        [Protocol::Sglang, Protocol::Sglang, Protocol::Vllm]
    );
    assert_eq!(said.iter().map(|one| one.met_at()).collect::<Vec<_>>(), [9_000, 8_998, 8_998]);
}
