//! The real thing: the toolchain of this machine, set up in the shared cache if it isn't there, and guests built with it.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use pointsman_build::{
    BuildError, ComponentError, GuestOptions, Lines, Quiet, Setup, Toolchain, build_many,
    build_policy,
};
use tempfile::TempDir;

/// A guest with a contract, without a bindings crate: a `component-type` section made from WIT by the same library, in the source as bytes.
const CONTRACT: &str = "package t:t; world w { export add: func(a: u32, b: u32) -> u32; }";

fn toolchain() -> Toolchain {
    Toolchain::ensure(&Setup::from_env().unwrap(), &Lines).unwrap()
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A workspace of crates that need nothing from a registry: `adder` and `other` with a contract, `bare` without, `native` without a module.
fn workspace() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(
        root,
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"adder\", \"other\", \"bare\", \"native\"]\n",
    );
    let manifest = |name: &str, lib: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{lib}")
    };
    let cdylib = "[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n[features]\ntwice = []\n";
    write(root, "adder/Cargo.toml", &manifest("adder", cdylib));
    write(root, "other/Cargo.toml", &manifest("other", cdylib));
    write(root, "bare/Cargo.toml", &manifest("bare", cdylib));
    write(root, "native/Cargo.toml", &manifest("native", ""));
    write(root, "native/src/lib.rs", "");
    write(
        root,
        "bare/src/lib.rs",
        "#[unsafe(no_mangle)]\npub extern \"C\" fn add(a: u32, b: u32) -> u32 { a + b }\n",
    );

    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_source("w.wit", CONTRACT).unwrap();
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let section =
        wit_component::metadata::encode(&resolve, world, wit_component::StringEncoding::UTF8, None)
            .unwrap();
    let source = format!(
        "#[unsafe(link_section = \"component-type:w\")]\n#[used]\nstatic CONTRACT: [u8; {}] = {section:?};\n\n\
         /// Panics with a place in the source, so that paths would be seen.\n\
         #[unsafe(no_mangle)]\npub extern \"C\" fn add(a: u32, b: u32) -> u32 {{\n    \
         let sum = a.checked_add(b).expect(\"the sum fits\");\n    \
         format!(\"{{}}\", sum + if cfg!(feature = \"twice\") {{ sum }} else {{ 0 }}).parse().unwrap()\n}}\n",
        section.len()
    );
    write(root, "adder/src/lib.rs", &source);
    write(root, "other/src/lib.rs", &source.replace("the sum fits", "it fits"));
    folder
}

fn in_dir(target_dir: &Path) -> GuestOptions {
    GuestOptions { target_dir: Some(target_dir.into()), offline: true, ..GuestOptions::default() }
}

#[test]
fn the_toolchain_is_ready_at_the_second_call_without_any_step() {
    let first = toolchain();
    let second = Toolchain::ensure(&Setup::from_env().unwrap(), &Refuse).unwrap();
    assert_eq!((first.rustc(), first.target()), (second.rustc(), second.target()));
}

/// A warm call has nothing to report.
struct Refuse;

impl pointsman_build::Progress for Refuse {
    fn step(&self, step: &pointsman_build::Step) {
        panic!("a warm call began: {step}");
    }
}

#[test]
fn the_same_source_gives_the_same_bytes_in_other_folders() {
    let toolchain = toolchain();
    let (here, there) = (workspace(), workspace());
    let targets = tempfile::tempdir().unwrap();
    let build = |root: &Path, target: &str| {
        let built = build_policy(
            &toolchain,
            &root.join("adder"),
            &in_dir(&targets.path().join(target)),
            &Quiet,
        )
        .unwrap();
        (std::fs::read(&built.component).unwrap(), built)
    };
    let (bytes, built) = build(here.path(), "one");
    assert!(wasmparser::Parser::is_component(&bytes));
    assert_eq!(built.digest, pointsman_build::digest(&bytes));
    assert_eq!(built.component_bytes, bytes.len() as u64);
    assert!(built.is_new && built.core_bytes > 0);
    assert!(
        built.inputs.iter().any(|input| input.ends_with("adder/src/lib.rs")),
        "{:?}",
        built.inputs
    );

    assert_eq!(build(here.path(), "two").1.digest, built.digest);
    assert_eq!(build(there.path(), "three/deeper").1.digest, built.digest);

    // What was compiled here must not say where.
    let text = String::from_utf8_lossy(&bytes);
    for place in [here.path(), targets.path(), toolchain.rustc().parent().unwrap()] {
        assert!(!text.contains(place.to_str().unwrap()), "{place:?} is in the component");
    }
    assert!(!build(here.path(), "one").1.is_new);
}

