//! What becomes of parameters that aren't as a component's schema has them.

use super::*;
use crate::policies::ParametersSchema;
use crate::policies::configuration::Wish;
use crate::policies::state::Pending;

/// What is put on the shelf from now on takes `blocks`, of this kind, and nothing else.
fn says(shelf: &Shelf, kind: &str) {
    let schema = json!({
        "additionalProperties": false,
        "properties": { "blocks": { "type": kind } },
    });
    *shelf.schema.lock() = Some(Arc::new(ParametersSchema::read(&schema.to_string())));
}

fn described(kind: &str) -> Shelf {
    let shelf = Shelf::default();
    says(&shelf, kind);
    shelf.put("a", "1", Manner::Good);
    shelf
}

#[test]
fn they_keep_the_router_from_starting_each_with_its_place() {
    let text = "\
worker_selection:
  aggregated: it
  instances:
    - name: it
      type: a
      parameters:
        blocks: many
        block: 1
    - name: bare
      scorers:
        - { type: a }
        - { type: a, parameters: { blocks: [1, 2] } }
";
    let config = Config::from_yaml("pointsman.yaml", text, "".as_ref()).unwrap();
    let refused = Opened::open(&config, Arc::new(described("integer"))).unwrap_err();
    insta::assert_snapshot!(refused);
}

#[tokio::test]
async fn a_new_version_that_wants_others_is_refused_and_the_old_one_serves_on() {
    let config = config("a", json!({ "blocks": 1 }));
    let fixture = Fixture::new(described("integer"), config).await;
    says(&fixture.shelf, "string");
    fixture.shelf.put("a", "2", Manner::Good);
    let report = fixture.reload().await;
    assert!(report.is_refusal(), "{report:?}");
    let reason = fixture.error("a").unwrap();
    assert!(reason.contains("parameters at \"/blocks\": expected a text, found 1"), "{reason}");
    assert_eq!(fixture.digest().await.as_deref(), Some("1"));
    // What serves is put back: nothing is refused of what there is.
    fixture.shelf.put("a", "1", Manner::Good);
    assert!(!fixture.reload().await.is_refusal());
    assert_eq!(fixture.error("a"), None);
    assert_eq!(fixture.digest().await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_changed_file_whose_parameters_do_not_fit_is_refused() {
    let fixture = Fixture::new(described("integer"), config("a", json!({ "blocks": 1 }))).await;
    let changed = config("a", json!({ "blocks": "many" }));
    let pending = Pending { wish: Wish::from(&changed), needs_restart: vec![] };
    fixture.keeper.inner.state.lock().pending = Some(pending);
    let report = fixture.reload().await;
    assert!(report.is_refusal() && !report.configuration_changed, "{report:?}");
    let reason = fixture.keeper.status().configuration_error.unwrap();
    assert!(reason.contains("expected a whole number, found \"many\""), "{reason}");
}

#[tokio::test]
async fn a_schema_that_is_of_no_use_is_a_warning() {
    let shelf = Shelf::default();
    *shelf.schema.lock() = Some(Arc::new(ParametersSchema::read("{\"type\": \"objekt\"}")));
    shelf.put("a", "1", Manner::Good);
    let fixture = Fixture::new(shelf, config("a", json!({ "blocks": 1 }))).await;
    assert_eq!(fixture.digest().await.as_deref(), Some("1"));
    let warning = fixture.keeper.status().instances[0].warning.clone().unwrap();
    assert!(
        warning.starts_with(
            "instance \"it\": its parameters are not checked before policy type \"a\" is given \
             them: its schema is no JSON Schema: "
        ),
        "{warning}"
    );
}
