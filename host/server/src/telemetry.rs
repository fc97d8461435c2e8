//! Telemetry: what is counted. (Placeholder until its owner's file comes.)

/// Counts.
#[derive(Debug, Default)]
pub struct Metrics {}

impl Metrics {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// As Prometheus reads it.
    #[must_use]
    pub fn encode(&self) -> String {
        String::new()
    }
}
