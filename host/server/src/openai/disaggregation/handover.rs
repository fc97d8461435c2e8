//! What the two workers of a request are told, by protocol.
//!
//! | | vLLM | SGLang |
//! |---|---|---|
//! | sent | the prefill first, the decode when that is answered | both at once |
//! | prefill | `kv_transfer_params` that ask to keep the blocks; one token, no stream | where and under which number the two meet |
//! | decode | `kv_transfer_params` as the prefill's answer has them | the same |
//!
//! A client's own values of these fields are left out: where blocks are fetched from is between the
//! workers. The one token of a vLLM prefill must not be a stop token (`min_tokens`), or the engine takes
//! the request for done and keeps nothing.

use axum::body::Bytes;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::DpRank;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::batch::batch;
use super::splice::Members;

const PARAMS: &str = "kv_transfer_params";
const HOST: &str = "bootstrap_host";
const PORT: &str = "bootstrap_port";
const ROOM: &str = "bootstrap_room";
const RANK: &str = "routed_dp_rank";
const PREFILL_RANK: &str = "disagg_prefill_dp_rank";
const MOST_COMPLETION: &str = "max_completion_tokens";

/// What only the router says.
const ROUTERS: [&str; 6] = [PARAMS, HOST, PORT, ROOM, RANK, PREFILL_RANK];

/// What a vLLM prefill is told otherwise than the client says, beside that.
const OF_PREFILL: [&str; 6] = [
    "stream",
    "stream_options",
    "max_tokens",
    MOST_COMPLETION,
    "min_tokens",
    "min_completion_tokens",
];

/// What asks a vLLM to keep a prompt's blocks for another.
const KEEP: &str = r#"{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}"#;

/// A client's body, looked through for what is to be changed in it.
#[derive(Debug)]
pub(in crate::openai) struct Original(Members);

impl Original {
    /// None if the body isn't one JSON object.
    pub(in crate::openai) fn read(body: Bytes) -> Option<Self> {
        Members::find(body, &[&ROUTERS[..], &OF_PREFILL].concat()).map(Self)
    }

    /// How many prompts stand in it in a list; none if it has one, that is in none.
    pub(in crate::openai) fn batch(&self) -> Option<usize> {
        batch(self.0.body())
    }

    /// For a decode worker that computes the prompt, too.
    pub(in crate::openai) fn alone(&self) -> Bytes {
        self.0.spliced(&ROUTERS, &[])
    }

    /// For a vLLM that is to keep the prompt's blocks.
    pub(in crate::openai) fn vllm_prefill(&self) -> Bytes {
        let mut with = vec![("max_tokens", "1"), ("min_tokens", "1"), ("stream", "false")];
        if self.0.has(MOST_COMPLETION) {
            with.push((MOST_COMPLETION, "1"));
        }
        with.push((PARAMS, KEEP));
        self.0.spliced(&[&ROUTERS[..], &OF_PREFILL].concat(), &with)
    }

    /// For a vLLM that is to fetch them; none if nobody said where they are.
    pub(in crate::openai) fn vllm_decode(&self, params: Option<&str>) -> Bytes {
        let with = params.map(|params| (PARAMS, params));
        self.0.spliced(&ROUTERS, with.as_slice())
    }

    /// For an SGLang worker of either role.
    pub(in crate::openai) fn sglang(&self, meeting: &Meeting, rank: Option<DpRank>) -> Bytes {
        let Meeting { host, port, rooms, in_list, prefill_rank } = meeting;
        let each = |text: String| match in_list {
            true => format!("[{}]", vec![text; rooms.len()].join(",")),
            false => text,
        };
        let listed = rooms.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let room = if *in_list { format!("[{listed}]") } else { listed };
        let quoted = serde_json::to_string(host).unwrap_or_default();
        let (host, port) = (each(quoted), each(port.to_string()));
        let (rank, prefill) = (rank.map(|r| r.to_string()), prefill_rank.map(|r| r.to_string()));
        let mut with: Vec<(&str, &str)> = vec![(HOST, &host), (PORT, &port), (ROOM, &room)];
        with.extend(rank.as_deref().map(|rank| (RANK, rank)));
        with.extend(prefill.as_deref().map(|rank| (PREFILL_RANK, rank)));
        self.0.spliced(&ROUTERS, &with)
    }
}

/// Where two SGLang workers meet for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::openai) struct Meeting {
    host: String,
    port: u16,
    /// One number for each prompt.
    rooms: Vec<u64>,
    /// Whether all of that is told in lists.
    in_list: bool,
    /// The prefill worker's rank, if it has several.
    prefill_rank: Option<DpRank>,
}

impl Meeting {
    /// At the prefill worker, for one prompt or so many in a list.
    pub(in crate::openai) fn at(prefill: &WorkerSpec, rank: DpRank, batch: Option<usize>) -> Self {
        let authority = prefill.endpoint.split_once("://").map_or("", |(_, authority)| authority);
        let authority = authority.trim_end_matches('/');
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let several = prefill.data_parallel_size.get() > 1;
        let ranks =
            prefill.data_parallel_size.get().saturating_add(prefill.data_parallel_start_rank);
        let rooms =
            (0..batch.unwrap_or(1).max(1)).map(|_| room(rank, if several { ranks } else { 1 }));
        Self {
            host: host.to_owned(),
            port: prefill.disaggregation.met_at(),
            rooms: rooms.collect(),
            in_list: batch.is_some(),
            prefill_rank: several.then_some(rank),
        }
    }
}

