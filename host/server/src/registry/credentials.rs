//! Who asks: a name and a password, given or out of a docker configuration.
//!
//! Reads `auths` of a `config.json` as docker, podman and oras write it. Helper programs that keep
//! passwords elsewhere aren't run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ct_codecs::{Base64, Decoder};
use serde::Deserialize;
use thiserror::Error;

use super::reference::Reference;
use crate::config::{Secret, read_file};

/// A name and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub username: String,
    /// The password, or a token that stands for one.
    pub password: Secret,
}

/// Why there are none.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// The file can't be read.
    #[error("{}: can't be read: {source}; name a readable file", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It holds something else.
    #[error("{}: {what}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

impl Credentials {
    /// With the password in a file, whose end of line isn't part of it.
    ///
    /// # Errors
    ///
    /// The file can't be read, or is empty.
    pub fn with_password_file(username: &str, path: &Path) -> Result<Self, CredentialsError> {
        let text = text(path)?;
        let password = text.trim_end_matches(['\r', '\n']);
        if password.is_empty() || password.contains('\n') {
            return Err(content(path, "must hold the password, on one line"));
        }
        Ok(Self { username: username.to_owned(), password: Secret(password.to_owned()) })
    }

    /// Those that a docker `config.json` has for a registry; none if it has none.
    ///
    /// # Errors
    ///
    /// The file can't be read, or is none.
    pub fn from_docker(
        path: &Path,
        reference: &Reference,
    ) -> Result<Option<Self>, CredentialsError> {
        // The parser's own words could show what is in it.
        let file: File = serde_json::from_str(&text(path)?).map_err(|_| {
            content(path, "is no docker config.json; name another with --auth-file")
        })?;
        let entry = keys(reference).into_iter().find_map(|key| file.auths.get(&key));
        let Some(entry) = entry else { return Ok(None) };
        if let (Some(username), Some(password)) = (&entry.username, &entry.password) {
            let password = Secret(password.clone());
            return Ok(Some(Self { username: username.clone(), password }));
        }
        let Some(auth) = entry.auth.as_deref().filter(|auth| !auth.is_empty()) else {
            return Ok(None);
        };
        let pair = Base64::decode_to_vec(auth, None).ok();
        let pair = pair.and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = pair.as_deref().and_then(|pair| pair.split_once(':'));
        let (username, password) = pair.ok_or_else(|| {
            let what =
                format!("has an `auth` for {} that is no name and password", reference.registry());
            content(path, &format!("{what}; log in anew, or give --username"))
        })?;
        let password = Secret(password.trim_end_matches('\0').to_owned());
        Ok(Some(Self { username: username.to_owned(), password }))
    }
}

/// What a registry may be called in such a file, what says most first.
fn keys(reference: &Reference) -> Vec<String> {
    let registry = reference.registry();
    let mut keys = vec![format!("{registry}/{}", reference.repository())];
    while let Some((above, _)) = keys.last().and_then(|key| key.rsplit_once('/')) {
        keys.push(above.to_owned());
    }
    keys.extend(["", "/", "/v1/", "/v2/"].map(|rest| format!("https://{registry}{rest}")));
    if matches!(registry, "docker.io" | "index.docker.io") {
        keys.push("https://index.docker.io/v1/".to_owned());
    }
    keys
}

fn text(path: &Path) -> Result<String, CredentialsError> {
    let bytes = read_file(path)
        .map_err(|source| CredentialsError::Unreadable { path: path.to_owned(), source })?;
    String::from_utf8(bytes).map_err(|_| content(path, "is no text; name another file"))
}

fn content(path: &Path, what: &str) -> CredentialsError {
    CredentialsError::Content { path: path.to_owned(), what: what.to_owned() }
}
