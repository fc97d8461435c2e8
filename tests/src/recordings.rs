//! What real engines published and answered, recorded, and played into a cache index.
//!
//! Owns the reading of `tests/recordings` (its README says where they are from) and the one
//! comparison that matters: what the index predicts for a request, against the cached tokens that
//! the engine itself reported for it. Time is the recording's: an event counts for a request if it
//! was received before the request was sent.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pointsman::feeds::cursor::{Cursor, Replayed, Verdict};
use pointsman::feeds::wire::Batch;
use pointsman::feeds::{FeedStats, Intake};
use pointsman_core::fleet::{Fleet, Snapshot, WorkerSpec};
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::{DEFAULT_GROUP, DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use pointsman_core::index::{Overlap, PrefixIndex, Tier};
use serde_json::Value;

/// Whose events the recordings are.
pub const RANK: WorkerRank = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) };

/// The folder of all recordings.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings")
}

/// A message as a socket got it.
#[derive(Clone, Debug)]
pub struct Message {
    /// When, in seconds since 1970.
    pub received: f64,
    /// Its frames.
    pub frames: Vec<Vec<u8>>,
}

impl Message {
    /// The number of its batch.
    ///
    /// # Errors
    ///
    /// It has none.
    pub fn seq(&self) -> Result<u64> {
        let [.., seq, _] = &self.frames[..] else { bail!("{} frames", self.frames.len()) };
        Ok(u64::from_be_bytes(seq[..].try_into()?))
    }

    /// Its events.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.frames.last().map_or(&[], Vec::as_slice)
    }
}

/// Reads a file of messages, by its path below the folder.
///
/// # Errors
///
/// It isn't there, or isn't whole.
pub fn messages(file: &str) -> Result<Vec<Message>> {
    let bytes = std::fs::read(folder().join(file)).context(file.to_owned())?;
    let mut rest = bytes.strip_prefix(b"KVZ1").context("no recording of messages")?;
    let mut take = |count: usize| {
        let (taken, left) = rest.split_at_checked(count)?;
        rest = left;
        Some(taken)
    };
    let mut messages = Vec::new();
    while let Some(count) = take(4) {
        let mut message = || {
            let received = f64::from_le_bytes(take(8)?.try_into().ok()?);
            let mut frames = Vec::new();
            for _ in 0..u32::from_le_bytes(count.try_into().ok()?) {
                let length = u32::from_le_bytes(take(4)?.try_into().ok()?);
                frames.push(take(length as usize)?.to_vec());
            }
            Some(Message { received, frames })
        };
        messages.push(message().context("cut off")?);
    }
    Ok(messages)
}

/// A request that was sent to the engine, and what came of it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its name in the recording.
    pub name: String,
    /// When it was sent.
    pub at: f64,
    /// The prompt's tokens, as the engine counts them.
    pub prompt: Vec<u32>,
    /// What its blocks are cached under.
    pub scope: Scope,
    /// The prompt's tokens that the engine found in its cache, if it reported so.
    pub cached: Option<u64>,
}

/// Reads the requests of a folder that have one prompt whose tokens are known.
///
/// # Errors
///
/// It isn't there, or isn't such a recording.
pub fn requests(file: &str) -> Result<Vec<Asked>> {
    let text = std::fs::read_to_string(folder().join(file)).context(file.to_owned())?;
    let mut requests = Vec::new();
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line)?;
        let Some(prompt) = entry["prompt_token_ids"].as_array() else { continue };
        let token = |token: &Value| u32::try_from(token.as_u64()?).ok();
        let Some(prompt) = prompt.iter().map(token).collect() else { continue };
        let body = &entry["body"];
        // The base model is asked for by this name, an adapter by its own.
        let adapter = body["model"].as_str().filter(|&model| model != "tiny-llama");
        let usage = &entry["usage"];
        // Older versions leave the details out when nothing was cached.
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
        requests.push(Asked {
            name: entry["file"].as_str().unwrap_or_default().to_owned(),
            at: entry["t0"].as_f64().context("no time")?,
            prompt,
            scope: Scope::new(adapter, body["cache_salt"].as_str()),
            cached: usage.is_object().then(|| cached.unwrap_or(0)),
        });
    }
    Ok(requests)
}

/// What was predicted for a request, and what the engine reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The request.
    pub name: String,
    /// Tokens that the index said the engine has.
    pub predicted: u64,
    /// Tokens that the engine said it had; none if it said nothing.
    pub cached: Option<u64>,
}

impl Compared {
    /// Whether the two differ.
    #[must_use]
    pub fn is_miss(&self) -> bool {
        self.cached.is_some_and(|cached| cached != self.predicted)
    }
}

/// An index that is fed from a recording.
#[derive(Debug)]
pub struct Player {
    /// The index.
    pub index: PrefixIndex,
    /// The counters of the feed.
    pub stats: FeedStats,
    intake: Intake,
    cursor: Cursor,
    block_size: u32,
    snapshot: Snapshot,
}

