#![expect(clippy::unwrap_used, reason = "a test's panic is its message")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use tempfile::TempDir;

use super::*;

/// Checks a text in a folder of its own; what is told has the folder's name taken out.
fn checked(text: &str, prepare: impl FnOnce(&Path)) -> (Report, String) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pointsman.yaml");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    prepare(folder.path());
    let report = check(&file);
    let told = report.to_string().replace(&format!("{}/", folder.path().display()), "");
    (report, told)
}

#[test]
fn a_good_file_is_summed_up() {
    let (report, told) = checked(
        "
worker_selection:
  aggregated: balanced
  decode: stages
  instances:
    - { name: balanced, type: least-loaded }
    - name: stages
      scorers: [ { type: default, weight: 2 } ]
      picker: { type: default }
workers:
  - { worker_id: 1, endpoint: http://127.0.0.1:8000, model: m }
  - { worker_id: 2, endpoint: http://127.0.0.1:8001, model: m, data_parallel_size: 4 }
  - { worker_id: 3, endpoint: http://127.0.0.1:8002, model: m, role: prefill, block_size: 32 }
  - { worker_id: 4, endpoint: http://127.0.0.1:8003, model: m, role: decode }
",
        |_| {},
    );
    assert!(report.is_good());
    assert_snapshot!(told);
}

#[test]
fn a_bad_file_is_told_mistake_by_mistake() {
    let (report, told) = checked("listn: x\nproxy: { retries: many }\n", |_| {});
    assert!(!report.is_good());
    assert_eq!(report.problems.len(), 2);
    assert_snapshot!(told);
}

#[test]
fn a_file_that_is_not_there_is_a_problem() {
    let report = check(Path::new("/nowhere/pointsman.yaml"));
    assert!(!report.is_good());
    assert!(report.to_string().contains("can't read /nowhere/pointsman.yaml"));
}

#[test]
fn all_that_policies_refuse_is_told_with_its_place() {
    let (report, told) = checked(
        "
worker_selection:
  aggregated: unknown
  decode: refused
  prefill: lacking
  instances:
    - { name: unknown, type: leest-loaded }
    - name: stages
      filters: [ { type: nothing-like-it } ]
      scorers: [ { type: defualt } ]
    - name: refused
      type: default
      parameters: { router_temperature: -1 }
    - name: lacking
      picker: { type: round-robin, stage: other }
    - name: strange
      type: random
      parameters: { seed: 1 }
workers:
  - { worker_id: 1, endpoint: http://127.0.0.1:8000, model: m }
",
        |_| {},
    );
    assert!(!report.is_good());
    assert_snapshot!(told);
}

#[test]
fn what_is_likely_not_meant_is_a_warning() {
    let (report, told) = checked(
        "
listen: { address: 0.0.0.0:8080, tokens: [secret] }
policies_dir: policies
worker_selection:
  instances:
    - { name: idle, type: random, limits: {} }
workers:
  - { worker_id: 1, endpoint: http://127.0.0.1:8000 }
  - { worker_id: 2, endpoint: http://127.0.0.1:8000 }
",
        |folder| {
            let policies = folder.join("policies");
            fs::create_dir(&policies).unwrap();
            fs::set_permissions(&policies, fs::Permissions::from_mode(0o777)).unwrap();
            let file = folder.join("pointsman.yaml");
            fs::set_permissions(file, fs::Permissions::from_mode(0o620)).unwrap();
        },
    );
    assert!(report.is_good(), "{told}");
    assert!(!told.contains("secret"), "{told}");
    assert_snapshot!(told);
}

#[test]
fn a_folder_that_is_not_there_is_a_problem() {
    let (report, told) = checked("policies_dir: policies\n", |_| {});
    assert!(!report.is_good(), "{told}");
    assert!(told.contains("policies"), "{told}");
}

#[test]
fn a_broken_component_is_a_problem_if_an_instance_uses_it_and_else_a_warning() {
    let broken = |folder: &Path| {
        fs::create_dir(folder.join("policies")).unwrap();
        fs::write(folder.join("policies/broken.wasm"), "no component").unwrap();
    };
    let (report, told) = checked("policies_dir: policies\n", broken);
    assert!(report.is_good(), "{told}");
    assert!(report.warnings.iter().any(|warning| warning.contains("broken")), "{told}");
    let used = "
policies_dir: policies
worker_selection:
  instances: [ { name: a, type: broken } ]
";
    let (report, told) = checked(used, broken);
    let [problem] = report.problems.as_slice() else { panic!("{told}") };
    assert!(problem.contains("broken"), "{told}");
    assert_eq!(report.types[0].used_by, ["a"]);
}

#[test]
fn certificates_are_read() {
    let (report, told) = checked(
        "listen: { address: 127.0.0.1:0, tls: { certificates: chain.pem, key: key.pem } }\n",
        |folder| fs::write(folder.join("chain.pem"), "no certificate\n").unwrap(),
    );
    assert!(!report.is_good(), "{told}");
    assert!(told.contains("chain.pem"), "{told}");
}

#[test]
fn the_outcome_is_one_json_document() {
    let (report, _) = checked("{}", |_| {});
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["problems"], serde_json::json!([]));
    assert!(json["warnings"][0].as_str().unwrap().contains("no workers"));
}
