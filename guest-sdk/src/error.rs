//! How a policy says no: [`Refusal`], one sentence for the operator's log.
//!
//! Every stage, every build and every hook answers with [`Result`]. The host logs the sentence with
//! the policy's name, never shows it to the client, and does what the instance's `on_failure` says.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// What policy code returns.
pub type Result<T = (), E = Refusal> = std::result::Result<T, E>;

/// Why a policy won't go on. One sentence in lower case without a final dot, best ended by what the
/// operator can do about it.
///
/// Strings convert into it, so that `return Err("no rank is warm".into())` and `?` both read well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(Cow<'static, str>);

impl Refusal {
    /// A refusal with the text of any error or value that can be displayed.
    pub fn new(cause: impl fmt::Display) -> Self {
        Self(Cow::Owned(cause.to_string()))
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.0
    }

    /// The sentence, with the place that it is about before it.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Self(Cow::Owned(format!("{place}: {}", self.0)))
    }

    /// The sentence, given away.
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn into_message(self) -> String {
        self.0.into_owned()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Refusal {}

impl From<&'static str> for Refusal {
    fn from(message: &'static str) -> Self {
        Self(Cow::Borrowed(message))
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self(Cow::Owned(message))
    }
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self::new(error)
    }
}
