//! A session whose worker begins another life again and again, between a request's tries.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::sync::Arc;
use std::time::Duration;

use pointsman_core::RouteError;
use pointsman_core::affinity::{AffinityMode, AffinityTerms, Ask, Bound, Entry};
use pointsman_core::eligibility::{Exclusions, PinProblem};
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{DpRank, WorkerId, WorkerRank, WorkerTarget};
use pointsman_core::request::Session;

use super::*;
use crate::bodies::Room;
use crate::mock_engine::{MockConfig, MockEngine};
use crate::openai::upstream::Upstream;
use crate::serve::Server;
use crate::serve::testing::{config, partition};

const WORKER: WorkerRank = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) };

struct Rig {
    front: Front,
    /// They are well; nothing is sent to them.
    engines: [MockEngine; 2],
    _server: Server,
}

impl Rig {
    async fn new() -> Self {
        let engines = [(); 2].map(|()| MockEngine::start(MockConfig::default()).unwrap());
        let mut config = config(&engines.each_ref().map(MockEngine::url));
        let settings = Arc::make_mut(&mut config.settings);
        settings.router_session_affinity_ttl_secs = Some(60);
        settings.router_session_affinity_mode = AffinityMode::Hard;
        let server = Server::start(config, None).await.unwrap();
        let app = server.app().clone();
        let upstream = Upstream::new(Duration::from_secs(1));
        let room = Room::new(1 << 20, app.metrics.body_bytes());
        Self { front: Front { app, upstream, room, started: 0 }, engines, _server: server }
    }

    /// The worker begins another life, and another request of the session finds that first and has
    /// the session bound to it again.
    fn begins_anew(&self) -> Bound {
        let router = self.front.app.dispatcher.router();
        router.remove_worker(WORKER.worker_id).unwrap();
        let spec = WorkerSpec::new(WORKER.worker_id, self.engines[0].url(), partition());
        router.upsert_worker(spec).unwrap();
        let epoch = router.worker(WORKER.worker_id).unwrap().epoch;
        let bound = Bound { worker: WORKER, epoch };
        let terms = AffinityTerms { mode: AffinityMode::Hard, ttl_ms: 60_000 };
        let session = session();
        let now_ms = self.front.app.dispatcher.clock().now_ms();
        let ask = Ask { session: &session, pinned: None, terms, now_ms };
        let entry = router.partition(&partition()).unwrap().enter_session(&ask).unwrap();
        let lease = match entry {
            Entry::Held(lease) => Some(lease),
            Entry::Unbound | Entry::Wait(_) => None,
        };
        let mut lease = lease.unwrap();
        assert_eq!(lease.target(), None, "it was bound to another life");
        lease.started(bound);
        bound
    }
}

fn session() -> Session {
    Session { id: "s".into(), parent_id: None, is_final: None, evict: None }
}

#[tokio::test]
async fn a_request_follows_its_sessions_worker_through_eight_lives_and_no_further() {
    let rig = Rig::new().await;
    rig.begins_anew();
    let mut request = RouteRequest::new("r", partition(), 10);
    request.session = Some(session());
    let end = Instant::now() + Duration::from_secs(60);
    let mut stay = Stay::begin(&rig.front, &mut request, None, end).await.unwrap();
    let here = WORKER.worker_id;
    let gone = || -> DispatchError {
        let target = WorkerTarget { worker_id: here, dp_rank: Some(WORKER.dp_rank) };
        RouteError::PinnedWorker { target, problem: PinProblem::NotRoutable }.into()
    };
    for life in 1..=8 {
        let bound = rig.begins_anew();
        assert!(stay.lost_by_error(&gone()), "life {life}");
        stay.renew(&rig.front, &mut request, end).await.unwrap();
        assert_eq!(stay.stay.pin(), Some(bound), "life {life}");
        assert_eq!(request.constraints.pinned, Some(bound.target()));
    }
    rig.begins_anew();
    assert!(!stay.lost_by_error(&gone()), "a ninth time");
    // It named no worker: none is to be named to it as its own.
    let words = stay.in_words(gone(), &partition());
    let nobody = DispatchError::Route(RouteError::NoEndpoints {
        partition: partition(),
        excluded: Exclusions::default(),
    });
    assert_eq!(words.to_string(), nobody.to_string());
    // Whoever comes then finds the worker.
    let again = Stay::begin(&rig.front, &mut request, None, end).await.unwrap();
    assert_eq!(again.stay.pin().map(|bound| bound.worker), Some(WORKER));
}
