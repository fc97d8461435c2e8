//! Who serves a model's requests: workers that do all of one, or two that share it.
//!
//! Owns the rule, by which workers there are now, which of them have the adapter that a request is for, and
//! what the configuration wants. It doesn't know what any of them has to do.

use pointsman_core::disaggregation::Protocol;
use pointsman_core::fleet::{Availability, Worker};
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::router::Router;

use crate::config::DisaggregationMode;

/// Who serves a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::openai) enum Plan {
    /// One worker of a partition.
    One(PartitionKey),
    /// Two.
    Two(Pair),
}

/// The partitions that two workers are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::openai) struct Pair {
    pub(in crate::openai) prefill: PartitionKey,
    pub(in crate::openai) decode: PartitionKey,
    /// What their workers speak.
    pub(in crate::openai) protocol: Protocol,
}

/// The workers of one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    /// There are none.
    Empty,
    /// None of them can be given anything for now.
    Down,
    /// Some can, now or as soon as it has less to do.
    Up,
}

/// What there is for a model.
#[derive(Clone, Copy, Debug)]
struct Pools {
    aggregated: Pool,
    prefill: Pool,
    decode: Pool,
    protocol: Protocol,
}

/// One role's workers, for a request.
#[derive(Clone, Copy, Debug)]
struct Looked {
    pool: Pool,
    protocol: Protocol,
    /// Some of them have the adapter that the request is for. Then the others don't count.
    has_adapter: bool,
}

/// The rule's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Aggregated,
    /// A decode worker, which computes the prompt as well.
    DecodeAlone,
    Both,
}

impl Plan {
    /// Whose workers compute the prompt.
    pub(in crate::openai) fn prompts(&self) -> &PartitionKey {
        match self {
            Self::One(partition) => partition,
            Self::Two(pair) => &pair.prefill,
        }
    }

    /// Who serves a request of a model, whose `aggregated` partition this would be. `shareable`: it is
    /// one that two workers can share. `pinned`: the worker that is to answer it, if the client says.
    /// `adapter`: the LoRA adapter that it is for.
    pub(in crate::openai) fn of(
        router: &Router,
        aggregated: PartitionKey,
        mode: DisaggregationMode,
        shareable: bool,
        pinned: Option<WorkerId>,
        adapter: Option<&str>,
    ) -> Self {
        if mode == DisaggregationMode::Off {
            return Self::One(aggregated);
        }
        let of_role = |role| PartitionKey { role, ..aggregated.clone() };
        let (prefill, decode) = (of_role(Role::Prefill), of_role(Role::Decode));
        let (decodes, prefills) = (look(router, &decode, adapter), look(router, &prefill, adapter));
        // As for nearly all fleets.
        if (decodes.pool, prefills.pool) == (Pool::Empty, Pool::Empty) {
            return Self::One(aggregated);
        }
        let alone = look(router, &aggregated, adapter);
        let mut whole = alone.pool;
        let role =
            pinned.and_then(|id| router.worker(id)).map(|worker| worker.spec.partition.clone());
        if role.as_ref() == Some(&aggregated) {
            return Self::One(aggregated);
        }
        if role.as_ref() == Some(&decode) {
            whole = Pool::Empty;
        }
        // Who has the adapter is preferred to all others; of two who share, both are to have it.
        let pair_has_adapter = prefills.has_adapter && decodes.has_adapter;
        if whole == Pool::Up && alone.has_adapter && !pair_has_adapter {
            return Self::One(aggregated);
        }
        let protocol = decodes.protocol;
        let (prefills, decodes) = (prefills.pool, decodes.pool);
        let pools = Pools { aggregated: whole, prefill: prefills, decode: decodes, protocol };
        match choose(pools, mode, shareable) {
            Choice::Aggregated => Self::One(aggregated),
            Choice::DecodeAlone => Self::One(decode),
            Choice::Both => Self::Two(Pair { prefill, decode, protocol }),
        }
    }
}

