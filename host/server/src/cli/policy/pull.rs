//! `pointsman policy pull`.

mod place;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use pointsman_wasm::ComponentPolicy;

use crate::config::{Config, WasmConfig, time_within};
use crate::registry::{Artifact, Credentials, PullOptions, Reference, pull};

/// What `--help` says of what is taken.
const TAKEN: &str = "\
What is taken: an OCI artifact with one layer of type application/wasm or
application/vnd.wasm.content.layer.v1+wasm, as `oras push REFERENCE NAME.wasm:application/wasm` and
`wkg oci push` make it. A layer whose title ends in .minisig is the component's signature, and is put
beside it. Nothing is written unless all digests are right, the component can be a policy, and
--sha256 and --trust have nothing against it. A running router takes it up at once.

Who asks: --username with --password-file, else what a docker config.json has for the registry, which
is --auth-file, else $DOCKER_CONFIG/config.json, else ~/.docker/config.json; else nobody in particular.
Helper programs that keep passwords aren't run. Registries are trusted as the system trusts them, and
are asked without a proxy; SSL_CERT_FILE and SSL_CERT_DIR name other authorities.";

/// Pull a component.
#[derive(Debug, Args)]
#[command(after_long_help = TAKEN, after_help = "What is taken, and who asks: see --help")]
pub(in crate::cli) struct Pull {
    /// What to pull: REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGITS
    #[arg(value_name = "REFERENCE")]
    reference: Reference,
    /// The folder that it goes to, as the configuration's policies_dir names it
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Its type: the stem of its file; left out, the last part of the repository
    #[arg(long)]
    name: Option<String>,
    /// The SHA-256 that the component must have, in hex
    #[arg(long, value_name = "HEX", value_parser = digest)]
    sha256: Option<String>,
    /// A configuration whose wasm.trust and wasm.max_component_size it is held to
    #[arg(long, value_name = "CONFIG")]
    trust: Option<PathBuf>,
    /// Ask without TLS
    #[arg(long)]
    plain_http: bool,
    /// The name to log in with
    #[arg(long, requires = "password_file", value_name = "NAME")]
    username: Option<String>,
    /// A file with the password, or the token that stands for one
    #[arg(long, requires = "username", value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// A docker config.json to log in with
    #[arg(long, value_name = "FILE", conflicts_with = "username")]
    auth_file: Option<PathBuf>,
    /// How long all of it may take
    #[arg(long, default_value = "5m", value_parser = limit)]
    timeout: Duration,
}

fn digest(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let good = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    good.then(|| digits.to_ascii_lowercase()).ok_or_else(|| {
        "no SHA-256: give 64 hexadecimal digits, as `pointsman policy inspect` prints them"
            .to_owned()
    })
}

fn limit(text: &str) -> Result<Duration, String> {
    time_within(text, Duration::from_secs(1)..=Duration::from_secs(3_600))
}

impl Pull {
    pub(in crate::cli) fn run(self) -> Result<ExitCode> {
        let name = self.name.as_deref().unwrap_or_else(|| self.reference.last_part());
        let file = self.into.join(format!("{name}.wasm"));
        ComponentPolicy::check_name(name, &file).with_context(|| {
            format!("{name:?} can't be the component's name here; give another with --name")
        })?;
        place::check(&self.into, &file)?;
        let wasm = match &self.trust {
            Some(path) => Config::from_path(path)?.wasm,
            None => WasmConfig::default(),
        };
        let options = PullOptions {
            plain_http: self.plain_http,
            credentials: self.credentials()?,
            most_bytes: wasm.max_component_size,
            timeout: self.timeout,
        };
        let artifact = super::super::block_on(async {
            Ok::<_, anyhow::Error>(pull(&self.reference, &options).await?)
        })?;
        self.hold(name, &file, &wasm, &artifact)?;
        place::place(&self.into, &file, &artifact.component, artifact.signature.as_deref())?;
        super::super::say(&self.told(name, &file, &artifact))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Holds what came to all that it should be.
    fn hold(&self, name: &str, file: &Path, wasm: &WasmConfig, artifact: &Artifact) -> Result<()> {
        let Artifact { component, digest, signature, .. } = artifact;
        if let Some(wanted) = self.sha256.as_ref().filter(|wanted| *wanted != digest) {
            bail!(
                "{}: the component is sha256:{digest}, wanted sha256:{wanted}; look which of the two \
                 is meant, and change --sha256 or the reference",
                self.reference
            );
        }
        ComponentPolicy::check_outside(file, component)?;
        Ok(wasm.trust.admit(name, file, component, signature.as_deref())?)
    }

    fn credentials(&self) -> Result<Option<Credentials>> {
        if let (Some(username), Some(path)) = (&self.username, &self.password_file) {
            return Ok(Some(Credentials::with_password_file(username, path)?));
        }
        let usual = || {
            let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
            let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker"));
            Some(folder.or_else(home)?.join("config.json")).filter(|path| path.is_file())
        };
        let path = self.auth_file.clone().or_else(usual);
        let Some(path) = path else { return Ok(None) };
        Ok(Credentials::from_docker(&path, &self.reference)?)
    }

    fn told(&self, name: &str, file: &Path, artifact: &Artifact) -> String {
        let Artifact { component, digest, manifest, signature } = artifact;
        let signed = if signature.is_some() { ", and its signature" } else { "" };
        let lines = [
            ("file", format!("{}{signed}", file.display())),
            ("size", format!("{} bytes", component.len())),
            ("sha256", digest.clone()),
            ("from", self.reference.at(manifest)),
            ("pin", format!("wasm: {{ trust: {{ pins: {{ {name}: \"sha256:{digest}\" }} }} }}")),
        ];
        lines.iter().map(|(key, value)| format!("{key:<12}{value}\n")).collect()
    }
}

#[cfg(test)]
mod tests;
