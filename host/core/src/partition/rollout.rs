//! A partition's policies on their way in, as operators see and switch them.
//!
//! Owns who watches here and who is tried, by instance. It doesn't know how they are asked.

use super::Partition;
use crate::rollout::{Canary, CanaryReport, ShadowReport};

impl Partition {
    /// How those that are only watched compare. Waits for a decision that is being made.
    #[must_use]
    pub fn shadows(&self) -> Vec<ShadowReport> {
        let shadows = self.slot.lock().shadows.clone();
        shadows.iter().map(|shadow| shadow.report()).collect()
    }

    /// How the canary does; none if there is none. Waits for a decision that is being made.
    #[must_use]
    pub fn canary(&self) -> Option<CanaryReport> {
        self.slot.lock().canary.as_ref().map(Canary::report)
    }

    /// Turns the canary off or on, if that is what an instance is to this partition.
    pub(crate) fn switch_canary(&self, off: impl Fn(&str) -> bool) {
        if let Some(canary) = &mut self.slot.lock().canary {
            canary.set_disabled(off(canary.instance()));
        }
    }

    /// Whether an instance watches here.
    pub(crate) fn has_shadow(&self, instance: &str) -> bool {
        self.slot.lock().shadows.iter().any(|shadow| &**shadow.instance() == instance)
    }

    /// Turns its shadows off or on.
    pub(crate) fn switch_shadows(&self, off: impl Fn(&str) -> bool) {
        let shadows = self.slot.lock().shadows.clone();
        shadows.iter().for_each(|shadow| shadow.set_disabled(off(shadow.instance())));
    }

    /// Lets the canary try again if it was given up, and the instance is that here.
    pub(crate) fn resume_canary(&self, instance: &str) {
        let mut slot = self.slot.lock();
        let canary = slot.canary.as_mut().filter(|canary| &**canary.instance() == instance);
        if let Some(canary) = canary {
            canary.resume();
        }
    }
}
