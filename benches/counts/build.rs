//! Tells the program which compiler it is built by: counts hold for that one.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    match Command::new(&rustc).arg("--version").output() {
        Ok(said) if said.status.success() => {
            let version = String::from_utf8_lossy(&said.stdout);
            println!("cargo::rustc-env=COUNTS_RUSTC={}", version.trim());
        }
        Ok(said) => println!("cargo::error={rustc:?} doesn't tell its version: {}", said.status),
        Err(error) => println!("cargo::error={rustc:?} can't be started: {error}"),
    }
}
