//! What to pull: `REGISTRY/REPOSITORY:TAG`, or `…@sha256:DIGEST`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use url::Url;

use super::error::PullError;

/// The longest repository's name.
const MOST_REPOSITORY: usize = 255;

/// The longest tag.
const MOST_TAG: usize = 128;

/// A name in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    /// Hex digits; with them, the tag is but a comment.
    digest: Option<String>,
}

/// Why a text is no reference.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{text:?} {what}; write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGITS, as in registry.example/acme/least-busy:1.2"
)]
pub struct ReferenceError {
    text: String,
    what: &'static str,
}

impl Reference {
    /// The registry, as it was named.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository, as it was named.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digits of the manifest's digest, if it was named by it.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// The last part of the repository: what the component is most likely called.
    #[must_use]
    pub fn last_part(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }

    /// The same content, by its manifest's digest.
    #[must_use]
    pub fn at(&self, digest: &str) -> String {
        format!("{}/{}@sha256:{digest}", self.registry, self.repository)
    }

    /// The scope that a token is asked for.
    pub(super) fn scope(&self) -> String {
        format!("repository:{}:pull", self.path())
    }

    /// Where the manifest is: the one of this digest, or the tag's.
    pub(super) fn manifest(&self, digest: Option<&str>, plain: bool) -> Result<Url, PullError> {
        match (digest, &self.tag) {
            (Some(digest), _) => self.url(&format!("manifests/sha256:{digest}"), plain),
            (None, tag) => {
                let tag = tag.as_deref().unwrap_or_default();
                self.url(&format!("manifests/{tag}"), plain)
            }
        }
    }

    pub(super) fn blob(&self, digest: &str, plain: bool) -> Result<Url, PullError> {
        self.url(&format!("blobs/sha256:{digest}"), plain)
    }

    fn url(&self, rest: &str, plain: bool) -> Result<Url, PullError> {
        let scheme = if plain { "http" } else { "https" };
        // The one registry whose name isn't its host's.
        let host = match self.registry.as_str() {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            host => host,
        };
        let text = format!("{scheme}://{host}/v2/{}/{rest}", self.path());
        Url::parse(&text)
            .map_err(|error| PullError::Unreachable { url: text, reason: error.to_string() })
    }

    fn path(&self) -> String {
        let hub = matches!(self.registry.as_str(), "docker.io" | "index.docker.io");
        let library = if hub && !self.repository.contains('/') { "library/" } else { "" };
        format!("{library}{}", self.repository)
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let wrong = |what| Err(ReferenceError { text: text.chars().take(200).collect(), what });
        let rest = text.strip_prefix("oci://").unwrap_or(text);
        if rest.contains("://") {
            return wrong("is an address, no reference");
        }
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, digest)) => match super::sha256(digest) {
                Some(digest) => (rest, Some(digest)),
                None => return wrong("has no sha256: and 64 hexadecimal digits behind the @"),
            },
        };
        let Some((registry, rest)) = rest.split_once('/') else {
            return wrong("names no registry");
        };
        let is_host = registry == "localhost" || registry.contains(['.', ':']);
        let host = Url::parse(&format!("https://{registry}/"));
        let is_plain = |url: &Url| url.path() == "/" && url.host_str().is_some();
        if !is_host
            || registry.contains(['?', '#', '\\', '%'])
            || !host.is_ok_and(|url| is_plain(&url))
        {
            return wrong("names no registry before the first /");
        }
        let (repository, tag) = match rest.rsplit_once(':') {
            None => (rest, None),
            Some((repository, tag)) => (repository, Some(tag)),
        };
        if !is_repository(repository) {
            return wrong(
                "has a repository that isn't of lower-case letters, digits, '.', '_', '-' and '/'",
            );
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return wrong("has a tag that isn't of letters, digits, '.', '_' and '-'");
        }
        if tag.is_none() && digest.is_none() {
            return wrong("has neither tag nor digest");
        }
        Ok(Self {
            registry: registry.to_ascii_lowercase(),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest,
        })
    }
}

fn is_repository(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_part = |part: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        part.chars().all(fits) && is_end(part.chars().next()) && is_end(part.chars().next_back())
    };
    text.len() <= MOST_REPOSITORY && text.split('/').all(is_part)
}

fn is_tag(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=MOST_TAG).contains(&text.len()) && text.chars().all(fits) && !text.starts_with(['.', '-'])
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@sha256:{digest}"),
            None => Ok(()),
        }
    }
}
