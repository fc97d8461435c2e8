//! Puts another request classifier in the place of one whose log was kept.
//!
//! Owns how an entry of a log becomes a call, and how the answer compares with the one that was
//! given. The world stays as it was: requests come, are sent and end when they did. Where the other
//! classifier holds a request that was sent, it is told that the host has admitted it, so that what it
//! believes stays true; of a request that it refuses it is told no more than the end. A log that
//! lacks an entry isn't repeated from there on. It reads no files and prints nothing.

mod books;
mod summary;

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::classifier::{
    Answer, Beginning, ClassifierDeclaration, ClassifierProvider, LogEntry, Logged, LoggedEvent,
    LoggedRequest, Release, RequestClassifier, Verdict,
};
use pointsman_core::ids::PartitionKey;
use pointsman_core::policy::{Cause, InstantiateError};
use serde_json::{Map, Value};

use books::{Books, Standing};
pub use books::{Hold, Released};
pub use summary::{CallSummary, Gap, Holds};

/// What came out differently.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Difference {
    /// Where.
    pub partition: PartitionKey,
    /// Of which instance's log.
    pub instance: u64,
    /// At which of its entries.
    pub call: u64,
    /// When, in milliseconds on the router's clock.
    pub now_ms: u64,
    /// What.
    pub what: Differs,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Differs {
    /// What becomes of a request that comes.
    Verdict {
        /// Which.
        request_id: Arc<str>,
        /// As it was.
        was: Answer<Verdict>,
        /// As it would be.
        now: Answer<Verdict>,
    },
    /// What an event sets free, or in which order, or with what.
    Released {
        /// The event.
        event: &'static str,
        /// Whose request it is about; none for what is about nobody's.
        request_id: Option<Arc<str>>,
        /// As it was.
        was: Released,
        /// As it would be.
        now: Released,
    },
    /// For how long a request is held.
    Held {
        /// Which.
        request_id: Arc<str>,
        /// As it was; none if it wasn't.
        was: Option<Hold>,
        /// As it would be.
        now: Option<Hold>,
    },
    /// What it wants of the host.
    Declaration {
        /// As it was.
        was: ClassifierDeclaration,
        /// As it would be.
        now: ClassifierDeclaration,
    },
    /// It is lost, and what follows in this log can't be repeated.
    Lost {
        /// How.
        cause: Cause,
    },
}

/// Repeats logs.
#[derive(Debug)]
pub struct ClassifierReplay {
    provider: Arc<dyn ClassifierProvider>,
    /// In place of the recorded ones.
    parameters: Option<Arc<Map<String, Value>>>,
    runs: BTreeMap<PartitionKey, Run>,
    summary: CallSummary,
}

impl ClassifierReplay {
    /// By instances of a type, with these parameters or those of the log.
    #[must_use]
    pub fn by(
        provider: Arc<dyn ClassifierProvider>,
        parameters: Option<Map<String, Value>>,
    ) -> Self {
        let (runs, summary) = (BTreeMap::new(), CallSummary::default());
        Self { provider, parameters: parameters.map(Arc::new), runs, summary }
    }

    /// What came of all so far.
    #[must_use]
    pub fn summary(&self) -> &CallSummary {
        &self.summary
    }

    /// Repeats an entry, and tells what differs.
    ///
    /// # Errors
    ///
    /// If the classifier can't be made.
    pub fn repeat(
        &mut self,
        entry: &LogEntry,
        differs: &mut dyn FnMut(Difference),
    ) -> Result<(), InstantiateError> {
        if let Logged::Began(beginning) = &entry.what {
            self.end(&entry.partition, differs);
            let run = Run::begin(&*self.provider, entry, beginning, self.parameters.as_ref())?;
            self.summary.begins(&entry.partition);
            if run.now.declaration != beginning.declaration {
                let (was, now) = (beginning.declaration, run.now.declaration);
                differs(run.difference(entry, Differs::Declaration { was, now }));
            }
            self.runs.insert(entry.partition.clone(), run);
            return Ok(());
        }
        let run = self.runs.get_mut(&entry.partition);
        let run = run.filter(|run| run.instance == entry.instance);
        let expected = run.as_ref().map_or(0, |run| run.calls + 1);
        match run {
            Some(run) if expected == entry.call => {
                run.calls += 1;
                run.repeat(entry, &mut self.summary, differs);
            }
            _ => {
                self.end(&entry.partition, differs);
                self.summary.lacks(entry, expected);
            }
        }
        Ok(())
    }

    /// There are no more entries.
    pub fn finish(&mut self, differs: &mut dyn FnMut(Difference)) {
        let partitions: Vec<_> = self.runs.keys().cloned().collect();
        partitions.iter().for_each(|partition| self.end(partition, differs));
    }

    fn end(&mut self, partition: &PartitionKey, differs: &mut dyn FnMut(Difference)) {
        let Some(mut run) = self.runs.remove(partition) else { return };
        for request_id in run.was.requests() {
            run.close(partition, &request_id, &mut self.summary, differs);
        }
    }
}

/// One instance's log, and the instance in its place.
#[derive(Debug)]
struct Run {
    instance: u64,
    calls: u64,
    now_ms: u64,
    /// None once it is lost.
    classifier: Option<Box<dyn RequestClassifier>>,
    was: Books,
    now: Books,
}

