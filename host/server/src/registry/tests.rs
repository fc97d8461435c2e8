//! What is pulled from a registry over loopback, and what isn't.

#![expect(clippy::unwrap_used, reason = "a test's panic is its message")]

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::testing::{Held, Registry, blob_path, manifest_path, of_layers, sha256};
use super::*;
use crate::config::Secret;

const COMPONENT: &[u8] = b"\0asm and so on: nobody looks into it here";

fn options() -> PullOptions {
    PullOptions {
        plain_http: true,
        credentials: None,
        most_bytes: 1 << 20,
        timeout: Duration::from_secs(20),
    }
}

fn login() -> Option<Credentials> {
    let password = Secret("pass word".to_owned());
    Some(Credentials { username: "user".to_owned(), password })
}

async fn pulled(registry: &Registry, rest: &str) -> Result<Artifact, PullError> {
    pull(&registry.reference(rest).parse().unwrap(), &options()).await
}

/// Why nothing comes, with what differs from run to run taken out.
async fn refused(registry: &Registry, rest: &str) -> String {
    refused_with(registry, rest, &options()).await
}

async fn refused_with(registry: &Registry, rest: &str, options: &PullOptions) -> String {
    let reference = registry.reference(rest).parse().unwrap();
    let error = pull(&reference, options).await.unwrap_err();
    error.to_string().replace(registry.address(), "REGISTRY")
}

fn digits(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap()
}

#[tokio::test]
async fn a_component_comes_by_tag_by_digest_and_through_an_index() {
    let registry = Registry::start().await;
    let manifest = registry.component("1.2", COMPONENT);
    let by_tag = pulled(&registry, ":1.2").await.unwrap();
    assert_eq!(by_tag.component, COMPONENT);
    assert_eq!(by_tag.digest, digits(&sha256(COMPONENT)));
    assert_eq!((by_tag.manifest.as_str(), &by_tag.signature), (digits(&manifest), &None));
    assert_eq!(pulled(&registry, &format!("@{manifest}")).await.unwrap(), by_tag);
    assert_eq!(pulled(&registry, &format!(":ignored@{manifest}")).await.unwrap(), by_tag);
    let entry = |digest: &str, architecture: &str| {
        json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 1,
            "platform": { "architecture": architecture, "os": "any" },
        })
    };
    let other = sha256(b"another");
    let index = json!({ "schemaVersion": 2, "manifests": [
        entry(&other, "amd64"), entry(&manifest, "wasm"), entry(&other, "unknown"),
    ] });
    registry.manifest("index", &index);
    assert_eq!(pulled(&registry, ":index").await.unwrap(), by_tag);
}

#[tokio::test]
async fn the_other_type_of_layer_and_a_signature_are_taken() {
    let registry = Registry::start().await;
    let component = registry.blob("application/vnd.wasm.content.layer.v1+wasm", COMPONENT);
    let mut signature = registry.blob("text/plain", b"signed");
    signature["annotations"] =
        json!({ "org.opencontainers.image.title": "least-busy.wasm.minisig" });
    let readme = registry.blob("text/markdown", b"# Read me");
    registry.manifest("1", &of_layers(&[readme, signature, component]));
    let artifact = pulled(&registry, ":1").await.unwrap();
    assert_eq!(artifact.component, COMPONENT);
    assert_eq!(artifact.signature.as_deref(), Some(&b"signed"[..]));
}

#[tokio::test]
async fn a_challenge_is_met_with_a_token_once() {
    let registry = Registry::start().await;
    registry.component("1", COMPONENT);
    registry.challenge(false);
    assert_eq!(pulled(&registry, ":1").await.unwrap().component, COMPONENT);
    let tokens = || {
        let seen = registry.seen().into_iter();
        seen.filter(|(path, _)| path.starts_with("/token")).collect::<Vec<_>>()
    };
    let path = "/token?service=made+up&scope=repository%3Aacme%2Fleast-busy%3Apull";
    assert_eq!(tokens(), [(path.to_owned(), None)]);
    // One that is private gives it to whom it knows.
    registry.challenge(true);
    assert_snapshot!(refused(&registry, ":1").await);
    let options = PullOptions { credentials: login(), ..options() };
    let reference = registry.reference(":1").parse().unwrap();
    assert_eq!(pull(&reference, &options).await.unwrap().component, COMPONENT);
    registry.challenge_by("Basic realm=\"made up\"");
    assert_eq!(pull(&reference, &options).await.unwrap().component, COMPONENT);
}