/// The rule. Two share what can be shared while both are there; aggregated workers are who stands in for
/// them; a decode worker that can do it serves alone where nobody else is there. Where nobody is, an
/// error is to name who is missing.
fn choose(pools: Pools, mode: DisaggregationMode, shareable: bool) -> Choice {
    let Pools { aggregated, prefill, decode, protocol } = pools;
    if shareable && prefill == Pool::Up && decode == Pool::Up {
        return Choice::Both;
    }
    if aggregated == Pool::Up {
        return Choice::Aggregated;
    }
    let may_be_alone = match shareable {
        true => mode == DisaggregationMode::Auto && protocol == Protocol::Vllm,
        // The engine's business, as long as it isn't ours.
        false => true,
    };
    match (decode, aggregated) {
        (Pool::Up, _) if may_be_alone => Choice::DecodeAlone,
        (Pool::Down, Pool::Empty) if may_be_alone && prefill == Pool::Empty => Choice::DecodeAlone,
        _ if shareable && aggregated == Pool::Empty => Choice::Both,
        _ if decode == Pool::Down && aggregated == Pool::Empty => Choice::DecodeAlone,
        _ => Choice::Aggregated,
    }
}

/// A partition's workers, and what they speak.
fn look(router: &Router, partition: &PartitionKey, adapter: Option<&str>) -> Looked {
    let Some(partition) = router.partition(partition) else {
        let protocol = Protocol::default();
        return Looked { pool: Pool::Empty, protocol, has_adapter: false };
    };
    let snapshot = partition.ledger().snapshot();
    let protocol = snapshot.workers.first().map(|worker| worker.spec.disaggregation.protocol);
    let has = |worker: &Worker| adapter.is_some_and(|it| worker.spec.lora_adapters.contains(it));
    let has_adapter = snapshot.workers.iter().any(has);
    let usable = [Availability::Ready, Availability::Overloaded];
    let up =
        |worker: &Worker| usable.contains(&worker.availability) && (!has_adapter || has(worker));
    let pool = match () {
        () if snapshot.workers.is_empty() => Pool::Empty,
        () if snapshot.workers.iter().any(up) => Pool::Up,
        () => Pool::Down,
    };
    Looked { pool, protocol: protocol.unwrap_or_default(), has_adapter }
}

#[cfg(test)]
mod tests {
    use super::Choice::{Aggregated, Both, DecodeAlone};
    use super::Pool::{Down, Empty, Up};
    use super::*;
    use crate::config::DisaggregationMode::{Auto, Enforce};

    fn chosen(mode: DisaggregationMode, shareable: bool, pools: [Pool; 3]) -> Choice {
        let [aggregated, prefill, decode] = pools;
        let protocol = Protocol::Vllm;
        choose(Pools { aggregated, prefill, decode, protocol }, mode, shareable)
    }

    #[test]
    fn two_share_what_they_can_and_others_stand_in_for_them() {
        for (pools, auto, enforced) in [
            ([Up, Empty, Empty], Aggregated, Aggregated),
            ([Empty, Up, Up], Both, Both),
            ([Up, Up, Up], Both, Both),
            ([Up, Down, Up], Aggregated, Aggregated),
            ([Up, Up, Down], Aggregated, Aggregated),
            ([Down, Up, Up], Both, Both),
            ([Empty, Down, Up], DecodeAlone, Both),
            ([Empty, Empty, Up], DecodeAlone, Both),
            ([Empty, Empty, Down], DecodeAlone, Both),
            ([Empty, Up, Empty], Both, Both),
            ([Empty, Up, Down], Both, Both),
            ([Empty, Down, Down], Both, Both),
            ([Down, Empty, Up], DecodeAlone, Aggregated),
            ([Down, Down, Down], Aggregated, Aggregated),
        ] {
            assert_eq!(chosen(Auto, true, pools), auto, "{pools:?}");
            assert_eq!(chosen(Enforce, true, pools), enforced, "{pools:?}, enforced");
        }
    }

    #[test]
    fn an_sglang_decode_worker_is_never_alone_with_a_prompt() {
        let alone = |pools: [Pool; 3]| {
            let [aggregated, prefill, decode] = pools;
            let pools = Pools { aggregated, prefill, decode, protocol: Protocol::Sglang };
            choose(pools, Auto, true)
        };
        assert_eq!(alone([Empty, Empty, Up]), Both);
        assert_eq!(alone([Empty, Down, Up]), Both);
        assert_eq!(alone([Up, Down, Up]), Aggregated);
    }

    #[test]
    fn what_cannot_be_shared_goes_to_whoever_answers() {
        for (pools, expected) in [
            ([Up, Up, Up], Aggregated),
            ([Empty, Up, Up], DecodeAlone),
            ([Empty, Up, Down], DecodeAlone),
            ([Down, Up, Up], DecodeAlone),
            ([Empty, Up, Empty], Aggregated),
        ] {
            assert_eq!(chosen(Enforce, false, pools), expected, "{pools:?}");
        }
    }
}
