//! The workers that the configuration file names.

use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::WorkerId;
use serde::Serialize;
use thiserror::Error;

use super::error::KeeperError;
use super::keeper::{Origin, WorkerKeeper};
use super::registration::Registration;
use super::standing::Farewell;

/// What a changed file did to the workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileChanges {
    /// Registered or changed.
    pub registered: Vec<WorkerId>,
    /// Told to leave.
    pub leaving: Vec<WorkerId>,
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

/// A worker of the file was refused.
#[derive(Debug, Error)]
#[error("worker {worker}: {error}")]
pub struct FileWorkerError {
    /// Which.
    pub worker: WorkerId,
    /// Why.
    pub error: KeeperError,
}

impl WorkerKeeper {
    /// Registers the file's workers at start.
    ///
    /// # Errors
    ///
    /// The first that is refused, and why.
    pub async fn register_file(&self, specs: &[WorkerSpec]) -> Result<(), FileWorkerError> {
        for spec in specs {
            let registration = Registration { spec: spec.clone(), lease: None };
            let registered = self.register(registration, Origin::File).await;
            registered.map_err(|error| FileWorkerError { worker: spec.worker_id, error })?;
        }
        Ok(())
    }

    /// Goes from the file as it was to the file as it is. What the API did to workers that the
    /// file has as before stays.
    pub async fn change_file(&self, before: &[WorkerSpec], after: &[WorkerSpec]) -> FileChanges {
        let mut changes = FileChanges::default();
        let left = before.iter().map(|spec| spec.worker_id);
        for id in left.filter(|id| after.iter().all(|spec| spec.worker_id != *id)) {
            let gone = self.owned(move |roster| async move {
                let _turn = roster.turn.lock().await;
                if roster.origin(id) != Some(Origin::File) {
                    return Ok(false);
                }
                roster.let_go(id, false, Farewell::LeftFile).await?;
                Ok(true)
            });
            match gone.await {
                Ok(true) => changes.leaving.push(id),
                Ok(false) => {}
                Err(error) => changes.refused.push(error.to_string()),
            }
        }
        for spec in after.iter().filter(|spec| !before.contains(spec)) {
            let registration = Registration { spec: spec.clone(), lease: None };
            match self.register(registration, Origin::File).await {
                Ok(_) => changes.registered.push(spec.worker_id),
                Err(error) => changes.refused.push(error.to_string()),
            }
        }
        changes
    }
}