/// A crate that is a workspace of its own, with `adder`'s source.
fn alone(source: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"built-alone\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
                    [lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n[features]\ntwice = []\n[workspace]\n";
    write(folder.path(), "Cargo.toml", manifest);
    write(folder.path(), "src/lib.rs", source);
    folder
}

#[test]
fn crates_that_stand_alone_share_a_folder_and_are_never_taken_for_each_other() {
    let toolchain = toolchain();
    let out = tempfile::tempdir().unwrap();
    let options =
        GuestOptions { out_dir: Some(out.path().into()), offline: true, ..GuestOptions::default() };
    let build = |root: &Path| build_policy(&toolchain, root, &options, &Quiet).unwrap();
    let workspace = workspace();
    let source = std::fs::read_to_string(workspace.path().join("adder/src/lib.rs")).unwrap();
    let (here, there) = (alone(&source), alone(&source));
    let first = build(here.path());
    let bytes = std::fs::read(&first.component).unwrap();
    assert_eq!(build(there.path()).digest, first.digest, "the same source, the same bytes");
    assert!(first.inputs.contains(&here.path().canonicalize().unwrap().join("src/lib.rs")));
    let text = String::from_utf8_lossy(&bytes);
    for place in [here.path(), there.path(), toolchain.rustc().parent().unwrap()] {
        assert!(!text.contains(place.to_str().unwrap()), "{place:?} is in the component");
    }

    // Another policy of that name, whose files are older than what was built last.
    let other = alone(&source.replace("the sum fits", "it fits"));
    for file in ["Cargo.toml", "src/lib.rs"] {
        let file = std::fs::File::options().append(true).open(other.path().join(file)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000))
            .unwrap();
    }
    let built = build(other.path());
    assert_ne!(built.digest, first.digest);
    let bytes = std::fs::read(&built.component).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("it fits"));
    assert_eq!(build(here.path()).digest, first.digest, "and back");
}

#[test]
fn several_policies_of_a_workspace_come_of_one_call_in_their_order() {
    let toolchain = toolchain();
    let workspace = workspace();
    let options = GuestOptions {
        features: vec!["adder/twice".into()],
        ..in_dir(&workspace.path().join("guests"))
    };
    let adder = workspace.path().join("adder");
    let built = build_many(&toolchain, &[&adder, &adder], &options, &Quiet).unwrap();
    assert_eq!(
        built.iter().map(|built| built.package.as_str()).collect::<Vec<_>>(),
        ["adder", "adder"]
    );

    let plain = build_policy(&toolchain, &adder, &in_dir(&workspace.path().join("guests")), &Quiet)
        .unwrap();
    assert_ne!(plain.digest, built[1].digest);
}

#[test]
fn what_is_no_policy_is_refused_for_its_own_reason() {
    let toolchain = toolchain();
    let workspace = workspace();
    let options = in_dir(&workspace.path().join("guests"));
    let refusal = |name: &str| {
        build_policy(&toolchain, &workspace.path().join(name), &options, &Quiet).unwrap_err()
    };

    let error = refusal("bare");
    assert!(
        matches!(&error, BuildError::Component { source: ComponentError::NoComponentType, .. }),
        "{error}"
    );
    let error = refusal("native");
    assert!(matches!(&error, BuildError::NoModule { package } if package == "native"), "{error}");
    let error = refusal("absent");
    assert!(matches!(&error, BuildError::NoManifest { .. }), "{error}");

    write(workspace.path(), "bare/src/lib.rs", "pub fn broken() -> u32 { \"no number\" }\n");
    let error = refusal("bare");
    assert!(
        matches!(&error, BuildError::DidNotBuild { log, .. } if log.contains("mismatched types")),
        "{error}"
    );

    let manifest = workspace.path().join("bare/Cargo.toml");
    let wanting = std::fs::read_to_string(&manifest)
        .unwrap()
        .replace("edition", "rust-version = \"1.9999\"\nedition");
    std::fs::write(&manifest, wanting).unwrap();
    let error = refusal("bare");
    assert!(matches!(&error, BuildError::OldRustc { .. }), "{error}");
}

/// Shows cargo's lines, as a terminal does.
#[derive(Default)]
struct Screen(std::sync::Mutex<Vec<String>>);

impl pointsman_build::Progress for Screen {
    fn step(&self, _: &pointsman_build::Step) {}

    fn cargo_line(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }

    fn shows_cargo(&self) -> bool {
        true
    }
}

#[test]
fn what_the_compiler_says_is_said_once() {
    let toolchain = toolchain();
    let workspace = workspace();
    let adder = workspace.path().join("adder");
    let options = in_dir(&workspace.path().join("guests"));
    let build = |screen: &Screen| build_policy(&toolchain, &adder, &options, screen);
    let source = std::fs::read_to_string(adder.join("src/lib.rs")).unwrap();
    write(workspace.path(), "adder/src/lib.rs", "pub fn broken() -> u32 { \"no number\" }\n");

    let screen = Screen::default();
    let error = build(&screen).unwrap_err().to_string();
    let shown = screen.0.into_inner().unwrap().join("\n");
    assert_eq!(shown.matches("mismatched types").count(), 1, "{shown}");
    assert!(!error.contains("mismatched types"), "{error}");
    assert!(error.ends_with("correct what the compiler says"), "{error}");

    // A lock file that is too old is brought up to date without a word.
    write(workspace.path(), "adder/src/lib.rs", &source);
    std::fs::write(workspace.path().join("Cargo.lock"), "version = 4\n").unwrap();
    let screen = Screen::default();
    build(&screen).unwrap();
    let shown = screen.0.into_inner().unwrap().join("\n");
    assert!(!shown.contains("--locked"), "{shown}");
}
