//! Whole routers over random fleets.

use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::Result;
use pointsman_core::RouteError;
use pointsman_core::clock::{Chance, Moment};
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::hashing::sequence_hash;
use pointsman_core::ids::{DpRank, Role, WorkerId, WorkerRank, WorkerTarget};
use pointsman_core::index::{CacheEvent, Content, Stored, Tier};
use pointsman_core::partition::Mode;
use pointsman_core::policy::{PolicyProvider, SelectionSpec};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};

use super::{catalog, instance, parameters, partition, settings, three};

const TAINTS: [&str; 4] = ["fast", "spot", "eu", "full"];

/// The sequence hashes of a prompt's blocks. Prompts of one family begin alike.
fn chain(family: u64, shared: u64, own: u64, blocks: u64) -> Arc<[u64]> {
    let mut parent = None;
    let link = |at| {
        let hash = sequence_hash(parent, if at < shared { family } else { own ^ at });
        parent = Some(hash);
        hash
    };
    (0..blocks).map(link).collect()
}

fn workers(chance: &mut Chance, role: Role, rows: u32) -> Vec<WorkerSpec> {
    let (mut left, mut id, mut specs) = (rows, 0, Vec::new());
    // Thousands of rows are of workers with many ranks, as they are in life.
    let most = if rows > 200 { 16 } else { 4 };
    while left > 0 {
        let ranks = (1 + chance.below(most) as u32).min(left);
        let mut spec = WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition(role));
        spec.data_parallel_size = NonZeroU32::new(ranks).unwrap();
        spec.total_kv_blocks = Some(10_000);
        let has = TAINTS.into_iter().filter(|_| chance.below(3) == 0);
        spec.taints = has.map(str::to_owned).collect();
        specs.push(spec);
        left -= ranks;
        id += 1 + chance.below(3) as u64;
    }
    specs
}

fn request(chance: &mut Chance, role: Role, rows: &[WorkerRank]) -> RouteRequest {
    let tokens = chance.below(2_000) as u64;
    let mut request = RouteRequest::new("r", partition(role), tokens);
    if chance.below(6) > 0 {
        let (family, shared) = (chance.below(4) as u64, chance.below(100) as u64);
        request.chain = chain(family, shared, chance.bits(), tokens / 16);
        request.prompt_tokens_exact = true;
    }
    if chance.below(3) == 0 {
        let (a, b) = (chance.below(20) as u32, chance.below(60) as u32);
        request.shared_hits = [a..a + 5, a + 10..a + 10 + b].into();
    }
    let constraints = &mut request.constraints;
    if chance.below(3) == 0 {
        let weighed = TAINTS.iter().filter(|_| chance.below(2) == 0).collect::<Vec<_>>();
        let weighed = weighed.into_iter().map(|&t| (t.to_owned(), chance.unit() * 4.0 - 2.0));
        constraints.preferred_taints = weighed.collect();
    }
    if chance.below(8) == 0 {
        constraints.required_taints = [TAINTS[chance.below(4)].to_owned()].into();
    }
    if chance.below(8) == 0 {
        let allowed = rows.iter().filter(|_| chance.below(2) == 0);
        constraints.allowed = Some(allowed.map(|row| row.worker_id).collect());
    }
    if let (Some(row), what @ 0..6) = (rows.get(chance.below(rows.len())), chance.below(20)) {
        let dp_rank = (chance.below(2) == 0).then_some(row.dp_rank);
        let target = Some(WorkerTarget { worker_id: row.worker_id, dp_rank });
        match what {
            0 => constraints.pinned = target,
            _ => request.affinity_target = target,
        }
    }
    request.router_temperature = [None, None, None, Some(0.0), Some(0.4)][chance.below(5)];
    request.track_prefill_tokens = [None, None, None, Some(false), Some(true)][chance.below(5)];
    request
}

/// What all routers are told of one rank's cache: the beginning of a family's prompts on the device,
/// and what follows in slower tiers.
fn store(routers: &[Router], chance: &mut Chance, role: Role, rank: WorkerRank) {
    let hashes = chain(chance.below(4) as u64, 100, 0, 100);
    let slowest = [Tier::Disk, Tier::External][chance.below(2)];
    let mut from = 0;
    for tier in [Tier::Device, Tier::Host, slowest] {
        let to = from + chance.below(hashes.len() - from);
        let (engines, parent) = (&hashes[from..to], from.checked_sub(1).map(|last| hashes[last]));
        let stored = Stored { parent, engines, content: Content::Sequences(engines), tier };
        for router in routers {
            let partition = router.partition(&partition(role)).unwrap();
            partition.cache().apply(rank, CacheEvent::Stored(stored));
        }
        from = to;
    }
}

