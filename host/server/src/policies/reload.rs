//! One reload: look, try, put in place, or find out what is to blame and try without it.

use std::sync::Arc;

use pointsman_core::BuildError;
use pointsman_core::clock::Stopwatch;
use pointsman_core::router::{InstallError, Installed, Policies};

use super::blame::{AttemptError, Blame};
use super::configuration::{Reading, Wish, needs_restart};
use super::keeper::Inner;
use super::report::{Refusal, ReloadReport};
use super::state::{New, Pending, TypeSchemas};
use super::trial::{Place, Trial, Warning, try_all};

/// A configuration that is to be tried.
#[derive(Clone, Debug)]
struct Candidate {
    wish: Wish,
    number: u64,
    /// It isn't the one in force.
    pending: Option<Pending>,
}

/// How a try with one configuration ended.
enum Ended {
    /// It is in force, with all new versions but the refused.
    Done,
    /// The configuration is to blame; the one in force may still take new versions.
    Configuration(String),
    /// Nothing that changed is to blame; the next reload tries again.
    Failed(String),
}

impl Inner {
    /// Brings what decides up to what there is. `again` tries what was refused before.
    pub(super) async fn reload(self: &Arc<Self>, again: bool) -> ReloadReport {
        let _turn = self.turn.lock().await;
        let watch = Stopwatch::start();
        let mut report = ReloadReport::default();
        let files_changed = self.look(again, &mut report).await;
        let pending = self.read_configuration(again || files_changed, again, &mut report).await;
        for candidate in self.candidates(pending) {
            match self.bring_in(&candidate, again, &mut report).await {
                Ended::Done => break,
                Ended::Configuration(reason) => {
                    report.refused.push(Refusal {
                        what: "configuration".to_owned(),
                        digest: None,
                        reason: reason.clone(),
                    });
                    let mut state = self.state.lock();
                    state.wish_error = Some(reason);
                    state.pending = candidate.pending;
                }
                Ended::Failed(reason) => {
                    report.refused.push(Refusal {
                        what: "policies".to_owned(),
                        digest: None,
                        reason,
                    });
                    break;
                }
            }
        }
        report.millis = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.conclude(&mut report);
        report
    }

    /// Looks at the components. Returns whether any is another than at the last look.
    async fn look(self: &Arc<Self>, again: bool, report: &mut ReloadReport) -> bool {
        let inner = self.clone();
        let looked = tokio::task::spawn_blocking(move || inner.components.look()).await;
        let failed = |reason: String| Refusal { what: "folder".to_owned(), digest: None, reason };
        let mut state = self.state.lock();
        match looked {
            Ok(Ok(found)) => {
                state.folder_error = None;
                report.refused.extend(state.saw(found, again));
                return state.mark_seen();
            }
            Ok(Err(error)) => {
                let reason = error.to_string();
                if again || state.folder_error.as_ref() != Some(&reason) {
                    report.refused.push(failed(reason.clone()));
                }
                state.folder_error = Some(reason);
            }
            Err(error) => report.refused.push(failed(format!("the look was abandoned: {error}"))),
        }
        false
    }

    /// Reads the file. Returns a configuration to be tried; one that was refused is tried again
    /// when `retry`.
    async fn read_configuration(
        self: &Arc<Self>,
        retry: bool,
        again: bool,
        report: &mut ReloadReport,
    ) -> Option<Pending> {
        let inner = self.clone();
        let read = tokio::task::spawn_blocking(move || inner.file.lock().read(again)).await;
        let mut state = self.state.lock();
        match read
            .unwrap_or_else(|error| Reading::Bad(format!("the reading was abandoned: {error}")))
        {
            Reading::Same => state.pending.clone().filter(|_| retry),
            Reading::Bad(reason) => {
                report.refused.push(Refusal {
                    what: "configuration".to_owned(),
                    digest: None,
                    reason: reason.clone(),
                });
                state.wish_error = Some(reason);
                state.pending = None;
                None
            }
            Reading::New(config) => {
                report.doubts = config.warnings().iter().map(ToString::to_string).collect();
                let pending = Pending {
                    wish: Wish::from(&*config),
                    needs_restart: needs_restart(&self.running, &config),
                };
                if !pending.wish.is_same(&state.wish) {
                    return Some(pending);
                }
                state.wish.places = pending.wish.places;
                state.wish_error = None;
                state.pending = None;
                report.needs_restart.clone_from(&pending.needs_restart);
                state.needs_restart = pending.needs_restart;
                None
            }
        }
    }

    /// The configurations to try, in order: a new one, then the one in force.
    fn candidates(&self, pending: Option<Pending>) -> Vec<Candidate> {
        let state = self.state.lock();
        let number = state.wish_number;
        let in_force = Candidate { wish: state.wish.clone(), number, pending: None };
        let new = pending.map(|pending| Candidate {
            wish: pending.wish.clone(),
            number: number + 1,
            pending: Some(pending),
        });
        new.into_iter().chain([in_force]).collect()
    }

