//! What is booked of requests, as it is written.

use pointsman_core::policy::settings::PrefillLoadModel;

use super::*;

fn model(text: &str) -> Option<PrefillLoadModel> {
    let text = format!("router: {{ router_prefill_load_model: {text} }}");
    good(&text).settings.router_prefill_load_model
}

#[test]
fn a_prefill_load_model_is_a_word_or_its_numbers() {
    let usual = PrefillLoadModel::default();
    assert_eq!(model("none"), None);
    assert_eq!(model("polynomial"), Some(usual));
    assert_eq!(model("{ ms_per_token: 2 }"), Some(PrefillLoadModel { ms_per_token: 2.0, ..usual }));
    let own = PrefillLoadModel { constant_ms: 0.0, ms_per_token: 0.5, ms_per_token_squared: 1e-6 };
    let text = "{ constant_ms: 0, ms_per_token: 0.5, ms_per_token_squared: 1e-6 }";
    assert_eq!(model(text), Some(own));
}

#[test]
fn what_is_booked_is_switched_by_its_key() {
    let text = "router: { router_track_output_blocks: true, router_assume_kv_reuse: false }";
    let settings = good(text).settings;
    assert!(settings.router_track_output_blocks && !settings.router_assume_kv_reuse);
}

#[test]
fn what_would_book_nothing_or_make_no_sense_is_refused_in_its_place() {
    let told = mistakes(
        "router:\n  \
         router_track_active_blocks: false\n  \
         router_track_output_blocks: true\n  \
         router_track_prefill_tokens: false\n  \
         router_prefill_load_model: polynomial\n",
    );
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].contains(":3:") && lines[0].contains("router_track_output_blocks"), "{told}");
    assert!(lines[1].contains(":5:") && lines[1].contains("router_prefill_load_model"), "{told}");
    assert_eq!(lines.len(), 2, "{told}");
    for (model, expected) in [
        ("linear", "none or polynomial"),
        ("[1, 2]", "none or polynomial"),
        ("{ constant_ms: -1 }", "its constant_ms, -1, is out of range"),
        ("{ per_token_ms: 1 }", "unknown key"),
        ("{ constant_ms: 0, ms_per_token: 0, ms_per_token_squared: 0 }", "no time at all"),
    ] {
        let told = mistakes(&format!("router: {{ router_prefill_load_model: {model} }}"));
        assert!(told.contains(expected), "{told}");
    }
}
