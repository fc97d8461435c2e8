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
fn a_place_where_decisions_can_not_be_written_is_a_problem() {
    for (file, what) in [
        ("nowhere/d.jsonl", "there is no folder"),
        ("a-folder", "is no regular file"),
        ("d.jsonl", ""),
    ] {
        let text = format!("recording: {{ percent: 100, file: {file} }}\n");
        let (report, told) =
            checked(&text, |folder| fs::create_dir(folder.join("a-folder")).unwrap());
        assert_eq!(report.is_good(), what.is_empty(), "{told}");
        assert!(told.contains(what), "{told}");
        if !what.is_empty() {
            assert!(told.contains("pointsman.yaml:1:34: recording.file: "), "{told}");
        }
    }
}

/// In the order of the file, whichever check has found them.
#[test]
fn no_mistake_hides_another_and_all_are_told_in_the_order_of_the_file() {
    let text = "
tokenizers:
  - { model: a, tokenizer: nowhere }
  - { model: b, tokenizer: bad.json }
recording: { percent: 1, file: nowhere/d.jsonl }
policies_dir: nowhere
worker_selection:
  aggregated: cold
  instances:
    - { name: cold, type: default, parameters: { router_temperature: -1 } }
    - { name: mine, type: of-the-folder }
proxy: { retries: \"1\" }
workers:
  - { worker_id: 1, endpoint: http://127.0.0.1:8000, model: a }
  - { worker_id: 1, endpoint: ftp://127.0.0.1:8001, model: a }
listen: { address: 127.0.0.1:0, tls: { certificates: chain.pem, key: key.pem } }
";
    let (report, told) =
        checked(text, |folder| fs::write(folder.join("bad.json"), "no tokenizer").unwrap());
    let heads = report.problems.iter().map(|problem| {
        let (_, place) = problem.split_once("pointsman.yaml:").unwrap();
        let mut parts = place.splitn(3, ": ");
        (parts.next().unwrap().split(':').next().unwrap(), parts.next().unwrap())
    });
    assert_eq!(
        heads.collect::<Vec<_>>(),
        [
            ("3", "tokenizers[0].tokenizer"),
            ("4", "tokenizers[1]"),
            ("5", "recording.file"),
            ("6", "policies_dir"),
            ("10", "worker_selection.instances[0].parameters.router_temperature"),
            ("12", "proxy.retries"),
            ("15", "workers[1].worker_id"),
            ("15", "workers[1].endpoint"),
            ("16", "listen.tls.certificates"),
        ],
        "{told}"
    );
    // What is in a folder that can't be read is nobody's mistake.
    assert!(!told.contains("of-the-folder"), "{told}");
}

#[test]
fn a_broken_component_is_told_beside_a_mistake_of_the_file() {
    let text = "
policies_dir: policies
worker_selection:
  instances:
    - { name: a, type: broken }
    - { name: b, type: default, parameters: { router_temperature: -1 } }
    - { name: c, type: nobody }
";
    let (report, told) = checked(text, |folder| {
        fs::create_dir(folder.join("policies")).unwrap();
        fs::write(folder.join("policies/broken.wasm"), "no component").unwrap();
    });
    let [component, parameter, unknown] = report.problems.as_slice() else { panic!("{told}") };
    assert!(component.contains(":5:24: worker_selection.instances[0].type: "), "{told}");
    assert!(parameter.contains(".parameters.router_temperature: "), "{told}");
    assert!(unknown.contains("unknown policy type \"nobody\""), "{told}");
}

#[test]
fn what_only_watches_or_tries_is_shown_as_such() {
    let (report, told) = checked(
        "
worker_selection:
  aggregated: now
  decode: both
  instances:
    - { name: now, type: least-loaded, shadow: [next, default], canary: { instance: next, percent: 1 } }
    - { name: next, type: default }
    - { name: watcher, type: random }
    - { name: both, type: random, shadow: [watcher, now] }
    - { name: idle, type: random }
",
        |_| {},
    );
    assert!(report.is_good(), "{told}");
    let purposes = [
        ["now", "for aggregated; shadow of both"],
        ["next", "shadow of now; canary of now"],
        ["watcher", "shadow of both"],
        ["both", "for decode"],
        ["idle", "for no role"],
    ];
    for [name, purpose] in purposes {
        let line = told.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
        assert!(line.is_some_and(|line| line.ends_with(&format!("  {purpose}"))), "{told}");
    }
    assert_eq!(report.instances[1].shadow_of, ["now"]);
}

#[test]
fn a_component_that_is_not_signed_is_shown_with_its_digest_and_one_too_large_as_not_read() {
    let text = "
policies_dir: policies
wasm: { max_component_size: 1KiB, trust: { keys: [RWS/r6KCYgyUzXRHCSY/5bM++j9EPuJXpnYGksZW5SPPspqil8tcubZ6] } }
";
    let (_, told) = checked(text, |folder| {
        fs::create_dir(folder.join("policies")).unwrap();
        fs::write(folder.join("policies/unsigned.wasm"), "a component?").unwrap();
        fs::write(folder.join("policies/large.wasm"), [0; 2_000]).unwrap();
    });
    let line = |name: &str| {
        let mut lines = told.lines().filter(|line| line.starts_with(&format!("  {name}  ")));
        lines.next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("large"), "large not read not used", "{told}");
    assert!(line("unsigned").starts_with("unsigned sha256 "), "{told}");
    assert!(told.contains("is not signed"), "{told}");
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
    let [problem] = report.problems.as_slice() else { panic!("{told}") };
    assert!(problem.contains("/pointsman.yaml:1:15: policies_dir: "), "{told}");
    assert!(
        problem.contains("make it, or build a policy into it: `pointsman policy build"),
        "{told}"
    );
    let (report, told) = checked("policies_dir: pointsman.yaml\n", |_| {});
    let [problem] = report.problems.as_slice() else { panic!("{told}") };
    assert!(problem.contains("/pointsman.yaml:1:15: policies_dir: "), "{told}");
}

#[test]
fn of_a_type_that_an_instance_uses_twice_the_use_that_fails_is_named() {
    let text = "
worker_selection:
  aggregated: stages
  instances:
    - name: stages
      scorers:
        - { type: default, parameters: { overlap_score_credit: 1 } }
        - { type: default, parameters: { overlap_score_credit: -1 } }
    - name: others
      scorers: [ { type: default } ]
      picker: { type: default, stage: nothing }
";
    let (report, told) = checked(text, |_| {});
    let [first, second] = report.problems.as_slice() else { panic!("{told}") };
    assert!(
        first.contains(
            ":8:64: worker_selection.instances[0].scorers[1].parameters.overlap_score_credit: "
        ),
        "{told}"
    );
    assert!(second.contains(":11:39: worker_selection.instances[1].picker.stage: "), "{told}");
}

#[test]
fn an_empty_list_of_workers_is_good_and_a_warning() {
    let (report, told) = checked("workers: []\n", |_| {});
    assert!(report.is_good(), "{told}");
    let [warning] = report.warnings.as_slice() else { panic!("{told}") };
    assert!(warning.contains("/pointsman.yaml:1:10: workers: the list is empty"), "{told}");
    assert!(warning.contains("lets all workers of the file go"), "{told}");
}

#[test]
fn problems_and_warnings_are_told_fifty_at_most_and_the_others_counted() {
    let keys: String = (0..1_000).map(|i| format!("key{i}: 1\n")).collect();
    let (report, told) = checked(&keys, |_| {});
    assert_eq!((report.problems.len(), report.more_problems), (50, 950));
    assert!(told.contains("\nand 950 more problems\n"), "{told}");
    assert!(told.ends_with("pointsman.yaml: 1000 problems\n"), "{told}");
    assert!(told.len() < 20_000, "{} bytes", told.len());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["problems"].as_array().unwrap().len(), 50);
    assert_eq!(json["more_problems"], 950);

    let instances = |of: &str| {
        let all = (0..200).map(|i| format!("    - {{ name: a{i}, type: {of} }}\n"));
        format!("worker_selection:\n  instances:\n{}", all.collect::<String>())
    };
    let (report, told) = checked(&instances("random"), |_| {});
    assert!(report.is_good(), "{told}");
    assert_eq!((report.warnings.len(), report.more_warnings), (50, 151));
    assert!(told.contains("\nand 151 more warnings\n"), "{told}");
    let (report, told) = checked(&instances("nothing"), |_| {});
    assert_eq!((report.problems.len(), report.more_problems), (50, 150));
    assert!(told.ends_with("pointsman.yaml: 200 problems\n"), "{told}");
}

#[test]
fn a_broken_component_is_a_problem_if_an_instance_uses_it_and_else_a_warning() {
    let broken = |folder: &Path| {
        fs::create_dir(folder.join("policies")).unwrap();
        fs::write(folder.join("policies/broken.wasm"), "no component").unwrap();
    };
    let (report, told) = checked("policies_dir: policies\n", broken);
    assert!(report.is_good(), "{told}");
    let place = "pointsman.yaml:1:15: policies_dir: policy type \"broken\": ";
    assert!(report.warnings.iter().any(|warning| warning.contains(place)), "{told}");
    let used = "
policies_dir: policies
worker_selection:
  instances: [ { name: a, type: broken } ]
";
    let (report, told) = checked(used, broken);
    let [problem] = report.problems.as_slice() else { panic!("{told}") };
    let place = "pointsman.yaml:4:33: worker_selection.instances[0].type: policy type \"broken\": ";
    assert!(problem.contains(place), "{told}");
    assert_eq!(report.types[0].used_by, ["a"]);
}

#[test]
fn a_component_of_another_contract_is_told_with_both_versions() {
    let newer = |folder: &Path| {
        let selection = "pointsman:policy/worker-selection@0.2.0";
        let text = format!("(component (instance $i) (export \"{selection}\" (instance $i)))");
        fs::create_dir(folder.join("policies")).unwrap();
        fs::write(folder.join("policies/newer.wasm"), wat::parse_str(text).unwrap()).unwrap();
    };
    let used = "
policies_dir: policies
worker_selection:
  instances: [ { name: a, type: newer } ]
";
    let (report, told) = checked(used, newer);
    let [problem] = report.problems.as_slice() else { panic!("{told}") };
    let sentence = "newer.wasm: built for pointsman:policy 0.2.0; this host takes 0.1.x; \
                    rebuild it with this host's SDK, or take a newer host";
    assert!(problem.contains(sentence), "{told}");
}

#[test]
fn certificates_are_read() {
    let (report, told) = checked(
        "listen: { address: 127.0.0.1:0, tls: { certificates: chain.pem, key: key.pem } }\n",
        |folder| fs::write(folder.join("chain.pem"), "no certificate\n").unwrap(),
    );
    assert!(!report.is_good(), "{told}");
    let place = "pointsman.yaml:1:54: listen.tls.certificates: no use for chain.pem: ";
    assert!(told.contains(place), "{told}");
}

#[test]
fn the_outcome_is_one_json_document() {
    let (report, _) = checked("{}", |_| {});
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["problems"], serde_json::json!([]));
    assert!(json["warnings"][0].as_str().unwrap().contains("no workers"));
}

/// Each is looked at once, not once for every other.
#[test]
fn thousands_of_workers_are_no_obstacle() {
    let workers = (0..10_000).map(|i| {
        format!("- {{ worker_id: {i}, endpoint: \"http://h{i}:1\", model: m{}, data_parallel_size: 2 }}\n", i % 3)
    });
    let (report, _) = checked(&format!("workers:\n{}", workers.collect::<String>()), |_| {});
    assert!(report.is_good());
    let counts: Vec<_> = report.partitions.iter().map(|line| (line.workers, line.rows)).collect();
    assert_eq!(counts, [(3_334, 6_668), (3_333, 6_666), (3_333, 6_666)]);
}

#[test]
fn workers_that_names_list_are_workers() {
    let text =
        "discovery: { dns: [{ name: engines.test., port: 8000, servers: [\"127.0.0.1:53\"] }] }\n";
    let (report, told) = checked(text, |_| {});
    assert!(report.is_good() && report.warnings.is_empty(), "{told}");
    let (_, told) = checked("listen: 127.0.0.1:0\n", |_| {});
    assert!(told.contains("no workers in the file"), "{told}");
}