    /// Tries a configuration with all new versions, and without those that turn out to be bad.
    async fn bring_in(
        self: &Arc<Self>,
        candidate: &Candidate,
        again: bool,
        report: &mut ReloadReport,
    ) -> Ended {
        let (mut new, before) = {
            let state = self.state.lock();
            (state.new_versions(candidate.number, again), state.wish.clone())
        };
        let Candidate { wish, pending, .. } = candidate;
        let decides_otherwise = !wish.decides_as(&before);
        let mut refused: Vec<(New, String)> = Vec::new();
        let installed = loop {
            if !decides_otherwise && !new.iter().any(|name| wish.uses(name)) {
                // Nothing that decides is another; what isn't used needs no switch.
                break None;
            }
            let (policies, schemas) = {
                let state = self.state.lock();
                (state.policies(wish, &new), state.schemas(&new))
            };
            let error = match self.attempt(policies.clone(), schemas).await {
                Ok((installed, warnings)) => {
                    report.warnings = warnings;
                    break Some(installed);
                }
                Err(error) => error,
            };
            match error.blame(&policies, &new) {
                Blame::Types(types) => {
                    new.retain(|name| !types.contains(name));
                    refused.push((types, error.explain(&wish.places)));
                }
                Blame::Configuration if pending.is_some() => {
                    return Ended::Configuration(error.explain(&wish.places));
                }
                Blame::Configuration | Blame::Nobody => {
                    return Ended::Failed(error.explain(&wish.places));
                }
            }
        };
        self.commit(candidate, &new, refused, installed, report);
        if pending.is_some() {
            report.workers = self.workers.change_file(&before.workers, &wish.workers).await;
            if wish.workers.is_empty() && !before.workers.is_empty() {
                report.doubts.push(format!(
                    "the file names no workers any more: the {} that it named are let go; what they \
                     do is finished",
                    before.workers.len()
                ));
            }
        }
        Ended::Done
    }

    /// Writes down what is in place now.
    fn commit(
        &self,
        candidate: &Candidate,
        new: &New,
        refused: Vec<(New, String)>,
        installed: Option<Installed>,
        report: &mut ReloadReport,
    ) {
        let mut state = self.state.lock();
        for (types, reason) in refused {
            let refusals = types
                .iter()
                .filter_map(|name| state.refuse(name, candidate.number, reason.clone()));
            report.refused.extend(refusals);
        }
        if let Some(pending) = &candidate.pending {
            self.shared_cache.take_up(&pending.wish.shared_cache);
            state.wish = pending.wish.clone();
            state.wish_number = candidate.number;
            state.wish_error = None;
            state.pending = None;
            state.needs_restart.clone_from(&pending.needs_restart);
            report.configuration_changed = true;
            report.needs_restart.clone_from(&pending.needs_restart);
        }
        report.replaced.extend(new.iter().filter_map(|name| state.took_up(name)));
        report.replaced.extend(state.forget_unused());
        if let Some(installed) = installed {
            state.warned(&report.warnings);
            report.partitions = installed.partitions;
            report.handed_over = installed.handed_over;
            state.last_install = Some(installed);
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        policies: Policies,
        schemas: TypeSchemas,
    ) -> Result<(Installed, Vec<Warning>), AttemptError> {
        let router = self.dispatcher.router().clone();
        let tried = policies.clone();
        let trial = tokio::task::spawn_blocking(move || {
            let partitions = router.partitions();
            let places = partitions.iter().map(|partition| Place {
                partition: partition.key().clone(),
                block_size: partition.block_size(),
            });
            try_all(&tried, &schemas, &places.collect::<Vec<_>>())
        });
        let Trial { errors, warnings } = trial.await.map_err(|error| {
            AttemptError::Install(InstallError::Build(BuildError::Abandoned(error.to_string())))
        })?;
        if let Some(error) = errors.into_iter().next() {
            return Err(error.into());
        }
        Ok((self.dispatcher.install(policies).await?, warnings))
    }

    /// Counts and logs.
    fn conclude(&self, report: &mut ReloadReport) {
        if report.is_idle() {
            return;
        }
        {
            let mut state = self.state.lock();
            let counts = &mut state.counts;
            counts.attempts += 1;
            let changed = !report.replaced.is_empty() || report.configuration_changed;
            counts.installed += u64::from(changed);
            counts.refused += report.refused.len() as u64;
            counts.last_millis = report.millis;
        }
        for Refusal { what, digest, reason } in &report.refused {
            let digest = digest.as_ref().map_or("none", |digest| digest.short());
            tracing::error!(what, digest, reason, "refused; the last good serves on");
        }
        for doubt in &report.doubts {
            tracing::warn!("{doubt}");
        }
        for Warning { instance, reason } in &report.warnings {
            tracing::warn!(%instance, reason, "a policy is likely not as it is meant");
        }
        for replaced in &report.replaced {
            let short = |digest: &Option<pointsman_core::policy::Digest>| {
                digest.as_ref().map_or_else(|| "none".to_owned(), |d| d.short().to_owned())
            };
            tracing::info!(
                policy_type = %replaced.policy_type,
                from = short(&replaced.from),
                to = short(&replaced.to),
                millis = report.millis,
                "a policy is taken up"
            );
        }
        if report.configuration_changed {
            let needs_restart = report.needs_restart.join(", ");
            tracing::info!(needs_restart, "a changed configuration was taken up");
        }
    }
}
