//! A folder of components.

use std::path::Path;

use super::components::{Components, Found, LookError};
use crate::config::WasmConfig;

/// A folder of components.
#[derive(Debug)]
pub struct WasmFolder {}

impl WasmFolder {
    /// Opens it.
    pub fn open(_folder: &Path, _config: &WasmConfig) -> Result<Self, LookError> {
        Ok(Self {})
    }
}

impl Components for WasmFolder {
    fn look(&self) -> Result<Vec<Found>, LookError> {
        Ok(Vec::new())
    }

    fn watch(&self, _wake: Box<dyn Fn() + Send + Sync>) -> Option<Box<dyn Send + Sync>> {
        None
    }
}
