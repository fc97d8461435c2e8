//! A configured policy: the five calls of the contract, on plain Rust values.
//!
//! The component's exports call this, and so does a native build, so both run the same code from
//! the lists on. Buffers are kept between calls: a warm call allocates nothing of its own.

mod fused;
mod left;

pub use fused::Decision;

use crate::candidates::{Candidates, Named, Undeclared};
use crate::context::{Context, Stream};
use crate::declaration::Declaration;
use crate::fleet::Member;
use crate::layout::Layout;
use crate::lists::{self, Lists, Spread};
use crate::observer::Outcome;
use crate::policy::{Part, Policy, Stages};
use crate::request::{Environment, Request};
use crate::{Refusal, Result, log, parameters, pick};

/// One instance of a policy, which serves one partition.
#[derive(Debug)]
pub struct Instance {
    environment: Environment,
    stages: Stages,
    declaration: Declaration,
    scratch: fused::Scratch,
    spread: Spread,
}

impl Instance {
    /// Parses the parameters and builds the policy.
    ///
    /// # Errors
    ///
    /// Whatever the parameters or the policy refuse.
    pub fn configure<P: Policy>(environment: Environment) -> Result<Self> {
        if environment.partition.block_size == 0 {
            return Err(Refusal::from("the partition's block size is 0; the router must give one"));
        }
        let parameters = parameters::parse::<P::Parameters>(&environment.parameters)?;
        let mut stages = P::build(parameters, &environment)?;
        stages.lay_out()?;
        let declaration = Declaration::of(&stages);
        Ok(Self {
            environment,
            stages,
            declaration,
            scratch: fused::Scratch::default(),
            spread: Spread::default(),
        })
    }

    /// Tokens in one KV block; never zero.
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn block_size(&self) -> u64 {
        u64::from(self.environment.partition.block_size)
    }

    /// What the instance declares.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// One filter's verdicts, as a bit mask over the rows.
    ///
    /// # Errors
    ///
    /// The filter's refusal, an undeclared read, or lists that don't match the declaration.
    pub fn keep(
        &mut self,
        filter: usize,
        request: &Request,
        lists: Lists<'_>,
        mask: &mut Vec<u64>,
    ) -> Result {
        let Self { environment, stages, spread, .. } = self;
        let part = stages.filters.get_mut(filter).ok_or("there is no such filter")?;
        spread.hold(lists, part.alone.matrix());
        let call = Call { request, environment, spread, stream: Stream::Filter(filter) };
        call.run("filter", part, Which::Alone, lists, |stage, cx, rows| stage.run(cx, rows, mask))?;
        if mask.is_empty() {
            keep_all(mask, lists.rows as usize);
        }
        Ok(())
    }

    /// One scorer's costs. A row that the scorer left out stays NaN, for the host to find.
    ///
    /// # Errors
    ///
    /// The scorer's refusal, an undeclared read, or lists that don't match the declaration.
    pub fn score(
        &mut self,
        scorer: usize,
        request: &Request,
        lists: Lists<'_>,
        costs: &mut Vec<f64>,
    ) -> Result {
        let Self { environment, stages, spread, .. } = self;
        let part = stages.scorers.get_mut(scorer).ok_or("there is no such scorer")?;
        spread.hold(lists, part.alone.matrix());
        let call = Call { request, environment, spread, stream: Stream::Scorer(scorer) };
        call.run("scorer", part, Which::Alone, lists, |stage, cx, rows| {
            unscored(costs, rows.len());
            stage.score(cx, rows, costs)
        })
    }

    /// The picker's choice; the lowest cost when the policy has no picker.
    ///
    /// # Errors
    ///
    /// The picker's refusal, an undeclared read, or lists that don't match the declaration.
    pub fn pick(&mut self, request: &Request, lists: Lists<'_>, costs: &[f64]) -> Result<u32> {
        if costs.len() != lists.rows as usize {
            return Err(format!(
                "the router sent {} costs for {} rows; \
                 it and the policy disagree about the contract",
                costs.len(),
                lists.rows
            )
            .into());
        }
        let Self { environment, stages, spread, .. } = self;
        if let Some(part) = &stages.picker {
            spread.hold(lists, part.alone.matrix());
        }
        let call = Call { request, environment, spread, stream: Stream::Picker };
        call.pick(stages.picker.as_mut(), Which::Alone, lists, costs)
    }

    /// Tells the observer, where there is one.
    pub fn observe(&mut self, outcomes: &[Outcome]) {
        if let Some(observer) = &mut self.stages.observer {
            if let Err(refusal) = observer.observe(outcomes) {
                log::warn(format!("outcomes were not taken: {refusal}"));
            }
        }
    }

