//! Objects of one sort that are watched: a list of them, and what happens from there on.
//!
//! Owns whether the API server is heard. A watch that ends as servers end them goes on where it was. After
//! anything else all is listed anew, and after a pause that grows: so what was missed is known, and that the
//! server answers again is known, too, though nothing has happened since. One that doesn't answer in time has
//! failed, and so has one that ends a watch as soon as it has begun, which is what an error without words looks
//! like. It doesn't know what the objects are.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::runtime::watcher::{DefaultBackoff, Event};
use tokio::time::{Instant, timeout, timeout_at};

/// How long the API server may take for an answer.
const ANSWER: Duration = Duration::from_secs(15);

/// How long a watch lasts, in seconds. One that is silent for longer has lost its server.
const WATCH: u32 = 60;

/// A watch that ends sooner has failed.
const LEAST: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Objects in one page of a list.
const PAGE: u32 = 500;

/// The longest text of a failure, in characters: servers have much to say.
const MOST_WORDS: usize = 300;

/// What happens, or why that isn't known.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<Event<DynamicObject>, Failure>> + Send>>;

/// Why it isn't known.
#[derive(Debug)]
pub(super) struct Failure {
    /// For whoever asks.
    pub(super) told: String,
    /// What the server, or the way to it, says: for those who run it.
    pub(super) detail: String,
}

impl Failure {
    fn plain(told: impl Into<String>) -> Self {
        Self { told: told.into(), detail: String::new() }
    }
}

type Watch = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Send>>;

/// What happens to these objects. It has no end.
pub(super) fn events(api: Api<DynamicObject>, which: ListParams) -> Events {
    let watched = Watched {
        api,
        which: ListParams { limit: Some(PAGE), ..which },
        state: State::Unknown,
        untold: VecDeque::new(),
        failed: false,
        pauses: DefaultBackoff::default(),
    };
    Box::pin(stream::unfold(watched, |mut watched| async move {
        let event = watched.next().await;
        Some((event, watched))
    }))
}

struct Watched {
    api: Api<DynamicObject>,
    which: ListParams,
    state: State,
    /// What a list has shown.
    untold: VecDeque<Event<DynamicObject>>,
    /// The last thing that was told is a failure.
    failed: bool,
    pauses: DefaultBackoff,
}

enum State {
    /// Nothing has been listed.
    Unknown,
    /// All is known as of this version.
    Known(String),
    /// What happens since that version is told.
    Watching { version: String, watch: Watch, began: Instant },
}

impl Watched {
    async fn next(&mut self) -> Result<Event<DynamicObject>, Failure> {
        if std::mem::take(&mut self.failed) {
            let pause = self.pauses.next().unwrap_or(LONGEST_PAUSE);
            tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
        }
        let event = self.hear().await;
        if event.is_err() {
            (self.state, self.failed) = (State::Unknown, true);
            self.untold.clear();
        }
        event
    }

    async fn hear(&mut self) -> Result<Event<DynamicObject>, Failure> {
        loop {
            if let Some(event) = self.untold.pop_front() {
                return Ok(event);
            }
            match &mut self.state {
                State::Unknown => self.list().await?,
                State::Known(version) => {
                    let version = std::mem::take(version);
                    let watch = answered(self.api.watch(&self.watched(), &version)).await?.boxed();
                    self.state = State::Watching { version, watch, began: Instant::now() };
                }
                State::Watching { version, watch, began } => {
                    let end = *began + Duration::from_secs(u64::from(WATCH)) + ANSWER;
                    let event = timeout_at(end, watch.next()).await;
                    if began.elapsed() >= LEAST {
                        // An outage that is over makes the pauses of the next one no longer.
                        self.pauses = DefaultBackoff::default();
                    }
                    let event =
                        event.map_err(|_| Failure::plain("a watch is silent, and doesn't end"))?;
                    match event {
                        Some(event) => {
                            if let Some(event) = told(event, version)? {
                                return Ok(event);
                            }
                        }
                        None if began.elapsed() < LEAST => {
                            return Err(Failure::plain("a watch ended as soon as it had begun"));
                        }
                        None => self.state = State::Known(std::mem::take(version)),
                    }
                }
            }
        }
    }

    /// Lists all, page by page.
    async fn list(&mut self) -> Result<(), Failure> {
        let mut which = self.which.clone();
        let mut all = VecDeque::from([Event::Init]);
        loop {
            let page = answered(self.api.list(&which)).await?;
            all.extend(page.items.into_iter().map(Event::InitApply));
            which.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if which.continue_token.is_none() {
                let version = page.metadata.resource_version.filter(|one| !one.is_empty());
                let version =
                    version.ok_or_else(|| Failure::plain("a list has no resource version"))?;
                all.push_back(Event::InitDone);
                (self.untold, self.state) = (all, State::Known(version));
                return Ok(());
            }
        }
    }

    fn watched(&self) -> WatchParams {
        let ListParams { label_selector, field_selector, .. } = self.which.clone();
        let all = WatchParams::default().timeout(WATCH);
        WatchParams { label_selector, field_selector, ..all }
    }
}

/// What one event of a watch says; none if it is only how far the watch has come.
fn told(
    event: kube::Result<WatchEvent<DynamicObject>>,
    version: &mut String,
) -> Result<Option<Event<DynamicObject>>, Failure> {
    let (event, now) = match event.map_err(|error| words(&error))? {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            let now = object.metadata.resource_version.clone();
            (Some(Event::Apply(object)), now)
        }
        WatchEvent::Deleted(object) => {
            let now = object.metadata.resource_version.clone();
            (Some(Event::Delete(object)), now)
        }
        WatchEvent::Bookmark(mark) => (None, Some(mark.metadata.resource_version)),
        WatchEvent::Error(status) => return Err(refusal(&status)),
    };
    let now = now.filter(|now| !now.is_empty());
    *version = now.ok_or_else(|| Failure::plain("an object has no resource version"))?;
    Ok(event)
}

/// An answer, if it comes in time.
async fn answered<T>(asked: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    let answer = timeout(ANSWER, asked).await;
    let late = || Failure::plain(format!("no answer within {} s", ANSWER.as_secs()));
    let answer = answer.map_err(|_| late())?;
    answer.map_err(|error| words(&error))
}

fn words(error: &kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => refusal(status),
        other => {
            Failure { told: "it can't be asked".to_owned(), detail: short(&other.to_string()) }
        }
    }
}

fn refusal(status: &Status) -> Failure {
    Failure { told: format!("status {}", status.code), detail: short(&status.message) }
}

fn short(text: &str) -> String {
    text.chars().take(MOST_WORDS).collect()
}
