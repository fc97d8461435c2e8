//! Builds the guests that the tests and benches run, from source, with whatever toolchain the
//! machine has or can set up.

use std::path::Path;
use std::process::ExitCode;

use pointsman_build::{GuestOptions, Lines, Setup, Toolchain, build_many};

/// What is built besides `policies/`: a guest that no example is.
const ODD_GUEST: &str = "tests/guests/one-lane";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without guests there is nothing to test: loud, and no test passes by being left out.
            let mut cause: Option<&dyn std::error::Error> = Some(&*error);
            while let Some(one) = cause {
                println!("cargo::error=the guests were not built: {one}");
                cause = one.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), Box<dyn std::error::Error>> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the crate has no parent folder")?;
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let toolchain = Toolchain::ensure(&Setup::from_env()?, &Lines)?;
    let policies = root.join("policies");
    println!("cargo::rerun-if-changed={}", policies.display());
    let mut folders = vec![root.join(ODD_GUEST)];
    for entry in std::fs::read_dir(&policies)? {
        let folder = entry?.path();
        if folder.join("Cargo.toml").is_file() {
            folders.push(folder);
        }
    }
    folders.sort();
    let options = GuestOptions { out_dir: Some(out.join("guests")), ..GuestOptions::default() };
    for built in build_many(&toolchain, &folders, &options, &Lines)? {
        let name = built.package.replace('-', "_").to_uppercase();
        println!("cargo::rustc-env=GUEST_{name}={}", built.component.display());
        for input in built.inputs {
            println!("cargo::rerun-if-changed={}", input.display());
        }
    }
    println!("cargo::rerun-if-changed={}", root.join("wit").display());
    println!("cargo::rerun-if-env-changed=POINTSMAN_GUEST_RUSTC");
    Ok(())
}
