//! Starts the router; the library is the product.

use std::process::ExitCode;

fn main() -> ExitCode {
    pointsman::cli::main()
}
