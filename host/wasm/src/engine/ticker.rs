//! The clock that ends calls: one thread for all engines.

use std::io;
use std::thread;

use wasmtime::EngineWeak;

use super::TICK;

/// Starts the thread. It ends within a tick of the last of the engines, which live as long as any
/// component compiled by them.
pub(super) fn start(engines: Vec<EngineWeak>) -> io::Result<()> {
    let tick = move || {
        let mut alive = true;
        while alive {
            thread::sleep(TICK);
            alive = false;
            for engine in engines.iter().filter_map(EngineWeak::upgrade) {
                engine.increment_epoch();
                alive = true;
            }
        }
    };
    thread::Builder::new().name("pointsman-epoch".to_owned()).spawn(tick).map(drop)
}
