//! Builds the component that selects beside the peer: `policies/default-cost`, from source, with
//! whatever toolchain the machine has or can set up.

use std::path::Path;
use std::process::ExitCode;

use pointsman_build::{GuestOptions, Lines, Setup, Toolchain, build_many};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut cause: Option<&dyn std::error::Error> = Some(&*error);
            while let Some(one) = cause {
                println!("cargo::error=the guest was not built: {one}");
                cause = one.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .ok_or("the crate stands two folders below the root")?;
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let toolchain = Toolchain::ensure(&Setup::from_env()?, &Lines)?;
    let options = GuestOptions { out_dir: Some(out.join("guests")), ..GuestOptions::default() };
    let folders = [root.join("policies/default-cost")];
    for built in build_many(&toolchain, &folders, &options, &Lines)? {
        println!("cargo::rustc-env=GUEST_DEFAULT_COST={}", built.component.display());
        for input in built.inputs {
            println!("cargo::rerun-if-changed={}", input.display());
        }
    }
    println!("cargo::rerun-if-changed={}", root.join("wit").display());
    println!("cargo::rerun-if-env-changed=POINTSMAN_GUEST_RUSTC");
    Ok(())
}
