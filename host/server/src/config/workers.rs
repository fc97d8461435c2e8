//! `workers`: those that are there from the start.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroU32;

use pointsman_core::fleet::{DEFAULT_BLOCK_SIZE, MAX_RANKS_PER_WORKER, WorkerSpec};
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role, WorkerId};

use super::cache_feed;
use super::disaggregation::{self, Spoken};
use super::document::Value;
use super::keys::WORKER;
use super::places::Places;
use super::reader::{Fields, Reader, Spot};
use super::scalar::{self, count};

/// The model of workers that name none.
const DEFAULT_MODEL: &str = "default";

/// The most taints, adapters and labels of one worker: they are copied with every snapshot.
const MOST_MARKS: usize = 64;

const ROLES: &[(&str, Role)] = &[
    ("aggregated", Role::Aggregated),
    ("prefill", Role::Prefill),
    ("decode", Role::Decode),
    ("encode", Role::Encode),
];

pub(super) fn read(cx: &mut Reader<'_>, spot: &Spot<'_>, places: &mut Places) -> Vec<WorkerSpec> {
    let mut workers = Vec::new();
    let mut block_sizes = BTreeMap::new();
    let mut spoken = Spoken::new();
    for item in cx.list(spot) {
        let Some(fields) = cx.fields(&item, &WORKER) else { continue };
        let id = cx.required(&fields, "worker_id");
        let id = id.and_then(|spot| cx.read(&spot, count(0..=u64::MAX))).map(WorkerId);
        // What is wrong with the rest is no reason to keep quiet about others of the same id.
        if let Some(id) = id {
            unique(cx, &fields, id, places);
        }
        let endpoint = cx.required(&fields, "endpoint");
        let endpoint = endpoint.and_then(|spot| cx.read_url(&spot, scalar::endpoint));
        let is_sound = id.is_some() && endpoint.is_some();
        let worker = worker(cx, &fields, id.unwrap_or(WorkerId(0)), endpoint.unwrap_or_default());
        if id.is_none() {
            continue;
        }
        disaggregation::compare(cx, &fields, &item, &worker, &mut spoken);
        // The first worker of a partition sets its block size.
        let line = cx.at(&item).place.line;
        let set = block_sizes.entry(worker.partition.clone());
        let (size, first, line) = *set.or_insert((worker.block_size, worker.worker_id, line));
        if size != worker.block_size {
            let spot = fields.get("block_size").unwrap_or_else(|| item.clone());
            let what = format!(
                "a block size of {} in partition {}, where worker {first} in line {line} has {size}",
                worker.block_size, worker.partition
            );
            let remedy = "start the engine with the same, or give the worker another routing_group";
            cx.refuse(&spot, what, remedy);
        }
        if is_sound {
            workers.push(worker);
        }
    }
    workers
}

fn unique(cx: &mut Reader<'_>, fields: &Fields<'_>, id: WorkerId, places: &mut Places) {
    let Some(spot) = fields.get("worker_id") else { return };
    match places.workers.entry(id) {
        Entry::Vacant(entry) => {
            entry.insert(cx.at(fields.spot()));
        }
        Entry::Occupied(first) => {
            let line = first.get().place.line;
            let what = format!("another worker, in line {line}, has the id {id}");
            cx.refuse(&spot, what, "choose another id; the ranks of one engine are one worker");
        }
    }
}

fn worker(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    worker_id: WorkerId,
    endpoint: String,
) -> WorkerSpec {
    let (mut model, mut routing_group) = (DEFAULT_MODEL.to_owned(), DEFAULT_GROUP.to_owned());
    let mut role = Role::default();
    cx.set(fields, "model", scalar::name, &mut model);
    cx.set(fields, "routing_group", scalar::name, &mut routing_group);
    cx.set(fields, "role", scalar::word(ROLES), &mut role);

    let mut start = 0;
    let mut size = NonZeroU32::MIN;
    let mut block_size = DEFAULT_BLOCK_SIZE;
    // Rank 2^32 - 1 stands for "not set" on some engines' wires, so none may have it.
    let last_start = u64::from(u32::MAX) - 1;
    cx.set(fields, "data_parallel_start_rank", count(0..=last_start), &mut start);
    let ranks = positive(MAX_RANKS_PER_WORKER);
    cx.set(fields, "data_parallel_size", ranks, &mut size);
    cx.set(fields, "block_size", positive(u32::MAX), &mut block_size);
    if u32::checked_add(start, size.get()).is_none() {
        let what = format!("{size} ranks from rank {start}");
        let spot = fields.get("data_parallel_start_rank");
        let spot = spot.unwrap_or_else(|| fields.spot().clone());
        cx.refuse(&spot, what, "lower it: the last rank must be below 2^32 - 1");
    }

    let taints = fields.get("taints").map(|spot| cx.names(&spot, MOST_MARKS));
    let lora_adapters = fields.get("lora_adapters").map(|spot| cx.names(&spot, MOST_MARKS));
    let labels = fields.get("labels").map(|spot| labels(cx, &spot));
    let total_kv_blocks = cx.optional(fields, "total_kv_blocks", count(1..=u64::MAX));
    let max_num_batched_tokens = cx.optional(fields, "max_num_batched_tokens", count(1..=u64::MAX));
    let device_kind = cx.optional(fields, "device_kind", scalar::name);

    let disaggregation = disaggregation::read(cx, fields, role);
    let cache_feed = cache_feed::read(cx, fields, start, size);

    WorkerSpec {
        worker_id,
        endpoint,
        partition: PartitionKey { model: model.into(), routing_group: routing_group.into(), role },
        data_parallel_start_rank: start,
        data_parallel_size: size,
        block_size,
        taints: taints.unwrap_or_default(),
        lora_adapters: lora_adapters.unwrap_or_default(),
        labels: labels.unwrap_or_default(),
        total_kv_blocks,
        max_num_batched_tokens,
        device_kind,
        disaggregation,
        cache_feed,
    }
}

/// What each worker of a list is like, but for its id and its endpoint.
pub(super) fn like(cx: &mut Reader<'_>, fields: &Fields<'_>) -> WorkerSpec {
    worker(cx, fields, WorkerId(0), String::new())
}

/// The same where nothing is said of it.
pub(super) fn plain() -> WorkerSpec {
    let key = PartitionKey {
        model: DEFAULT_MODEL.into(),
        routing_group: DEFAULT_GROUP.into(),
        role: Role::default(),
    };
    WorkerSpec::new(WorkerId(0), "", key)
}

fn positive(most: u32) -> impl Fn(&str) -> scalar::Read<NonZeroU32> {
    move |text| {
        let number = count::<u32>(1..=u64::from(most))(text)?;
        NonZeroU32::new(number).ok_or_else(|| scalar::Expected::new("at least 1"))
    }
}

fn labels(cx: &mut Reader<'_>, spot: &Spot<'_>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    if let Value::Mapping(entries) = &spot.node().value
        && entries.len() > MOST_MARKS
    {
        cx.refuse(spot, format!("{} labels", entries.len()), format!("keep at most {MOST_MARKS}"));
        return labels;
    }
    for (key, spot) in cx.entries(spot) {
        let value = cx.read(&spot, scalar::name);
        match scalar::name(key) {
            Ok(key) => labels.extend(value.map(|value| (key, value))),
            Err(expected) => {
                cx.refuse(&spot, "the label's name", format!("use {}", expected.expected))
            }
        }
    }
    labels
}
