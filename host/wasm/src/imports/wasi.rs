//! A WASI in which nothing is: enough for a language's runtime to start, and the same every time.
//!
//! Clocks show the decision's time and stand still during a call; random numbers come from the
//! decision's seed; a poll is ready at once; standard output and error go to the log; there are no
//! files, arguments or variables. Any 0.2.x version of an interface will do.
//!
//! Three kinds of functions:
//!
//! - What `wasmtime-wasi` answers from its context is linked as that crate has it, interface by
//!   interface ([`link_whole`]), over a context of the decision's own.
//! - What it would wait for is the host's own. Its polls block on an async runtime and panic inside
//!   a task of one; its sleeps don't ask the clock that it was given; neither fuel nor deadline end
//!   a call of the host. A stream brings a pollable along, so that streams, and the standard streams
//!   with them, are the host's as well. The monotonic clock sits between: its functions are defined
//!   one by one, `now` as the crate has it. So are those of random numbers, whose bytes cost fuel.
//! - All others trap with their name.

mod calm;
mod outside;

use wasmtime::component::{HasData, Linker, LinkerInstance, ResourceTable, ResourceType};
use wasmtime_wasi::cli::WasiCli;
use wasmtime_wasi::clocks::WasiClocks;
use wasmtime_wasi::filesystem::WasiFilesystem;
use wasmtime_wasi::p2::IoError;
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, io, random};
use wasmtime_wasi::random::WasiRandom;

use super::State;
use calm::{Input, Output, Pollable};
pub(super) use outside::Outside;

/// A file, a socket: there are none.
struct Absent;

/// An interface of WASI 0.2, without the package's name and the version, as in `io/poll`.
pub(super) fn interface(import: &str) -> Option<&str> {
    let (interface, version) = import.strip_prefix("wasi:")?.split_once('@')?;
    let patch = version.strip_prefix("0.2.")?;
    patch.parse::<u32>().is_ok().then_some(interface)
}

/// The host's type for a resource, which goes by its name alone, so that an interface that uses
/// another's resource gets the same.
pub(super) fn resource(name: &str) -> ResourceType {
    match name {
        "pollable" => ResourceType::host::<Pollable>(),
        "input-stream" => ResourceType::host::<Input>(),
        "output-stream" => ResourceType::host::<Output>(),
        "error" => ResourceType::host::<IoError>(),
        "descriptor" => ResourceType::host::<filesystem::types::Descriptor>(),
        _ => ResourceType::host::<Absent>(),
    }
}

/// The resources of `wasi:io` that `wasmtime-wasi` looks after.
struct Table;

impl HasData for Table {
    type Data<'a> = &'a mut ResourceTable;
}

/// Links an interface that `wasmtime-wasi` answers from its context. False if it is none of those.
/// The name under which it stands in the linker is that of the crate's version, which every 0.2.x
/// finds.
pub(super) fn link_whole(linker: &mut Linker<State>, interface: &str) -> wasmtime::Result<bool> {
    macro_rules! link {
        ($package:ident::$interface:ident, $data:ty, $view:expr) => {
            $package::$interface::add_to_linker::<State, $data>(linker, $view)?
        };
    }
    match interface {
        "clocks/wall-clock" => link!(clocks::wall_clock, WasiClocks, |s| s.outside.clocks()),
        "random/insecure-seed" => link!(random::insecure_seed, WasiRandom, |s| s.outside.random()),
        "cli/environment" => link!(cli::environment, WasiCli, |s| s.outside.cli()),
        "cli/exit" => link!(cli::exit, WasiCli, |s| s.outside.cli()),
        "cli/terminal-input" => link!(cli::terminal_input, WasiCli, |s| s.outside.cli()),
        "cli/terminal-output" => link!(cli::terminal_output, WasiCli, |s| s.outside.cli()),
        "cli/terminal-stdin" => link!(cli::terminal_stdin, WasiCli, |s| s.outside.cli()),
        "cli/terminal-stdout" => link!(cli::terminal_stdout, WasiCli, |s| s.outside.cli()),
        "cli/terminal-stderr" => link!(cli::terminal_stderr, WasiCli, |s| s.outside.cli()),
        "filesystem/preopens" => {
            link!(filesystem::preopens, WasiFilesystem, |s| s.outside.filesystem())
        }
        "io/error" => link!(io::error, Table, |s| s.outside.table()),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Defines one of the host's own functions. False if it is none of those.
pub(super) fn define(
    at: &mut LinkerInstance<'_, State>,
    import: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    match interface(import) {
        Some(interface) => calm::define(at, interface, function),
        None => Ok(false),
    }
}
