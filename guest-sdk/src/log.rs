//! Lines for the operator's log, with the policy's name beside them.
//!
//! In a component they go to the host, which limits lines and bytes per call. In a native build
//! they go to standard error, or to [`capture`] where a test asks for them.

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Something is wrong.
    Error,
    /// Something may be wrong.
    Warn,
    /// Worth knowing.
    Info,
    /// Worth knowing while looking for a fault.
    Debug,
    /// Everything.
    Trace,
}

/// Something is wrong.
pub fn error(message: impl AsRef<str>) {
    write(Level::Error, message.as_ref());
}

/// Something may be wrong.
pub fn warn(message: impl AsRef<str>) {
    write(Level::Warn, message.as_ref());
}

/// Worth knowing.
pub fn info(message: impl AsRef<str>) {
    write(Level::Info, message.as_ref());
}

/// Worth knowing while looking for a fault.
pub fn debug(message: impl AsRef<str>) {
    write(Level::Debug, message.as_ref());
}

/// Everything.
pub fn trace(message: impl AsRef<str>) {
    write(Level::Trace, message.as_ref());
}

#[cfg(target_arch = "wasm32")]
use crate::component::write_log as write;

#[cfg(not(target_arch = "wasm32"))]
pub use native::capture;
#[cfg(not(target_arch = "wasm32"))]
use native::write;

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::cell::RefCell;

    use super::Level;

    thread_local! {
        static CAPTURED: RefCell<Option<Vec<(Level, String)>>> = const { RefCell::new(None) };
    }

    pub(super) fn write(level: Level, message: &str) {
        CAPTURED.with_borrow_mut(|captured| match captured {
            Some(lines) => lines.push((level, message.to_owned())),
            None => eprintln!("policy {level:?}: {message}"),
        });
    }

    /// The lines that this thread logged while `run` ran, with what it returned. For native tests
    /// only.
    pub fn capture<R>(run: impl FnOnce() -> R) -> (R, Vec<(Level, String)>) {
        let before = CAPTURED.replace(Some(Vec::new()));
        let result = run();
        let lines = CAPTURED.replace(before);
        (result, lines.unwrap_or_default())
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #[test]
    fn a_test_can_read_what_was_logged() {
        let (result, lines) = super::capture(|| {
            super::warn("no rank is warm");
            7
        });
        assert_eq!(result, 7);
        assert_eq!(lines, [(super::Level::Warn, "no rank is warm".to_owned())]);
    }
}
