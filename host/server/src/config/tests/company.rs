//! Entries that don't go together are told, whatever else is wrong with them.

use super::*;

#[test]
fn workers_of_one_id_are_told_though_their_endpoints_are_wrong_too() {
    let told = mistakes(
        "workers:\n  - { worker_id: 1, endpoint: a }\n  - { worker_id: 1, endpoint: http://a:1 }\n  \
         - { worker_id: 1 }\n  - { worker_id: 2, endpoint: b, block_size: 32 }\n  \
         - { endpoint: http://b:1, block_size: 64 }\n",
    );
    let told: Vec<_> = told.lines().map(|line| line.split(" another").next().unwrap()).collect();
    let begin = |nth: usize, with: &str| {
        assert!(told[nth].starts_with(with), "{}: {told:#?}", told[nth]);
    };
    begin(0, "pointsman.yaml:2:31: workers[0].endpoint: expected http://host:port");
    begin(1, "pointsman.yaml:3:18: workers[1].worker_id:");
    begin(2, "pointsman.yaml:4:5: workers[2]: `endpoint` is missing");
    begin(3, "pointsman.yaml:4:18: workers[2].worker_id:");
    begin(4, "pointsman.yaml:5:31: workers[3].endpoint: expected http://host:port");
    begin(5, "pointsman.yaml:5:46: workers[3].block_size: a block size of 32 in partition");
    begin(6, "pointsman.yaml:6:5: workers[4]: `worker_id` is missing");
    assert_eq!(told.len(), 7, "{told:#?}");
}

#[test]
fn instances_and_tokenizers_of_one_name_are_told_though_more_is_wrong_with_them() {
    let told = mistakes(
        "worker_selection:\n  instances:\n    - { name: a, type: [] }\n    - { name: a, typ: b }\n\
         tokenizers:\n  - { model: m, source: guess }\n  - { model: m, source: guess }\n",
    );
    assert!(told.contains("another instance, in line 3, is named \"a\""), "{told}");
    assert!(told.contains("another tokenizer, in line 6, is for \"m\""), "{told}");
}