impl Player {
    /// With nothing played yet.
    ///
    /// # Errors
    ///
    /// None, in truth.
    pub fn new(block_size: u32) -> Result<Self> {
        let partition = PartitionKey {
            model: "tiny-llama".into(),
            routing_group: DEFAULT_GROUP.into(),
            role: Role::Aggregated,
        };
        let mut fleet = Fleet::default();
        fleet.upsert(WorkerSpec::new(RANK.worker_id, "http://worker", partition.clone()))?;
        Ok(Self {
            index: PrefixIndex::default(),
            stats: FeedStats::default(),
            intake: Intake::new(RANK, Some(block_size)),
            cursor: Cursor::new(true),
            block_size,
            snapshot: fleet.snapshot(&partition),
        })
    }

    /// A new connection to an engine that has published nothing yet: what a feed does when the one
    /// before broke off.
    pub fn reconnect(&mut self) {
        self.cursor.opened();
        if self.cursor.replay_ended(true).restarted {
            self.intake.restart(&self.index);
            self.cursor.replay_ended(true);
        }
    }

    /// Takes a live message.
    ///
    /// # Errors
    ///
    /// It can't be read, or isn't the next one.
    pub fn take(&mut self, message: &Message) -> Result<()> {
        let batch = Batch::read(message.payload())?;
        let judged = self.cursor.live(message.seq()?, Some(batch.ts));
        if judged.clear {
            self.intake.restart(&self.index);
        }
        match judged.verdict {
            Verdict::Apply => self.apply(&batch),
            Verdict::Duplicate => Ok(()),
            Verdict::Recover { from } => bail!("a gap: batches from {from} on are missing"),
        }
    }

    /// Takes a whole answer to a replay request, and returns how many batches it had.
    ///
    /// # Errors
    ///
    /// It can't be read.
    pub fn take_replay(&mut self, messages: &[Message]) -> Result<usize> {
        self.cursor.opened();
        for (batches, message) in messages.iter().enumerate() {
            let seq = message.seq()?;
            if seq == u64::MAX {
                self.cursor.replay_ended(true);
                return Ok(batches);
            }
            let batch = Batch::read(message.payload())?;
            if self.cursor.replayed(seq, Some(batch.ts)) == Replayed::Apply {
                self.apply(&batch)?;
            }
        }
        bail!("the answer doesn't end")
    }

    fn apply(&mut self, batch: &Batch<'_>) -> Result<()> {
        match self.intake.take_batch(batch, &self.stats, &self.index) {
            (true, None) => Ok(()),
            (false, _) => bail!("misled by a group"),
            (_, Some(malformed)) => Err(malformed.into()),
        }
    }

    /// The leading blocks of a prompt that the engine has on its device, by what has been played.
    #[must_use]
    pub fn blocks(&self, prompt: &[u32], scope: Scope) -> u64 {
        let mut chain = Vec::new();
        sequence_hashes(prompt, self.block_size, scope, &mut chain);
        let mut overlap = Overlap::default();
        self.index.look_up(&chain, &self.snapshot, &mut overlap);
        overlap.of_row(Tier::Device, 0) as u64
    }

    /// The tokens of a prompt that the engine won't compute: never the last one.
    #[must_use]
    pub fn predict(&self, prompt: &[u32], scope: Scope) -> u64 {
        let size = u64::from(self.block_size);
        let usable = (prompt.len() as u64).saturating_sub(1) / size;
        self.blocks(prompt, scope).min(usable) * size
    }
}

/// Plays a recorded engine's events, and compares each request in its turn.
///
/// `folders` are those of the requests, `connections` the times at which the feed had to connect
/// anew because the engine had gone.
///
/// # Errors
///
/// The recording can't be read.
pub fn compare(
    engine: &str,
    folders: &[&str],
    block_size: u32,
    connections: &[f64],
) -> Result<(Player, Vec<Compared>)> {
    let mut player = Player::new(block_size)?;
    let mut requests = Vec::new();
    for folder in folders {
        requests.extend(self::requests(&format!("{engine}/{folder}/index.jsonl"))?);
    }
    requests.sort_by(|a, b| a.at.total_cmp(&b.at));
    let events = messages(&format!("{engine}/events.bin"))?;
    let (mut events, mut connections) = (events.iter().peekable(), connections.iter().peekable());
    let mut play = |player: &mut Player, until: f64| -> Result<()> {
        loop {
            let connection = connections.peek().map_or(f64::INFINITY, |&&at| at);
            let event = events.peek().map_or(f64::INFINITY, |event| event.received);
            if connection.min(event) >= until {
                return Ok(());
            }
            if connection < event {
                connections.next();
                player.reconnect();
            } else if let Some(event) = events.next() {
                player.take(event)?;
            }
        }
    };
    let mut compared = Vec::new();
    for request in requests {
        play(&mut player, request.at)?;
        compared.push(Compared {
            predicted: player.predict(&request.prompt, request.scope),
            name: request.name,
            cached: request.cached,
        });
    }
    play(&mut player, f64::INFINITY)?;
    Ok((player, compared))
}