impl Run {
    fn begin(
        provider: &dyn ClassifierProvider,
        entry: &LogEntry,
        beginning: &Beginning,
        parameters: Option<&Arc<Map<String, Value>>>,
    ) -> Result<Self, InstantiateError> {
        let environment = beginning.environment(entry.partition.clone(), parameters);
        let classifier = provider.instantiate(&environment)?;
        let books = |declaration| Books::new(beginning.policy_classes.clone(), declaration);
        Ok(Self {
            instance: entry.instance,
            calls: 0,
            now_ms: entry.now_ms,
            was: books(beginning.declaration),
            now: books(classifier.declaration()),
            classifier: Some(classifier),
        })
    }

    fn difference(&self, entry: &LogEntry, what: Differs) -> Difference {
        let LogEntry { partition, instance, call, now_ms, .. } = entry;
        let (partition, instance) = (partition.clone(), *instance);
        Difference { partition, instance, call: *call, now_ms: *now_ms, what }
    }

    fn repeat(
        &mut self,
        entry: &LogEntry,
        summary: &mut CallSummary,
        differs: &mut dyn FnMut(Difference),
    ) {
        self.now_ms = entry.now_ms;
        if self.classifier.is_none() {
            summary.impossible += 1;
            return;
        }
        summary.calls += 1;
        let what = match &entry.what {
            Logged::Began(_) => return,
            Logged::Asked(request, was) => self.ask(request, was, entry.now_ms, summary),
            Logged::Told(event, was) => self.tell(event, was, entry.now_ms, summary),
        };
        match what {
            None => summary.same += 1,
            Some(what) => {
                summary.differ += 1;
                differs(self.difference(entry, what));
            }
        }
        if let Logged::Told(event, _) = &entry.what
            && let LoggedEvent::Completed(id, _) | LoggedEvent::Aborted(id, _) = &**event
        {
            self.close(&entry.partition, id, summary, differs);
        }
        if let Some(cause) = self.now.lost {
            self.classifier = None;
            if self.was.lost.is_none() {
                differs(self.difference(entry, Differs::Lost { cause }));
            }
        }
    }

    fn ask(
        &mut self,
        request: &LoggedRequest,
        was: &Answer<Verdict>,
        now_ms: u64,
        summary: &mut CallSummary,
    ) -> Option<Differs> {
        let request_id = request.arrival.request_id.clone();
        let was = self.was.takes(&request_id, was.clone(), now_ms);
        let classifier = self.classifier.as_mut()?;
        let answer = match classifier.classify(&request.view(now_ms)) {
            Ok(verdict) => Answer::Gave(verdict),
            Err(error) => Answer::Failed(error.cause),
        };
        let now = self.now.takes(&request_id, answer, now_ms);
        summary.failed += u64::from(matches!(now, Answer::Failed(_)) && was != now);
        (!books::alike(&was, &now)).then_some(Differs::Verdict { request_id, was, now })
    }

    fn tell(
        &mut self,
        event: &LoggedEvent,
        was: &Answer<Vec<Release>>,
        now_ms: u64,
        summary: &mut CallSummary,
    ) -> Option<Differs> {
        let mut now = Released::default();
        if let Some(id) = event.request_id() {
            let standing = self.now.standing(id);
            let waits = matches!(standing, Standing::Held | Standing::Failed);
            let told = match event {
                LoggedEvent::Inherited { .. } => true,
                // The host did so because the other one held it, or failed.
                LoggedEvent::Admitted(_) => waits,
                LoggedEvent::Sent(..) | LoggedEvent::Responding(_) => {
                    if waits {
                        summary.overtaken += u64::from(standing == Standing::Held);
                        self.now.goes(id, now_ms);
                        let admitted = LoggedEvent::Admitted(id.clone());
                        now = self.call(&admitted, now_ms);
                    }
                    standing != Standing::Refused
                }
                _ => true,
            };
            match event {
                LoggedEvent::Inherited { .. } | LoggedEvent::Admitted(_) => {
                    self.was.goes(id, now_ms);
                    if told {
                        self.now.goes(id, now_ms);
                    }
                }
                LoggedEvent::Completed(..) | LoggedEvent::Aborted(..) => {
                    self.was.ends(id, now_ms);
                    self.now.ends(id, now_ms);
                }
                _ => {}
            }
            if told {
                now.extend(self.call(event, now_ms));
            }
        } else {
            now = self.call(event, now_ms);
        }
        let was = self.was.releases(was.clone(), now_ms);
        summary.failed += u64::from(now.failed.is_some() && was.failed != now.failed);
        let differ = !was.is_like(&now);
        let (event, request_id) = (event.word(), event.request_id().cloned());
        differ.then_some(Differs::Released { event, request_id, was, now })
    }

    fn call(&mut self, event: &LoggedEvent, now_ms: u64) -> Released {
        let Some(classifier) = &mut self.classifier else { return Released::default() };
        let answer = match classifier.on_event(&event.view(now_ms), now_ms) {
            Ok(releases) => Answer::Gave(releases),
            Err(error) => Answer::Failed(error.cause),
        };
        self.now.releases(answer, now_ms)
    }

    /// A request is over, or the log is.
    fn close(
        &mut self,
        partition: &PartitionKey,
        request_id: &Arc<str>,
        summary: &mut CallSummary,
        differs: &mut dyn FnMut(Difference),
    ) {
        let was = self.was.close(request_id, self.now_ms);
        let now = self.now.close(request_id, self.now_ms);
        summary.held_was.add(was);
        summary.held_now.add(now);
        if was != now {
            let what = Differs::Held { request_id: request_id.clone(), was, now };
            let (partition, instance) = (partition.clone(), self.instance);
            let (call, now_ms) = (self.calls, self.now_ms);
            differs(Difference { partition, instance, call, now_ms, what });
        }
    }
}

#[cfg(test)]
mod tests;
