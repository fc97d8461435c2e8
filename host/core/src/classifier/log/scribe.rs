//! Who writes the log, where somebody keeps one.

use std::sync::Arc;

use super::{Answer, Beginning, ClassifierLog, LogEntry, Logged, LoggedEvent, LoggedRequest};
use crate::classifier::facts::{ClassifyRequest, LifecycleEvent, Release, Verdict};
use crate::ids::PartitionKey;
use crate::policy::StageError;

/// Counts instances and their calls, and writes them down.
#[derive(Debug, Default)]
pub(in crate::classifier) struct Scribe {
    log: Option<Arc<dyn ClassifierLog>>,
    /// Where the present instance serves; none before the first one that was written down.
    partition: Option<PartitionKey>,
    instance: u64,
    calls: u64,
}

impl Scribe {
    /// From the next instance on, all is left to `log`.
    pub(in crate::classifier) fn write_to(&mut self, log: Arc<dyn ClassifierLog>) {
        self.log = Some(log);
    }

    /// An instance begins.
    pub(in crate::classifier) fn begins(
        &mut self,
        partition: &PartitionKey,
        now_ms: u64,
        beginning: impl FnOnce() -> Beginning,
    ) {
        if self.log.is_some() {
            self.partition = Some(partition.clone());
            self.instance += 1;
            self.calls = 0;
            self.write(now_ms, || Logged::Began(Box::new(beginning())));
        }
    }

    pub(in crate::classifier) fn asked(
        &mut self,
        request: &ClassifyRequest<'_>,
        answer: &Result<Verdict, StageError>,
    ) {
        self.write(request.now_ms, || {
            Logged::Asked(Box::new(LoggedRequest::of(request)), given(answer))
        });
    }

    pub(in crate::classifier) fn told(
        &mut self,
        event: &LifecycleEvent<'_>,
        now_ms: u64,
        answer: &Result<Vec<Release>, StageError>,
    ) {
        self.write(now_ms, || Logged::Told(Box::new(LoggedEvent::of(event)), given(answer)));
    }

    fn write(&mut self, now_ms: u64, what: impl FnOnce() -> Logged) {
        let (Some(log), Some(partition)) = (&self.log, &self.partition) else { return };
        let (partition, instance, call) = (partition.clone(), self.instance, self.calls);
        log.note(LogEntry { partition, instance, call, now_ms, what: what() });
        self.calls += 1;
    }
}

fn given<T: Clone>(answer: &Result<T, StageError>) -> Answer<T> {
    match answer {
        Ok(answer) => Answer::Gave(answer.clone()),
        Err(error) => Answer::Failed(error.cause),
    }
}
