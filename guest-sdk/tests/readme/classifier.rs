//! The README's request classifier.

use std::collections::{BTreeSet, VecDeque};

use pointsman_sdk::classifier::prelude::*;

export_classifier! {
    /// So many requests at a time, the others behind them in their order.
    pub classifier SoManyAtATime(limits: Limits) {
        Line { limits, under_way: BTreeSet::new(), waiting: VecDeque::new() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub at_a_time: usize,
    pub most_waiting: u32,
}

impl Parameters for Limits {}

struct Line {
    limits: Limits,
    under_way: BTreeSet<String>,
    waiting: VecDeque<String>,
}

impl RequestClassifier for Line {
    fn most_held(&self) -> u32 {
        self.limits.most_waiting
    }

    fn classify(&mut self, request: &ClassifyRequest) -> Result<Verdict> {
        let id = request.request_id.clone();
        if self.under_way.len() < self.limits.at_a_time {
            self.under_way.insert(id);
            return Ok(Verdict::admit());
        }
        if self.waiting.len() >= self.limits.most_waiting as usize {
            return Ok(Verdict::Reject("too many wait".to_owned()));
        }
        self.waiting.push_back(id);
        Ok(Verdict::Hold)
    }

    fn on_event(&mut self, event: &LifecycleEvent, _: u64, releases: &mut Releases) -> Result {
        match event {
            // Admitted by whoever was here before, or by the host: it is under way all the same.
            LifecycleEvent::Inherited(live) => {
                self.under_way.insert(live.request.request_id.clone());
            }
            LifecycleEvent::Admitted(id) => {
                self.waiting.retain(|waits| waits != id);
                self.under_way.insert(id.clone());
            }
            LifecycleEvent::Completed(id, _) | LifecycleEvent::Aborted(id, _) => {
                self.waiting.retain(|waits| waits != id);
                self.under_way.remove(id);
            }
            _ => {}
        }
        while self.under_way.len() < self.limits.at_a_time {
            let Some(next) = self.waiting.pop_front() else { break };
            self.under_way.insert(next.clone());
            releases.admit(next);
        }
        Ok(())
    }
}

#[test]
fn the_next_one_goes_when_one_has_ended() -> Result {
    use pointsman_sdk::classifier::testing::Door;

    let mut door = Door::of::<SoManyAtATime>(r#"{"at_a_time": 1, "most_waiting": 2}"#)?;
    assert!(door.arrive("a", |_| ())?.is_admitted());
    assert_eq!(door.arrive("b", |_| ())?, Verdict::Hold);
    assert_eq!(door.arrive("c", |_| ())?, Verdict::Hold);
    assert!(matches!(door.arrive("d", |_| ())?, Verdict::Reject(_)));
    assert!(door.abort("b")?.is_empty(), "it only waited");
    assert_eq!(door.complete("a")?, ["c"]);
    Ok(())
}