#[tokio::test]
async fn a_challenge_that_can_not_be_met_is_told() {
    let registry = Registry::start().await;
    registry.component("1", COMPONENT);
    let mut told = Vec::new();
    for challenge in [
        "Basic realm=\"made up\"",
        "Digest realm=\"made up\", nonce=\"1\"",
        "Bearer service=\"nowhere\"",
        "Bearer realm=\"ftp://127.0.0.1/token\"",
        "none of it",
    ] {
        registry.challenge_by(challenge);
        told.push(refused(&registry, ":1").await);
    }
    assert_snapshot!(told.join("\n"));
}

#[tokio::test]
async fn what_is_not_as_it_should_be_is_not_taken() {
    let registry = Registry::start().await;
    let mut told = Vec::new();
    let wasm = |digest: &str, size: usize| json!({ "mediaType": "application/wasm", "digest": digest, "size": size });
    let digest = sha256(COMPONENT);
    // Another content than the manifest names.
    registry.component("changed", COMPONENT);
    let mut changed = COMPONENT.to_owned();
    changed[10] ^= 1;
    registry.hold(&blob_path(&digest), Held::Whole(changed));
    told.push(refused(&registry, ":changed").await);
    // A manifest that isn't the one that was asked for, or not the one that it is said to be.
    let asked = sha256(b"asked for");
    registry.hold(&manifest_path(&asked), Held::Called(b"{}".to_vec(), asked.clone()));
    told.push(refused(&registry, &format!("@{asked}")).await);
    registry.hold(&manifest_path("said"), Held::Called(b"{}".to_vec(), asked.clone()));
    told.push(refused(&registry, ":said").await);
    // Sizes that aren't true.
    registry.hold(&blob_path(&digest), Held::Whole(COMPONENT.to_owned()));
    for (tag, size) in [("less", COMPONENT.len() - 1), ("more", COMPONENT.len() + 1)] {
        registry.manifest(tag, &of_layers(&[wasm(&digest, size)]));
        told.push(refused(&registry, &format!(":{tag}")).await);
    }
    let long = vec![0; 500_000];
    registry.component("cut", &long);
    registry.hold(&blob_path(&sha256(&long)), Held::Short(long[1..].to_owned(), long.len()));
    let cut = refused(&registry, ":cut").await;
    assert!(cut.contains(": broke off after "), "{cut}");
    registry.component("endless", COMPONENT);
    registry.hold(&blob_path(&digest), Held::Endless);
    told.push(refused(&registry, ":endless").await);
    registry.hold(&manifest_path("endless"), Held::Endless);
    told.push(refused(&registry, ":endless").await);
    // Nothing of that name; a component that is too large, of which nothing is fetched.
    told.push(refused(&registry, ":missing").await);
    let before = registry.seen().len();
    registry.manifest("huge", &of_layers(&[wasm(&digest, (1 << 20) + 1)]));
    told.push(refused(&registry, ":huge").await);
    assert_eq!(registry.seen().len(), before + 1);
    assert_snapshot!(told.join("\n"));
}

