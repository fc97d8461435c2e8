//! The workers that the configuration file names.

use pointsman_core::fleet::WorkerSpec;
use serde::Serialize;

use super::error::KeeperError;
use super::keeper::{Origin, WorkerKeeper};
use super::registration::Registration;
use super::standing::Farewell;

/// What a changed file did to the workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileChanges {
    /// Registered or changed.
    pub registered: Vec<u64>,
    /// Told to leave.
    pub leaving: Vec<u64>,
    /// Not taken up, each with its reason.
    pub refused: Vec<String>,
}

impl FileChanges {
    /// Nothing was to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl WorkerKeeper {
    /// Registers the file's workers at start.
    ///
    /// # Errors
    ///
    /// The first that is refused.
    pub async fn register_file(&self, specs: &[WorkerSpec]) -> Result<(), KeeperError> {
        for spec in specs {
            let registration = Registration { spec: spec.clone(), lease: None };
            self.register(registration, Origin::File).await?;
        }
        Ok(())
    }

    /// Goes from the file as it was to the file as it is. What the API did to workers that the
    /// file has as before stays.
    pub async fn change_file(&self, before: &[WorkerSpec], after: &[WorkerSpec]) -> FileChanges {
        let mut changes = FileChanges::default();
        let left = before.iter().map(|spec| spec.worker_id);
        for id in left.filter(|id| after.iter().all(|spec| spec.worker_id != *id)) {
            let gone = self.owned(move |shared| async move {
                let _turn = shared.turn.lock().await;
                if shared.origin(id) != Some(Origin::File) {
                    return Ok(false);
                }
                shared.let_go(id, false, Farewell::LeftFile)?;
                Ok(true)
            });
            match gone.await {
                Ok(true) => changes.leaving.push(id.0),
                Ok(false) => {}
                Err(error) => changes.refused.push(error.to_string()),
            }
        }
        for spec in after.iter().filter(|spec| !before.contains(spec)) {
            let registration = Registration { spec: spec.clone(), lease: None };
            match self.register(registration, Origin::File).await {
                Ok(_) => changes.registered.push(spec.worker_id.0),
                Err(error) => changes.refused.push(error.to_string()),
            }
        }
        changes
    }
}
