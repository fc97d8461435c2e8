//! Mistakes that show later still have their place.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use pointsman_core::classifier::SeatError;
use pointsman_core::ids::{PartitionKey, Role};
use pointsman_core::policy::selection::BuildContext;
use pointsman_core::policy::{Catalog, InstantiateError};

use super::*;

const TEXT: &str = "
worker_selection:
  aggregated: whole
  prefill: stages
  decode: refused
  instances:
    - name: whole
      type: leest-loaded
    - name: stages
      scorers:
        - type: default
          stage: nothing
    - name: refused
      type: default
      parameters:
        router_temperature: -1
";

#[test]
fn a_type_that_nobody_has_is_named_with_its_place_and_those_that_there_are() {
    let config = good(TEXT);
    let unknown = config.places.unknown_types(&Catalog::builtin().names().collect());
    assert_snapshot!(ConfigErrors::Invalid { mistakes: unknown, more: 0 });
}

#[test]
fn a_policy_that_can_not_be_made_is_explained_at_the_value_that_it_is_about() {
    let config = good(TEXT);
    let catalog = Catalog::builtin();
    let errors = [Role::Aggregated, Role::Prefill, Role::Decode].map(|role| {
        let partition = PartitionKey { model: "m".into(), routing_group: "default".into(), role };
        let cx = BuildContext {
            catalog: &catalog,
            partition: &partition,
            block_size: 16,
            settings: &config.settings,
            seed: 0,
            trial: false,
        };
        config.places.explain(&config.selection.build(&cx).unwrap_err())
    });
    assert_snapshot!(errors.join("\n"));
}

#[test]
fn instances_roles_and_workers_are_found_by_name() {
    let config = good(include_str!("../../../samples/full.yaml"));
    let line = |at: &crate::config::At| at.place.line as usize;
    let text: Vec<&str> = include_str!("../../../samples/full.yaml").lines().collect();
    let places = &config.places;
    assert!(text[line(&places.instances["blended"]) - 1].contains("name: blended"));
    assert!(text[line(&places.roles[&Role::Prefill]) - 1].contains("prefill: default"));
    assert!(text[line(places.workers.values().next().unwrap()) - 1].contains("worker_id: 1"));
    assert_eq!(places.types().len(), 5);
}

#[test]
fn a_parameter_is_found_by_its_pointer_or_else_what_would_hold_it() {
    let long = vec!["1"; 10_000].join(", ");
    let text = format!(
        "
worker_selection:
  instances:
    - name: it
      type: a
      parameters:
        plain: 1
        \"a/b~c\": [x, {{ deep: true }}]
        long: [{long}]
    - {{ name: bare, type: a }}
"
    );
    let config = good(&text);
    let at = |instance, pointer| {
        let at = config.places.parameter(instance, 0, pointer).unwrap();
        format!("{}:{} {}", at.place.line, at.place.column, at.path)
    };
    let path = "worker_selection.instances[0].parameters";
    assert_eq!(at("it", ""), format!("7:9 {path}"));
    assert_eq!(at("it", "/plain"), format!("7:16 {path}.plain"));
    assert_eq!(at("it", "/a~1b~0c/1/deep"), format!("8:30 {path}.\"a/b~c\"[1].deep"));
    assert_eq!(at("it", "/plain/none"), format!("7:16 {path}.plain"));
    assert_eq!(at("it", "/none"), format!("7:9 {path}"));
    // Of very many values not every place is kept.
    assert_eq!(at("it", "/long/5"), format!("9:31 {path}.long[5]"));
    assert_eq!(at("it", "/long/5000"), format!("9:15 {path}.long"));
    assert_eq!(at("bare", "/any"), "10:27 worker_selection.instances[1].type");
    assert!(config.places.parameter("nobody", 0, "").is_none());
}

#[test]
fn a_classifier_that_nobody_has_is_told_with_what_to_do() {
    let told = |folder: &str, classifier_type: &str, known: &[&str]| {
        let config = good(&format!("{folder}request_classifier: {{ type: {classifier_type} }}\n"));
        let known: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
        let mistake = config.places.unknown_classifier(&BTreeSet::new(), &known).unwrap();
        assert_eq!(mistake.at.path, "request_classifier.type");
        mistake.problem.to_string()
    };
    assert_eq!(
        told("", "nobody", &[]),
        "unknown type of request classifiers \"nobody\": none is built in, and no policies_dir is set; \
         set it to the folder that has nobody.wasm"
    );
    let folder = "policies_dir: policies\n";
    assert_eq!(
        told(folder, "none-at-all", &[]),
        "unknown type of request classifiers \"none-at-all\"; known: none; \
         put none-at-all.wasm into the folder that policies_dir names"
    );
    assert!(told(folder, "gatr", &["gate"]).ends_with("known: gate; did you mean \"gate\"?"));
    assert!(!told(folder, "nine", &[]).contains("did you mean"));
}

#[test]
fn each_thing_that_a_classifier_refuses_is_told_at_its_own_line() {
    let config =
        good("request_classifier:\n  type: gate\n  parameters:\n    most: 0\n    idle: 1\n");
    let refused = InstantiateError::Refused {
        policy_type: "gate".to_owned(),
        reason:
            r#""parameter \"most\" is 0"; "unknown parameter \"idle\""; "missing parameter \"x\"""#
                .to_owned(),
    };
    let remarks = config.places.remarks(&SeatError::Instantiate(refused).into());
    let places = remarks.iter().map(|remark| {
        let at = remark.at.as_ref().unwrap();
        (at.place.line, at.path.as_str())
    });
    let path = "request_classifier.parameters";
    assert_eq!(
        places.collect::<Vec<_>>(),
        [(4, &*format!("{path}.most")), (5, &*format!("{path}.idle")), (4, path)]
    );
    let begin = "request_classifier: type \"gate\" refuses to be configured: ";
    assert!(remarks.iter().all(|remark| remark.text.starts_with(begin)), "{remarks:?}");
}
