//! Whose turn it is to push.
//!
//! Owns how many pushed bodies are read and applied at a time: each may take some ten times the
//! memory of a real one, and a thread for seconds. It doesn't know what is in them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Bodies at a time.
const MOST: usize = 4;

/// How long a body waits for its turn.
const PATIENCE: Duration = Duration::from_secs(1);

/// All turns.
#[derive(Debug)]
pub(in crate::discovery) struct Turns {
    turns: Arc<Semaphore>,
    patience: Duration,
}

impl Default for Turns {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(MOST)), patience: PATIENCE }
    }
}

impl Turns {
    /// Waits for a turn, which lasts until what is returned is dropped; none if that takes too long.
    pub(in crate::discovery) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        timeout(self.patience, Arc::clone(&self.turns).acquire_owned()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_comes_when_all_turns_are_taken_waits_a_while() {
        let mut turns = Turns { patience: Duration::ZERO, ..Turns::default() };
        let mut taken = vec![];
        while let Some(turn) = turns.take().await {
            taken.push(turn);
        }
        assert_eq!(taken.len(), MOST);
        turns.patience = Duration::from_secs(60);
        let (waited, ()) = tokio::join!(turns.take(), async {
            tokio::task::yield_now().await;
            taken.pop();
        });
        assert!(waited.is_some());
    }
}
