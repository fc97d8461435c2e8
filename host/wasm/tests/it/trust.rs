//! Pins and signatures: what may not serve is never compiled, and the last good version serves on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use minisign::KeyPair;
use pointsman_wasm::{FolderOptions, PolicyFolder, Trust};
use tempfile::TempDir;

use crate::guests::{guest, varied};
use crate::rig::engine;

fn folder(trust: Trust) -> (TempDir, PolicyFolder) {
    let dir = tempfile::tempdir().unwrap();
    let options = FolderOptions { settle: Duration::ZERO, trust, ..FolderOptions::default() };
    let folder = PolicyFolder::open(engine(), dir.path(), options);
    (dir, folder)
}

/// Why the file's content doesn't serve.
fn error(folder: &PolicyFolder) -> String {
    let state = folder.rescan();
    state.types[0].error.clone().unwrap_or_default()
}

fn serving(folder: &PolicyFolder) -> Option<String> {
    folder.policy("p").map(|policy| policy.content_digest().to_string())
}

fn sha256(bytes: &[u8]) -> String {
    pointsman_wasm::ComponentPolicy::load(engine(), "p", Path::new("p.wasm"), bytes)
        .unwrap()
        .content_digest()
        .to_string()
}

fn sign(keys: &KeyPair, bytes: &[u8], to: &Path) {
    let signature = minisign::sign(Some(&keys.pk), &keys.sk, bytes, None, None).unwrap();
    fs::write(to, signature.to_string()).unwrap();
}

fn two_versions() -> [Vec<u8>; 2] {
    [guest("template"), varied(";;; data\n(data (i32.const 4096) \"another\")\n;;; end\n")]
}

#[test]
fn only_the_pinned_content_serves() {
    let [good, other] = two_versions();
    let mut trust = Trust::default();
    trust.pin("p", &format!("sha256:{}", sha256(&good))).unwrap();
    let (dir, folder) = folder(trust);
    let file = dir.path().join("p.wasm");
    fs::write(&file, &other).unwrap();
    let why = error(&folder);
    assert!(why.contains("is pinned to sha256:") && why.contains(&sha256(&other)), "{why}");
    assert_eq!(serving(&folder), None);
    fs::write(&file, &good).unwrap();
    assert_eq!(error(&folder), "");
    assert_eq!(serving(&folder), Some(sha256(&good)));
    fs::write(&file, &other).unwrap();
    assert!(error(&folder).contains("is pinned to"));
    assert_eq!(serving(&folder), Some(sha256(&good)), "the last good version serves on");
    // Other types are nobody's business.
    fs::write(dir.path().join("q.wasm"), &other).unwrap();
    let _ = folder.rescan();
    assert!(folder.policy("q").is_some());
}

#[test]
fn once_there_are_keys_only_what_one_of_them_signed_serves() {
    let [good, other] = two_versions();
    let keys = [(); 2].map(|()| KeyPair::generate_unencrypted_keypair().unwrap());
    let stranger = KeyPair::generate_unencrypted_keypair().unwrap();
    let mut trust = Trust::default();
    for pair in &keys {
        trust.key(&pair.pk.to_base64()).unwrap();
    }
    let (dir, folder) = folder(trust);
    let (file, signature) = (dir.path().join("p.wasm"), dir.path().join("p.wasm.minisig"));
    fs::write(&file, &good).unwrap();
    let why = error(&folder);
    assert!(why.contains("is not signed") && why.contains("minisign -Sm"), "{why}");
    for (bad, words) in [
        (&b"nonsense"[..], "none of minisign's"),
        (&[0xff; 100], "none of minisign's"),
        (&[b'a'; 100_000], "none of minisign's"),
    ] {
        fs::write(&signature, bad).unwrap();
        assert!(error(&folder).contains(words));
    }
    sign(&stranger, &good, &signature);
    assert!(error(&folder).contains("fits none of the 2 keys"));
    assert_eq!(serving(&folder), None);
    // The component was there all the time: its signature alone has come.
    for pair in &keys {
        sign(pair, &good, &signature);
        assert_eq!(error(&folder), "");
        assert_eq!(serving(&folder), Some(sha256(&good)));
    }
    // Other content under an old signature.
    fs::write(&file, &other).unwrap();
    assert!(error(&folder).contains("isn't what was signed"));
    assert_eq!(serving(&folder), Some(sha256(&good)), "the last good version serves on");
    sign(&keys[0], &other, &signature);
    assert_eq!(error(&folder), "");
    assert_eq!(serving(&folder), Some(sha256(&other)));
}

#[test]
fn what_is_not_trusted_is_not_compiled() {
    let keys = KeyPair::generate_unencrypted_keypair().unwrap();
    let mut trust = Trust::default();
    trust.key(&keys.pk.to_base64()).unwrap();
    let (dir, folder) = folder(trust);
    // Not even looked at: it is no component at all, and that isn't what is said.
    fs::write(dir.path().join("p.wasm"), b"no component").unwrap();
    assert!(error(&folder).contains("is not signed"));
}