    /// Tells the fleet follower, where there is one.
    pub fn fleet_changed(&mut self, generation: u64, members: &[Member]) {
        if let Some(follower) = &mut self.stages.fleet {
            if let Err(refusal) = follower.fleet_changed(generation, members) {
                log::warn(format!("fleet generation {generation} was not taken: {refusal}"));
            }
        }
    }

    /// The state for the next version; empty when the policy carries none.
    ///
    /// # Errors
    ///
    /// The policy's refusal.
    pub fn save(&self) -> Result<Vec<u8>> {
        self.stages.handover.as_ref().map_or(Ok(Vec::new()), |handover| handover.save())
    }

    /// Takes the state of the version before; nothing happens when the policy carries none.
    ///
    /// # Errors
    ///
    /// The policy's refusal.
    pub fn restore(&mut self, state: &[u8]) -> Result {
        self.stages.handover.as_mut().map_or(Ok(()), |handover| handover.restore(state))
    }
}

/// Which of a part's layouts a call uses.
#[derive(Debug, Clone, Copy)]
enum Which {
    Alone,
    Fused,
}

/// One stage call's circumstances.
#[derive(Clone, Copy)]
struct Call<'a> {
    request: &'a Request,
    environment: &'a Environment,
    spread: &'a Spread,
    stream: Stream,
}

/// Costs of so many rows that no scorer has written yet.
fn unscored(costs: &mut Vec<f64>, rows: usize) {
    /// Copied, since a turn of a loop isn't free.
    static NANS: [f64; 64] = [f64::NAN; 64];
    costs.clear();
    costs.reserve_exact(rows);
    while costs.len() < rows {
        costs.extend_from_slice(&NANS[..NANS.len().min(rows - costs.len())]);
    }
}

/// Sets the bit of each of so many rows.
fn keep_all(mask: &mut Vec<u64>, rows: usize) {
    mask.clear();
    mask.resize(rows.div_ceil(64), u64::MAX);
    if let (Some(last), rest @ 1..) = (mask.last_mut(), rows % 64) {
        *last = (1 << rest) - 1;
    }
}

impl Call<'_> {
    /// Runs one stage over a view of the lists, and turns an undeclared read into a refusal.
    fn run<T: ?Sized, R>(
        self,
        kind: &str,
        part: &mut Part<T>,
        which: Which,
        lists: Lists<'_>,
        stage: impl FnOnce(&mut T, &Context<'_>, &Candidates<'_>) -> Result<R>,
    ) -> Result<R> {
        let layout: &Layout = match which {
            Which::Alone => &part.alone,
            Which::Fused => &part.fused,
        };
        let undeclared = Undeclared::default();
        // Those of a fused call were looked at before.
        let checked = match which {
            Which::Alone => lists::check(lists, layout.matrix()),
            Which::Fused => Ok(()),
        };
        let result = checked.and_then(|()| {
            let written;
            let named = if layout.named().is_empty() {
                Named::NONE
            } else {
                written = Named::new(lists, self.spread, layout);
                &written
            };
            let candidates = Candidates::new(lists, named, self.spread, layout, &undeclared);
            let cx = Context {
                request: self.request,
                partition: &self.environment.partition,
                prefix_hashes: lists.prefix_hashes,
                stream: self.stream,
            };
            stage(&mut part.stage, &cx, &candidates)
        });
        match (result, undeclared.take()) {
            (Ok(result), None) => Ok(result),
            (Ok(_), Some(input)) => Err(Refusal::from(format!(
                "it reads \"{}\" without declaring it; return Input::{input:?} from inputs() too",
                input.name()
            ))),
            (Err(refusal), _) => Err(refusal),
        }
        .map_err(|refusal| refusal.at(format_args!("{kind} \"{}\"", part.name)))
    }

    /// Runs the picker, or does what the host does without one.
    fn pick(
        self,
        picker: Option<&mut Part<dyn crate::WorkerPicker>>,
        which: Which,
        lists: Lists<'_>,
        costs: &[f64],
    ) -> Result<u32> {
        let Some(part) = picker else {
            return Ok(pick::lowest(costs, &mut self.stream.of(self.request.seed)) as u32);
        };
        let row =
            self.run("picker", part, which, lists, |stage, cx, rows| stage.pick(cx, rows, costs))?;
        // An index past u32 is past any list too, and the host refuses it as such.
        Ok(u32::try_from(row).unwrap_or(u32::MAX))
    }
}