/// A number that nobody else has, below 2^63. Engines that are told no rank take the number for it.
fn room(rank: DpRank, ranks: u32) -> u64 {
    let (_, random) = Uuid::new_v4().as_u64_pair();
    // Of this half, the first two bits are always the same.
    let random = random & (u64::MAX >> 2);
    let ranks = u64::from(ranks.max(1));
    random - random % ranks + u64::from(rank.0) % ranks
}

/// Where the answer to a vLLM prefill says that the blocks are; none if it says nothing.
///
/// # Errors
///
/// It is no JSON object.
pub(in crate::openai) fn handed_over(answer: &[u8]) -> Result<Option<&str>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        kv_transfer_params: Option<&'a RawValue>,
    }
    let answer: Answer<'_> = serde_json::from_slice(answer)?;
    let params = answer.kv_transfer_params.map(RawValue::get);
    Ok(params.filter(|params| params.starts_with('{')))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use std::num::NonZeroU32;

    use pointsman_core::disaggregation::Disaggregation;
    use pointsman_core::ids::WorkerId;
    use serde_json::{Value, json};

    use super::*;
    use crate::serve::testing::partition;

    fn original(body: &Value) -> Original {
        Original::read(body.to_string().into()).unwrap()
    }

    fn parsed(body: &Bytes) -> Value {
        serde_json::from_slice(body).unwrap()
    }

    #[test]
    fn a_vllm_prefill_keeps_the_blocks_of_one_token_that_is_no_stop() {
        let body = json!({
            "model": "m", "messages": [], "stream": true, "stream_options": { "include_usage": true },
            "max_tokens": 100, "max_completion_tokens": 90, "min_tokens": 20, "temperature": 0.5,
            "kv_transfer_params": { "remote_host": "evil" }, "bootstrap_host": "evil", "routed_dp_rank": 1,
        });
        let keep = json!({
            "do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
            "remote_block_ids": null, "remote_host": null, "remote_port": null,
        });
        let prefill = parsed(&original(&body).vllm_prefill());
        assert_eq!(
            prefill,
            json!({
                "model": "m", "messages": [], "temperature": 0.5, "stream": false, "max_tokens": 1,
                "max_completion_tokens": 1, "min_tokens": 1, "kv_transfer_params": keep,
            })
        );
        let short = parsed(&original(&json!({ "prompt": "x" })).vllm_prefill());
        assert_eq!(short.get("max_completion_tokens"), None, "{short}");
    }

    #[test]
    fn a_vllm_decode_fetches_what_the_prefill_kept_and_from_nowhere_else() {
        let mut body = json!({ "prompt": "x", "max_tokens": 9, "kv_transfer_params": { "remote_host": "evil" } });
        let answer =
            br#"{"id":"1","kv_transfer_params":{"remote_port": 7,"x":[1, 2]},"usage":null}"#;
        let params = handed_over(answer).unwrap();
        assert_eq!(params, Some(r#"{"remote_port": 7,"x":[1, 2]}"#));
        let decode = parsed(&original(&body).vllm_decode(params));
        let nothing = parsed(&original(&body).vllm_decode(None));
        body["kv_transfer_params"] = json!({ "remote_port": 7, "x": [1, 2] });
        assert_eq!(decode, body);
        assert_eq!(nothing, json!({ "prompt": "x", "max_tokens": 9 }));
        assert_eq!(parsed(&original(&body).alone()), nothing);
        for nothing in
            [&br#"{"kv_transfer_params":null}"#[..], b"{}", br#"{"kv_transfer_params":"x"}"#]
        {
            assert_eq!(handed_over(nothing).unwrap(), None);
        }
        assert!(handed_over(b"oops").is_err() && handed_over(b"[]").is_err());
    }

    #[test]
    fn sglang_workers_are_told_the_same_meeting_and_their_own_ranks() {
        let mut prefill = WorkerSpec::new(WorkerId(1), "http://[::1]:30000", partition());
        prefill.disaggregation =
            Disaggregation { bootstrap_port: Some(9_000), ..Disaggregation::default() };
        let body = original(&json!({ "prompt": "x", "bootstrap_room": 1, "routed_dp_rank": 4 }));
        let meeting = Meeting::at(&prefill, DpRank(0), None);
        let told = parsed(&body.sglang(&meeting, None));
        assert_eq!(
            (&told["bootstrap_host"], &told["bootstrap_port"]),
            (&json!("[::1]"), &json!(9_000))
        );
        assert_eq!(told["bootstrap_room"], meeting.rooms[0]);
        assert!(meeting.rooms[0] < 1 << 63);
        assert_eq!(told.as_object().unwrap().len(), 4, "{told}");

        prefill.data_parallel_start_rank = 8;
        prefill.data_parallel_size = NonZeroU32::new(8).unwrap();
        for _ in 0..100 {
            let meeting = Meeting::at(&prefill, DpRank(9), Some(3));
            assert!(
                meeting.rooms.iter().all(|room| room % 16 == 9 && *room < 1 << 63),
                "{meeting:?}"
            );
        }
        let meeting = Meeting::at(&prefill, DpRank(9), Some(3));
        let told = parsed(&body.sglang(&meeting, Some(DpRank(2))));
        assert_eq!(told["bootstrap_host"], json!(["[::1]", "[::1]", "[::1]"]));
        assert_eq!(told["bootstrap_port"], json!([9_000, 9_000, 9_000]));
        assert_eq!(told["bootstrap_room"], json!(meeting.rooms));
        assert_eq!(
            (&told["routed_dp_rank"], &told["disagg_prefill_dp_rank"]),
            (&json!(2), &json!(9))
        );
    }
}
