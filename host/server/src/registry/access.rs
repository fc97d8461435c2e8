//! Asking a registry that wants to know who asks.
//!
//! A registry answers the first question with a challenge: Basic, for a name and a password, or
//! Bearer, for a token from the place that the challenge names. The token is kept for the questions
//! that follow. Only the registry itself can challenge, not where it sends.

use ct_codecs::{Base64, Encoder};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use http_auth::ChallengeRef;
use serde::Deserialize;
use url::Url;

use super::credentials::Credentials;
use super::error::PullError;
use super::exchange::{Answer, Exchange};
use super::manifest;
use super::reference::Reference;

/// Bytes of a token's answer.
const MOST_TOKEN: u64 = 256 << 10;

/// What registries say the digest of a manifest is.
const DIGEST: &str = "docker-content-digest";

/// A registry, and what it knows of who asks.
#[derive(Debug)]
pub(super) struct Access {
    exchange: Exchange,
    scope: String,
    credentials: Option<Credentials>,
    authorization: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Access {
    pub(super) fn new(
        exchange: Exchange,
        reference: &Reference,
        credentials: Option<Credentials>,
    ) -> Self {
        Self { exchange, scope: reference.scope(), credentials, authorization: None }
    }

    /// A manifest, and the digits of the SHA-256 that the registry says it has, if it does.
    pub(super) async fn manifest(
        &mut self,
        url: &Url,
    ) -> Result<(Vec<u8>, Option<String>), PullError> {
        let answer = self.get(url, manifest::ACCEPT).await?;
        let told = answer.headers().get(DIGEST).and_then(|digest| digest.to_str().ok());
        let told = told.and_then(super::sha256);
        Ok((answer.read(manifest::MOST_BYTES).await?, told))
    }

    /// A blob of this size.
    pub(super) async fn blob(&mut self, url: &Url, size: u64) -> Result<Vec<u8>, PullError> {
        self.get(url, "*/*").await?.read_exactly(size).await
    }

    async fn get(&mut self, url: &Url, accept: &'static str) -> Result<Answer, PullError> {
        let answer = self.exchange.get(url, accept, self.authorization.as_ref()).await?;
        let answer = if answer.status() == StatusCode::UNAUTHORIZED && answer.is_direct {
            let Some(authorization) = self.meet(&answer).await? else {
                return Err(answer.complaint().await);
            };
            self.authorization = Some(authorization);
            self.exchange.get(url, accept, self.authorization.as_ref()).await?
        } else {
            answer
        };
        if answer.status() == StatusCode::OK { Ok(answer) } else { Err(answer.complaint().await) }
    }

    /// What meets a challenge; none when nothing can.
    async fn meet(&self, answer: &Answer) -> Result<Option<HeaderValue>, PullError> {
        let wrong = |what: String| PullError::Challenge { url: answer.url.to_string(), what };
        let headers = answer.headers().get_all(WWW_AUTHENTICATE).iter();
        let texts: Vec<&str> = headers.filter_map(|header| header.to_str().ok()).collect();
        let challenges: Vec<ChallengeRef<'_>> = texts
            .iter()
            .filter_map(|text| http_auth::parse_challenges(text).ok())
            .flatten()
            .collect();
        let of = |scheme: &str| {
            challenges.iter().find(|challenge| challenge.scheme.eq_ignore_ascii_case(scheme))
        };
        if let Some(bearer) = of("Bearer") {
            return self.token(bearer, &answer.url).await.map(Some);
        }
        match (of("Basic"), &self.credentials) {
            (Some(_), Some(credentials)) => Ok(Some(basic(credentials).map_err(wrong)?)),
            (Some(_), None) => Ok(None),
            (None, _) => Err(wrong(
                "not in a way that is understood here; it must ask by Bearer or Basic".to_owned(),
            )),
        }
    }

    /// Asks for a token where the challenge says.
    async fn token(
        &self,
        challenge: &ChallengeRef<'_>,
        asked: &Url,
    ) -> Result<HeaderValue, PullError> {
        let wrong = |what: &str| PullError::Challenge {
            url: asked.to_string(),
            what: format!("{what}; ask the registry's operator"),
        };
        let value = |name: &str| {
            let mut params = challenge.params.iter();
            let found = params.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped())
        };
        let realm = value("realm").and_then(|realm| Url::parse(&realm).ok());
        let mut realm = realm.ok_or_else(|| wrong("doesn't say where tokens are to be had"))?;
        if let Err(what) = self.exchange.check(&realm) {
            return Err(wrong(&format!("sends for tokens to {:?}, {what}", realm.as_str())));
        }
        {
            let mut query = realm.query_pairs_mut();
            if let Some(service) = value("service") {
                query.append_pair("service", &service);
            }
            query.append_pair("scope", &value("scope").unwrap_or_else(|| self.scope.clone()));
        }
        let authorization = self.credentials.as_ref().map(basic).transpose();
        let authorization = authorization.map_err(|what| wrong(&what))?;
        let answer = self.exchange.get(&realm, "application/json", authorization.as_ref()).await?;
        if answer.status() != StatusCode::OK {
            return Err(answer.complaint().await);
        }
        let body = answer.read(MOST_TOKEN).await?;
        let token: Token =
            serde_json::from_slice(&body).map_err(|_| wrong("gives no token for it"))?;
        let token = token.token.or(token.access_token).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| wrong("gives no token for it"))?;
        secret(&format!("Bearer {token}")).map_err(|_| wrong("gives no token for it"))
    }
}

/// A name and a password, as Basic has them.
fn basic(credentials: &Credentials) -> Result<HeaderValue, String> {
    let pair = format!("{}:{}", credentials.username, credentials.password.0);
    let bad = "the name or the password can't be sent".to_owned();
    let encoded = Base64::encode_to_string(pair.as_bytes()).map_err(|_| bad.clone())?;
    secret(&format!("Basic {encoded}")).map_err(|_| bad)
}

/// A header's value that no log shows.
fn secret(text: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
