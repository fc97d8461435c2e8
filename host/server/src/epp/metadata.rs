//! What a gateway says beside a request, and what it is told: dynamic metadata.
//!
//! Names and shapes are those of the Gateway API's inference extension.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::Metadata;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use super::head::DESTINATION;

/// The load balancer's own.
const BALANCER: &str = "envoy.lb";

/// Who may be picked.
const SUBSET: (&str, &str) = ("envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset");

/// Who answered.
const SERVED: (&str, &str) = (BALANCER, "x-gateway-destination-endpoint-served");

/// The property of an answer that tells where it is from.
const DETAILS: &str = "response.code_details";

/// Endpoints that a pick has to be among; none if nothing is said. A hint that names none leaves nobody.
pub(super) fn subset(metadata: Option<&Metadata>) -> Option<Vec<String>> {
    let hint = metadata?.filter_metadata.get(SUBSET.0)?.fields.get(SUBSET.1)?;
    let mut named = Vec::new();
    for text in texts(hint) {
        named.extend(
            text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned),
        );
    }
    Some(named)
}

/// The endpoint that answered, of several tries the last; none if the gateway doesn't say.
pub(super) fn served(metadata: Option<&Metadata>) -> Option<&str> {
    let served = metadata?.filter_metadata.get(SERVED.0)?.fields.get(SERVED.1)?;
    let last = texts(served).pop()?;
    last.rsplit(',').next().map(str::trim).filter(|served| !served.is_empty())
}

fn texts(value: &Value) -> Vec<&str> {
    match &value.kind {
        Some(Kind::StringValue(text)) => vec![text],
        Some(Kind::ListValue(list)) => list.values.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Tells where the request goes.
pub(super) fn destination(endpoint: &str) -> Struct {
    let text = Value { kind: Some(Kind::StringValue(endpoint.to_owned())) };
    let inner = Struct { fields: HashMap::from([(DESTINATION.to_owned(), text)]) };
    let value = Value { kind: Some(Kind::StructValue(inner)) };
    Struct { fields: HashMap::from([(BALANCER.to_owned(), value)]) }
}

/// Where an answer is from, in the gateway's words; none if it doesn't say.
pub(super) fn details(attributes: &HashMap<String, Struct>) -> Option<&str> {
    attributes.values().find_map(|one| match &one.fields.get(DETAILS)?.kind {
        Some(Kind::StringValue(text)) => Some(&**text),
        _ => None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use envoy_types::pb::google::protobuf::ListValue;

    use super::*;

    pub(in crate::epp) fn text(text: &str) -> Value {
        Value { kind: Some(Kind::StringValue(text.to_owned())) }
    }

    pub(in crate::epp) fn metadata(namespace: &str, key: &str, value: Value) -> Metadata {
        let fields = HashMap::from([(key.to_owned(), value)]);
        let filter_metadata = HashMap::from([(namespace.to_owned(), Struct { fields })]);
        Metadata { filter_metadata, ..Metadata::default() }
    }

    #[test]
    fn a_hint_is_a_text_with_commas_or_a_list_and_says_something_even_when_it_names_nobody() {
        let hint = |value| subset(Some(&metadata(SUBSET.0, SUBSET.1, value)));
        let list = |items: &[&str]| Value {
            kind: Some(Kind::ListValue(ListValue {
                values: items.iter().map(|it| text(it)).collect(),
            })),
        };
        let both = Some(vec!["10.0.0.1:8000".to_owned(), "10.0.0.2".to_owned()]);
        assert_eq!(hint(text("10.0.0.1:8000, 10.0.0.2")), both);
        assert_eq!(hint(list(&["10.0.0.1:8000", "10.0.0.2"])), both);
        let nobody = Some(Vec::new());
        assert_eq!(hint(text(" , ")), nobody);
        assert_eq!(hint(list(&[])), nobody);
        assert_eq!(hint(Value { kind: Some(Kind::NumberValue(1.0)) }), nobody);
        assert_eq!(subset(Some(&Metadata::default())), None);
        assert_eq!(subset(Some(&metadata(BALANCER, SUBSET.1, text("10.0.0.1")))), None);
        assert_eq!(subset(None), None);
    }

    #[test]
    fn of_several_tries_the_last_endpoint_answered() {
        let of =
            |value| served(Some(&metadata(SERVED.0, SERVED.1, text(value)))).map(str::to_owned);
        assert_eq!(of("a:1").as_deref(), Some("a:1"));
        assert_eq!(of("a:1, b:2").as_deref(), Some("b:2"));
        assert_eq!(of(""), None);
    }
}