#[derive(Debug, Default)]
struct Seen {
    decisions: usize,
    refusals: usize,
    overlaps: usize,
    lower: usize,
    narrowed: usize,
}

fn case(three: &[Arc<dyn PolicyProvider>; 3], case: u64, rows: u32, seen: &mut Seen) -> Result<()> {
    let mut chance = Chance::new(case);
    let role = Role::ALL[case as usize % 4];
    let (settings, parameters) = (Arc::new(settings(&mut chance)), parameters(&mut chance));
    let routers = three.each_ref().map(|provider| {
        let instance = instance(provider.policy_type(), &parameters);
        let selection =
            SelectionSpec { roles: [(role, "it".into())].into(), instances: vec![instance] };
        let catalog = catalog(provider);
        Router::new(
            Policies { catalog, selection, settings: settings.clone(), ..Policies::default() },
            7,
        )
    });
    let specs = workers(&mut chance, role, rows);
    for (router, spec) in routers.iter().flat_map(|r| specs.iter().map(move |spec| (r, spec))) {
        router.upsert_worker(spec.clone())?;
    }
    let ranks = |spec: &WorkerSpec| {
        let worker_id = spec.worker_id;
        spec.ranks().map(move |dp_rank: DpRank| WorkerRank { worker_id, dp_rank })
    };
    let rows: Vec<WorkerRank> = specs.iter().flat_map(ranks).collect();
    for &rank in &rows {
        // One in three tells nothing: what is predicted speaks for it.
        for _ in 0..chance.below(3) {
            store(&routers, &mut chance, role, rank);
        }
    }
    let mut leases = Vec::new();
    for n in 0..12 {
        let request = request(&mut chance, role, &rows);
        let moment = Moment { now_ms: n * 100, seed: chance.bits() };
        let mode = if n % 3 == 0 { Mode::DryRun } else { Mode::Book };
        let place =
            || format!("case {case}, decision {n}: {request:?} {parameters:?} {settings:?}");
        let answers = routers.each_ref().map(|router| router.route(&request, moment, mode));
        let [builtin, native, component] = answers;
        let theirs = [native, component];
        let Ok(builtin) = builtin else {
            let error: Option<RouteError> = builtin.err();
            for other in theirs {
                assert_eq!(other.err(), error, "{}", place());
            }
            seen.refusals += 1;
            continue;
        };
        let of = builtin.receipt;
        for other in theirs {
            let other = other.unwrap_or_else(|error| panic!("{error}: {}", place()));
            let to = other.receipt;
            assert_eq!(
                (to.worker, to.cost.to_bits()),
                (of.worker, of.cost.to_bits()),
                "{}",
                place()
            );
            assert_eq!((to.kept, to.overlap), (of.kept, of.overlap), "{}", place());
            let costs = |rows: &Option<Vec<_>>| -> Vec<Option<u64>> {
                let rows: &[pointsman_core::receipt::RowReport] = rows.as_deref().unwrap_or(&[]);
                rows.iter().map(|row| row.cost.map(f64::to_bits)).collect()
            };
            assert_eq!(costs(&to.rows), costs(&of.rows), "{}", place());
            assert_eq!(to.rows.is_some(), mode == Mode::DryRun);
            if chance_keeps(case, n) {
                leases.push(other.lease);
            }
        }
        if chance_keeps(case, n) {
            leases.push(builtin.lease);
        }
        seen.decisions += 1;
        seen.overlaps += usize::from(of.overlap.device_blocks > 0);
        seen.lower += usize::from(of.overlap.host_blocks + of.overlap.disk_blocks > 0);
        seen.narrowed += usize::from(of.kept < of.eligible);
    }
    Ok(())
}

/// Whether a decision's requests go on; the same for all routers.
fn chance_keeps(case: u64, n: u64) -> bool {
    Chance::new(case ^ n << 32).below(3) > 0
}

#[test]
fn whole_routers_choose_the_same_rows_at_the_same_costs() -> Result<()> {
    let (three, mut seen) = (three()?, Seen::default());
    for n in 0..120 {
        let rows = match n % 10 {
            0 => 0,
            1 => 1,
            2 | 3 => 64,
            4 if n < 40 => 1_000,
            _ => 2 + (n as u32 * 37) % 60,
        };
        case(&three, n, rows, &mut seen)?;
    }
    for (count, what) in [
        (seen.refusals, "requests that nobody may have"),
        (seen.overlaps, "choices of what is cached on the device"),
        (seen.lower, "choices of what is cached in a slower tier"),
        (seen.narrowed, "sessions that stay"),
    ] {
        assert!(count >= 50, "only {count} {what}: {seen:?}");
    }
    assert!(seen.decisions > 900, "{seen:?}");
    Ok(())
}
