//! Builds policy crates from the command line: `cargo run -p pointsman-build --example policy -- [--target-dir DIR] [CRATE_DIR…]`.
//!
//! Without a crate it only sees to the toolchain, and writes down the compiler's path: a way to warm a machine's cache.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

use pointsman_build::{GuestOptions, Setup, Toolchain, build_many, for_stderr};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = GuestOptions::default();
    let mut crates: Vec<PathBuf> = Vec::new();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--target-dir" {
            options.target_dir =
                Some(arguments.next().ok_or("--target-dir needs a folder")?.into());
        } else {
            crates.push(argument.into());
        }
    }

    let progress = for_stderr();
    let toolchain = Toolchain::ensure(&Setup::from_env()?, &*progress)?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{} ({:?}, {})",
        toolchain.rustc().display(),
        toolchain.source(),
        toolchain.target().triple()
    )?;
    for built in build_many(&toolchain, &crates, &options, &*progress)? {
        writeln!(
            out,
            "{} {} {} -> {} bytes",
            built.digest,
            built.component.display(),
            built.core_bytes,
            built.component_bytes
        )?;
    }
    Ok(())
}
