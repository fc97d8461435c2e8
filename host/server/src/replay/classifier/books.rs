//! What a host knows of the requests of one classifier, when it goes by that one's answers alone.
//!
//! Owns the checks of answers, who is held, and for how long. It doesn't know who asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::classifier::{Answer, ClassifierDeclaration, Release, Verdict};
use pointsman_core::policy::Cause;
use serde::Serialize;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It isn't known.
    Unknown,
    /// It is held.
    Held,
    /// It goes on.
    Goes,
    /// It was refused.
    Refused,
    /// The answer about it couldn't be used.
    Failed,
}

/// A time for which a request was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// Milliseconds.
    pub ms: u64,
    /// Whether the classifier let it go by itself; else the host did, its client left, or it would
    /// have been held for longer.
    pub released: bool,
}

/// What an event set free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Released {
    /// These requests, in this order. What stays held isn't here.
    pub releases: Vec<Release>,
    /// How the call failed, if it did: nothing was released, or one that couldn't be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Cause>,
}

impl Released {
    pub(super) fn extend(&mut self, others: Self) {
        self.releases.extend(others.releases);
        self.failed = self.failed.or(others.failed);
    }

    /// The same, but for the words of a refusal.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let like = |(a, b): (&Release, &Release)| {
            a.request_id == b.request_id && same(&a.verdict, &b.verdict)
        };
        self.failed == other.failed
            && self.releases.len() == other.releases.len()
            && self.releases.iter().zip(&other.releases).all(like)
    }
}

/// Whether two answers are the same, but for the words of a refusal.
pub(super) fn alike(one: &Answer<Verdict>, other: &Answer<Verdict>) -> bool {
    match (one, other) {
        (Answer::Gave(one), Answer::Gave(other)) => same(one, other),
        _ => one == other,
    }
}

fn same(one: &Verdict, other: &Verdict) -> bool {
    one == other || matches!((one, other), (Verdict::Reject(_), Verdict::Reject(_)))
}

#[derive(Debug)]
struct Course {
    standing: Standing,
    /// Since when it is held.
    since_ms: u64,
    hold: Option<Hold>,
}

/// What is known of one classifier's requests.
#[derive(Debug)]
pub(super) struct Books {
    policy_classes: Arc<[Arc<str>]>,
    pub(super) declaration: ClassifierDeclaration,
    courses: BTreeMap<Arc<str>, Course>,
    held: usize,
    /// By what the instance was lost, if it is.
    pub(super) lost: Option<Cause>,
}

impl Books {
    pub(super) fn new(policy_classes: Arc<[Arc<str>]>, declaration: ClassifierDeclaration) -> Self {
        Self { policy_classes, declaration, courses: BTreeMap::new(), held: 0, lost: None }
    }

    pub(super) fn standing(&self, id: &str) -> Standing {
        self.courses.get(id).map_or(Standing::Unknown, |course| course.standing)
    }

    pub(super) fn requests(&self) -> Vec<Arc<str>> {
        self.courses.keys().cloned().collect()
    }

    /// Takes an answer about a request that comes, as a host judges it.
    pub(super) fn takes(
        &mut self,
        id: &Arc<str>,
        answer: Answer<Verdict>,
        now_ms: u64,
    ) -> Answer<Verdict> {
        let judged = match answer {
            Answer::Gave(Verdict::Hold) if self.held >= self.declaration.most_held as usize => {
                Answer::Failed(Cause::BadOutput)
            }
            Answer::Gave(verdict) => self.judged(verdict),
            Answer::Failed(cause) => Answer::Failed(cause),
        };
        let standing = match &judged {
            Answer::Gave(Verdict::Hold) => Standing::Held,
            Answer::Gave(Verdict::Admit(_)) => Standing::Goes,
            Answer::Gave(Verdict::Reject(_)) => Standing::Refused,
            Answer::Failed(cause) => {
                self.fails(*cause);
                Standing::Failed
            }
        };
        self.held += usize::from(standing == Standing::Held);
        self.courses.insert(id.clone(), Course { standing, since_ms: now_ms, hold: None });
        judged
    }

    /// Takes an answer to an event, as a host judges it: each release by itself.
    pub(super) fn releases(&mut self, answer: Answer<Vec<Release>>, now_ms: u64) -> Released {
        let mut released = Released::default();
        let releases = match answer {
            Answer::Gave(releases) => releases,
            Answer::Failed(cause) => {
                self.fails(cause);
                released.failed = Some(cause);
                return released;
            }
        };
        for Release { request_id, verdict } in releases {
            if self.standing(&request_id) != Standing::Held {
                released.failed = Some(Cause::BadOutput);
                continue;
            }
            let standing = match self.judged(verdict) {
                Answer::Gave(Verdict::Hold) => continue,
                Answer::Gave(verdict) => {
                    let goes = matches!(verdict, Verdict::Admit(_));
                    let request_id = request_id.clone();
                    released.releases.push(Release { request_id, verdict });
                    if goes { Standing::Goes } else { Standing::Refused }
                }
                Answer::Failed(cause) => {
                    released.failed = Some(cause);
                    Standing::Failed
                }
            };
            self.lets_go(&request_id, standing, true, now_ms);
        }
        released
    }

    /// The host admits a request.
    pub(super) fn goes(&mut self, id: &Arc<str>, now_ms: u64) {
        match self.standing(id) {
            Standing::Held => self.lets_go(id, Standing::Goes, false, now_ms),
            _ => {
                let hold = self.courses.get(id).and_then(|course| course.hold);
                let course = Course { standing: Standing::Goes, since_ms: now_ms, hold };
                self.courses.insert(id.clone(), course);
            }
        }
    }

    /// A request is over.
    pub(super) fn ends(&mut self, id: &Arc<str>, now_ms: u64) {
        if self.standing(id) == Standing::Held {
            self.lets_go(id, Standing::Goes, false, now_ms);
        }
    }

    /// For how long a request was held that is forgotten now; none if it wasn't.
    pub(super) fn close(&mut self, id: &Arc<str>, now_ms: u64) -> Option<Hold> {
        self.ends(id, now_ms);
        self.courses.remove(id)?.hold
    }

    fn judged(&self, verdict: Verdict) -> Answer<Verdict> {
        match &verdict {
            Verdict::Admit(admission) => match admission.check(&self.policy_classes) {
                Ok(()) => Answer::Gave(verdict),
                Err(error) => Answer::Failed(error.cause),
            },
            Verdict::Hold | Verdict::Reject(_) => Answer::Gave(verdict),
        }
    }

    fn lets_go(&mut self, id: &str, standing: Standing, released: bool, now_ms: u64) {
        let Some(course) = self.courses.get_mut(id) else { return };
        let ms = now_ms.saturating_sub(course.since_ms);
        course.hold = Some(Hold { ms, released });
        course.standing = standing;
        self.held = self.held.saturating_sub(1);
    }

    fn fails(&mut self, cause: Cause) {
        if cause.ends_a_classifier() {
            self.lost = Some(cause);
        }
    }
}
