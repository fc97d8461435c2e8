//! What an old version's instances know, handed over to those of a new one.

use super::Pipeline;
use crate::policy::failure::{StageFailure, StageKind};

impl Pipeline {
    /// Hands the state of `old` over, where the same type stands at the same place in both and
    /// both can. Returns whether anything was handed over. Where it fails and the owner would
    /// rather lose the state, an instance that may have taken half of it is made anew.
    pub fn take_over(&mut self, old: &mut Self) -> Result<bool, StageFailure> {
        let mut any = false;
        for (new, old) in self.sources.iter_mut().zip(&mut old.sources) {
            let both_can = [&*new, &*old]
                .iter()
                .all(|source| source.instance.declaration().properties.hands_over);
            if new.policy_type() != old.policy_type() || !both_can {
                continue;
            }
            let handed = match old.instance.save() {
                None => continue,
                Some(state) => state.and_then(|state| new.instance.restore(&state)),
            };
            let handed = match handed {
                Err(error) if self.discard_state => {
                    tracing::warn!(
                        policy = &*self.name,
                        policy_type = &**new.policy_type(),
                        %error,
                        "state was discarded, as the instance's owner wants"
                    );
                    new.renew().map(|()| false)
                }
                handed => handed.map(|()| true),
            };
            any |= handed.map_err(|error| StageFailure {
                policy: self.name.clone(),
                kind: StageKind::Fused,
                stage: "handover".to_owned(),
                cause: error.cause,
                detail: error.detail,
            })?;
        }
        Ok(any)
    }
}
