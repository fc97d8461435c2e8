//! Links that nobody uses for now, by the worker that they lead to.
//!
//! Owns how long they are kept and how many, and where each endpoint is. An endpoint that no link is
//! kept to is forgotten: of a worker that has left, nothing stays for longer than of one that nobody
//! asks.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use super::link::Link;
use super::place::Place;

/// How long links are kept, and how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    /// How long one may be unused.
    pub(super) idle: Duration,
    /// How often those are looked for that are unused for too long, or closed by their worker.
    pub(super) sweep: Duration,
    /// To one worker.
    pub(super) most: usize,
}

impl Keep {
    /// The web server of most engines closes its own after five seconds, and a connection that is closed
    /// while a request is on its way costs a second try. No engine works at more requests at once than
    /// so many: what is left of a crowd beyond that is worth less than its sockets.
    pub(super) const USUAL: Self =
        Self { idle: Duration::from_secs(4), sweep: Duration::from_secs(1), most: 1_024 };
}

/// The links, and the task that sweeps; it ends with this.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Arc<Idle>,
    keep: Keep,
    _sweeper: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Idle(Mutex<HashMap<String, Kept>>);

/// What is kept of one endpoint.
#[derive(Debug)]
struct Kept {
    place: Arc<Place>,
    /// The one that was used last stands last.
    links: Vec<(Box<Link>, Instant)>,
}

impl Pool {
    pub(super) fn new(keep: Keep) -> Self {
        let idle = Arc::<Idle>::default();
        let mut sweeper = JoinSet::new();
        sweeper.spawn(sweep(Arc::downgrade(&idle), keep));
        Self { idle, keep, _sweeper: sweeper }
    }

    /// Where an endpoint is, and an open link to it; none if none is kept.
    pub(super) fn take(&self, endpoint: &str) -> Option<(Arc<Place>, Option<Box<Link>>)> {
        let mut all = self.idle.0.lock();
        let kept = all.get_mut(endpoint)?;
        let place = kept.place.clone();
        let now = Instant::now();
        let mut link = None;
        while let Some((mut last, since)) = kept.links.pop() {
            if now.duration_since(since) < self.keep.idle && last.is_ready() {
                link = Some(last);
                break;
            }
        }
        Some((place, link))
    }

    /// Keeps a link for the next request, if another can be sent over it.
    pub(super) fn keep(&self, place: &Arc<Place>, mut link: Box<Link>) {
        if !link.is_ready() {
            return;
        }
        let kept = (link, Instant::now());
        let mut all = self.idle.0.lock();
        match all.get_mut(place.endpoint()) {
            // The one that has come last goes: the lock is for moments.
            Some(known) if known.links.len() >= self.keep.most => {
                drop(all);
                drop(kept);
            }
            Some(known) => known.links.push(kept),
            None => {
                let known = Kept { place: place.clone(), links: vec![kept] };
                all.insert(place.endpoint().to_owned(), known);
            }
        }
    }
}

async fn sweep(idle: Weak<Idle>, keep: Keep) {
    let mut sweeps = interval(keep.sweep);
    loop {
        sweeps.tick().await;
        let Some(idle) = idle.upgrade() else { return };
        let now = Instant::now();
        idle.0.lock().retain(|_, kept| {
            kept.links.retain_mut(|(link, since)| {
                now.duration_since(*since) < keep.idle && link.is_ready()
            });
            !kept.links.is_empty()
        });
    }
}
