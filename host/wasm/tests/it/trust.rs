//! Pins and signatures: what may not serve is never compiled, and the last good version serves on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ct_codecs::{Base64, Encoder};
use ed25519_compact::{KeyPair, Seed};
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

/// A pair of keys with its number, as minisign has them.
struct Keys {
    id: [u8; 8],
    pair: KeyPair,
}

impl Keys {
    fn new(id: u8) -> Self {
        Self { id: [id; 8], pair: KeyPair::from_seed(Seed::new([id; 32])) }
    }

    fn public(&self) -> String {
        base64(&[b"Ed", &self.id[..], &*self.pair.pk])
    }

    /// Signs the whole content, as minisign did before it signed hashes.
    fn sign(&self, bytes: &[u8], to: &Path) {
        let (signature, comment) = (self.pair.sk.sign(bytes, None), "a comment that is signed too");
        let all = [&*signature, comment.as_bytes()].concat();
        let lines = [
            "untrusted comment: none".to_owned(),
            base64(&[b"Ed", &self.id[..], &*signature]),
            format!("trusted comment: {comment}"),
            base64(&[&*self.pair.sk.sign(all, None)]),
        ];
        fs::write(to, lines.join("\n") + "\n").unwrap();
    }
}

fn base64(parts: &[&[u8]]) -> String {
    Base64::encode_to_string(parts.concat()).unwrap()
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
    let (keys, stranger) = ([Keys::new(1), Keys::new(2)], Keys::new(3));
    let mut trust = Trust::default();
    for pair in &keys {
        trust.key(&pair.public()).unwrap();
    }
    let (dir, folder) = folder(trust);
    let (file, signature) = (dir.path().join("p.wasm"), dir.path().join("p.wasm.minisig"));
    fs::write(&file, &good).unwrap();
    let why = error(&folder);
    assert!(why.contains("is not signed") && why.contains("minisign -Sm"), "{why}");
    let wanted = folder.look().types[0].wanted.as_ref().map(ToString::to_string);
    assert_eq!(wanted, Some(sha256(&good)), "it is said what isn't trusted");
    for (bad, words) in [
        (&b"nonsense"[..], "none of minisign's"),
        (&[0xff; 100], "none of minisign's"),
        (&[b'a'; 100_000], "none of minisign's"),
    ] {
        fs::write(&signature, bad).unwrap();
        assert!(error(&folder).contains(words));
    }
    stranger.sign(&good, &signature);
    assert!(error(&folder).contains("fits none of the 2 keys"));
    assert_eq!(serving(&folder), None);
    // The component was there all the time: its signature alone has come.
    for pair in &keys {
        pair.sign(&good, &signature);
        assert_eq!(error(&folder), "");
        assert_eq!(serving(&folder), Some(sha256(&good)));
    }
    // Other content under an old signature.
    fs::write(&file, &other).unwrap();
    assert!(error(&folder).contains("isn't what was signed"));
    assert_eq!(serving(&folder), Some(sha256(&good)), "the last good version serves on");
    keys[0].sign(&other, &signature);
    assert_eq!(error(&folder), "");
    assert_eq!(serving(&folder), Some(sha256(&other)));
}

/// What minisign makes of a file with these words.
const WORDS: &[u8] = b"no component";
const PUBLIC: &str = "RWS/r6KCYgyUzXRHCSY/5bM++j9EPuJXpnYGksZW5SPPspqil8tcubZ6";
const SIGNATURE: &str = "untrusted comment: made by minisign
RUS/r6KCYgyUzYGp0gGBbnTGDf8Z5q/LYjMMXgPvuzhaaXfBY0vua2TfHo34PR8u4KGnj2kGTPJxqL6ykkK5GcjT77Od5KxL+wc=
trusted comment: timestamp:1795995583
3VGvaFBJhmgWu7STWRyEaTDVvBctX04uQ3x5MdkNsxjg/ZReBtNf39x3WzZmrWZHmODq+Pu9LIFtyAeo8ADoBw==
";

#[test]
fn what_minisign_signs_is_believed_and_only_then_looked_at() {
    let mut trust = Trust::default();
    trust.key(PUBLIC).unwrap();
    let (dir, folder) = folder(trust);
    fs::write(dir.path().join("p.wasm"), WORDS).unwrap();
    // It is no component at all, and that isn't what is said.
    assert!(error(&folder).contains("is not signed"));
    fs::write(dir.path().join("p.wasm.minisig"), SIGNATURE).unwrap();
    assert!(error(&folder).contains("is not WebAssembly"));
    fs::write(dir.path().join("p.wasm"), b"No component").unwrap();
    assert!(error(&folder).contains("isn't what was signed"));
}

/// What is to be put into the folder is held to the same, with the signature that comes with it.
#[test]
fn what_is_to_become_a_file_is_held_to_pins_and_keys_before_it_is_one() {
    let keys = Keys::new(1);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.wasm");
    let bytes = guest("template");
    let mut trust = Trust::default();
    trust.key(&keys.public()).unwrap();
    let signed = dir.path().join("elsewhere.minisig");
    keys.sign(&bytes, &signed);
    let signature = fs::read(&signed).unwrap();
    let admit = |bytes: &[u8], signature| {
        trust.admit("p", &file, bytes, signature).map_err(|error| error.to_string())
    };
    assert_eq!(admit(&bytes, Some(&signature)), Ok(()));
    let told = admit(b"another", Some(&signature)).unwrap_err();
    assert!(told.contains("isn't what was signed"), "{told}");
    assert!(admit(&bytes, Some(&[b'x'; 10_000])).unwrap_err().contains("none of minisign's"));
    assert!(admit(&bytes, None).unwrap_err().contains("is not signed"));
    // The one that stands there already is as good.
    keys.sign(&bytes, &pointsman_wasm::signature_of(&file));
    assert_eq!(admit(&bytes, None), Ok(()));
    let mut pinned = Trust::default();
    pinned.pin("p", &format!("sha256:{}", "0".repeat(64))).unwrap();
    assert!(pinned.admit("p", &file, &bytes, None).unwrap_err().to_string().contains("pinned to"));
}
