//! The names of what is counted, and the words that stand for what has none.
//!
//! One word per idea, as in the rest of the router. Labels have bounded values: a model is named
//! only while it has a partition, which ends some minutes after its last worker left.

/// Requests answered, by model, route and status. Status 499 stands for a client that went away
/// before there was one.
pub const REQUESTS: &str = "pointsman_requests_total";
/// From a request's head to the end of its answer.
pub const REQUEST_SECONDS: &str = "pointsman_request_seconds";
/// From a request's head to the answer's first token, or first byte if it doesn't stream.
pub const FIRST_TOKEN_SECONDS: &str = "pointsman_time_to_first_token_seconds";
/// Requests whose answer has not ended.
pub const REQUESTS_IN_FLIGHT: &str = "pointsman_requests_in_flight";
/// Memory that request bodies take, from their first byte until they are sent.
pub const BODY_BYTES: &str = "pointsman_request_body_bytes";
/// Decisions by the policy that made them, and whether that was the configured one.
pub const DECISIONS: &str = "pointsman_decisions_total";
/// Requests that got no worker, by why.
pub const UNDECIDED: &str = "pointsman_undecided_total";
/// How long a decision took, all host work included, waiting for its turn not.
pub const DECISION_SECONDS: &str = "pointsman_decision_seconds";
/// Fuel that a decision's stages used; native ones use none.
pub const DECISION_FUEL: &str = "pointsman_decision_fuel";
/// Requests sent to another worker, or to the same over another connection, by why.
pub const RETRIES: &str = "pointsman_retries_total";
/// Exchanges with workers that failed, by how.
pub const UPSTREAM_ERRORS: &str = "pointsman_upstream_errors_total";
/// Answers that workers began, by how they ended.
pub const ANSWERS: &str = "pointsman_answers_total";
/// Connections that are open, by listener.
pub const CONNECTIONS: &str = "pointsman_connections";
/// Connections that were closed for want of room, by listener and whose they were.
pub const CONNECTIONS_CLOSED: &str = "pointsman_connections_closed_for_room_total";

/// The label that names a request's model.
pub const MODEL: &str = "model";

/// Stands for a model that has no partition.
pub const NO_MODEL: &str = "unknown";