#[tokio::test]
async fn what_is_no_component_is_told_by_what_it_is() {
    let registry = Registry::start().await;
    let layer = |of: &str| json!({ "mediaType": of, "digest": sha256(b"x"), "size": 1 });
    let wasm = layer("application/wasm");
    let entry = layer("application/vnd.oci.image.manifest.v1+json");
    let mut signed = layer("text/plain");
    signed["annotations"] = json!({ "org.opencontainers.image.title": "a.minisig" });
    let mut long = signed.clone();
    long["size"] = json!(5_000);
    let mut odd = wasm.clone();
    odd["digest"] = json!("sha512:00");
    let all: [(&str, Value); 11] = [
        ("text", json!("hello")),
        ("empty", json!({})),
        ("both", json!({ "layers": [], "manifests": [] })),
        ("image", of_layers(&[layer("application/vnd.oci.image.layer.v1.tar+gzip")])),
        ("none", of_layers(&[])),
        ("two", of_layers(&[wasm.clone(), wasm.clone()])),
        ("signatures", of_layers(&[wasm.clone(), signed.clone(), signed])),
        ("signature", of_layers(&[wasm, long])),
        ("odd", of_layers(&[odd])),
        ("index", json!({ "manifests": [] })),
        ("several", json!({ "manifests": [entry.clone(), entry] })),
    ];
    let mut told = Vec::new();
    for (tag, manifest) in all {
        registry.manifest(tag, &manifest);
        told.push(refused(&registry, &format!(":{tag}")).await);
    }
    // An index of itself has no digest that fits; one of indexes has.
    let mut inner = sha256(b"nothing");
    for tag in ["i0", "i1", "i2", "i3"] {
        let entry = json!({
            "mediaType": "application/vnd.oci.image.index.v1+json", "digest": inner, "size": 1,
        });
        inner = registry.manifest(tag, &json!({ "manifests": [entry] }));
    }
    told.push(refused(&registry, ":i3").await);
    let digits = short(&told.join("\n"));
    assert_snapshot!(digits);
}

/// The text with long runs of digits cut short, which are of digests.
fn short(text: &str) -> String {
    let words = text.split("sha256:").enumerate().map(|(nth, part)| match nth {
        0 => part.to_owned(),
        _ => format!(
            "sha256:{}…{}",
            part.get(..6).unwrap_or(part),
            part.get(64..).unwrap_or_default()
        ),
    });
    words.collect()
}

#[tokio::test]
async fn a_redirect_is_followed_without_the_token_and_not_for_ever() {
    let (registry, store) = (Registry::start().await, Registry::start().await);
    registry.component("1", COMPONENT);
    registry.challenge(false);
    let blob = blob_path(&sha256(COMPONENT));
    store.hold("/store/blob?signature=1", Held::Whole(COMPONENT.to_owned()));
    let elsewhere = format!("http://{}/store/blob?signature=1", store.address());
    registry.hold(&blob, Held::Elsewhere(elsewhere));
    assert_eq!(pulled(&registry, ":1").await.unwrap().component, COMPONENT);
    assert_eq!(store.seen(), [("/store/blob?signature=1".to_owned(), None)]);
    // Within the registry the token goes along.
    registry.hold("/store/blob", Held::Whole(COMPONENT.to_owned()));
    registry.hold(&blob, Held::Elsewhere("/store/blob".to_owned()));
    assert_eq!(pulled(&registry, ":1").await.unwrap().component, COMPONENT);
    let last = registry.seen().pop().unwrap();
    assert_eq!(last, ("/store/blob".to_owned(), Some("Bearer secret-token".to_owned())));
    let mut told = Vec::new();
    for to in [blob.as_str(), "", "ftp://127.0.0.1/blob", "/store/nothing"] {
        registry.hold(&blob, Held::Elsewhere(to.to_owned()));
        told.push(refused(&registry, ":1").await);
    }
    // What sends elsewhere can't make somebody else ask for the password.
    store.challenge_by("Basic realm=\"made up\"");
    registry.hold(&blob, Held::Elsewhere(format!("http://{}/blob", store.address())));
    let options = PullOptions { credentials: login(), ..options() };
    let refused = refused_with(&registry, ":1", &options).await;
    told.push(refused.replace(store.address(), "STORE"));
    assert!(store.seen().iter().all(|(_, authorization)| authorization.is_none()));
    assert_snapshot!(short(&told.join("\n")));
}

#[tokio::test]
async fn silence_has_its_time_limit_and_what_is_not_there_is_told() {
    let registry = Registry::start().await;
    registry.hold(&manifest_path("1"), Held::Silence);
    let options = PullOptions { timeout: Duration::from_millis(200), ..options() };
    let told = refused_with(&registry, ":1", &options).await;
    assert_eq!(
        told,
        "REGISTRY/acme/least-busy:1: not all there within 200ms; see why the registry is slow, or \
         raise --timeout"
    );
    let gone: Reference = registry.reference(":1").parse().unwrap();
    let address = registry.address().to_owned();
    drop(registry);
    let told = pull(&gone, &options).await.unwrap_err().to_string();
    assert!(
        told.starts_with(&format!("http://{address}/v2/acme/least-busy/manifests/1: ")),
        "{told}"
    );
    assert!(told.contains("--plain-http"), "{told}");
}

#[tokio::test]
async fn a_registry_without_tls_is_asked_only_if_that_is_said() {
    let registry = Registry::start().await;
    registry.component("1", COMPONENT);
    let options = PullOptions { plain_http: false, ..options() };
    let told = refused_with(&registry, ":1", &options).await;
    assert!(told.contains("plain-http") || told.contains("SSL_CERT_FILE"), "{told}");
    assert_eq!(registry.seen(), []);
}

#[test]
fn a_reference_is_read_as_it_is_written() {
    let digits = "ab".repeat(32);
    for good in [
        "r.example/acme/least-busy:1.2",
        "localhost/a:latest",
        "localhost:5000/a/b__c/d-e:A_1",
        "[::1]:5000/a:1",
        &format!("docker.io/a@sha256:{digits}"),
        &format!("r.example/a:1@sha256:{digits}"),
    ] {
        assert_eq!(good.parse::<Reference>().unwrap().to_string(), good);
    }
    let with_scheme: Reference = "oci://r.example/acme/x:1".parse().unwrap();
    assert_eq!((with_scheme.registry(), with_scheme.last_part()), ("r.example", "x"));
    let hub: Reference = "docker.io/a:1".parse().unwrap();
    let url = hub.manifest(None, false).unwrap();
    assert_eq!(url.as_str(), "https://registry-1.docker.io/v2/library/a/manifests/1");
    let bad = [
        "",
        "least-busy",
        "acme/least-busy:1",
        "https://r.example/acme/a:1",
        "r.example/acme/a",
        "r.example/acme/a:",
        "r.example/acme/a:b c",
        "r.example/Acme/a:1",
        "r.example/acme//a:1",
        "r.example/../a:1",
        "r.example/a@sha256:00",
        "user:secret@r.example/a:1",
        "gh%63r.io/a:1",
        "r.example:port/a:1",
    ];
    let told = bad.map(|text| text.parse::<Reference>().unwrap_err().to_string());
    assert_snapshot!(told.join("\n"));
}

#[test]
fn a_docker_configuration_says_who_asks() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("config.json");
    let of = |text: &str, reference: &str| {
        std::fs::write(&path, text).unwrap();
        let found = Credentials::from_docker(&path, &reference.parse().unwrap());
        let found =
            found.map_err(|error| error.to_string().replace(path.to_str().unwrap(), "FILE"));
        found.map(|found| found.map(|one| format!("{}:{}", one.username, one.password.0)))
    };
    // user:pass word, and a:b:c.
    let text = r#"{ "credsStore": "none", "auths": {
        "r.example": { "auth": "dXNlcjpwYXNzIHdvcmQ=" },
        "r.example/acme": { "auth": "YTpiOmM=" },
        "https://index.docker.io/v1/": { "username": "hub", "password": "p" },
        "empty.example": {},
        "bad.example": { "auth": "secret" }
    } }"#;
    let some = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(of(text, "r.example/other/x:1"), some("user:pass word"));
    assert_eq!(of(text, "r.example/acme/x:1"), some("a:b:c"));
    assert_eq!(of(text, "docker.io/x:1"), some("hub:p"));
    assert_eq!(of(text, "empty.example/x:1"), Ok(None));
    assert_eq!(of(text, "nobody.example/x:1"), Ok(None));
    let told = [of(text, "bad.example/x:1"), of("{\"auths\": \"secret\"}", "r.example/x:1")];
    let told = told.map(Result::unwrap_err);
    assert!(told.iter().all(|told| !told.contains("secret")), "{told:?}");
    assert_snapshot!(told.join("\n"));

    let password = folder.path().join("password");
    std::fs::write(&password, "pass word\n").unwrap();
    assert_eq!(Credentials::with_password_file("user", &password).ok(), login());
    std::fs::write(&password, "\n").unwrap();
    assert!(Credentials::with_password_file("user", &password).is_err());
    assert_eq!(format!("{:?}", login().unwrap().password), "***");
}
