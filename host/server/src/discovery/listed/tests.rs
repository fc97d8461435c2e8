#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::num::NonZeroU32;

use super::*;
use crate::config::DiscoveryConfig;
use crate::discovery::testing::{endpoints, following};
use crate::serve::testing::like;

#[tokio::test]
async fn a_worker_that_was_refused_is_tried_again_after_a_pause_though_no_other_list_comes() {
    let server = following(DiscoveryConfig::default()).await;
    let workers = server.app().workers.clone();
    // Another block size than the list's workers have.
    let mut other =
        WorkerSpec { worker_id: WorkerId(1), endpoint: "http://10.0.0.9:1".into(), ..like() };
    other.block_size = NonZeroU32::new(64).unwrap();
    let register = Registration { spec: other, lease: None };
    workers.register(register, Origin::Api).await.unwrap();
    let mut listed = Listed::new(workers.clone(), "a list".to_owned(), like());
    let list = BTreeMap::from([("a".to_owned(), "http://10.0.0.1:1".to_owned())]);
    listed.are(&list).await;
    assert_eq!(endpoints(&server).len(), 1);
    let (first, pause) = listed.again.unwrap();
    assert!(first <= Instant::now() + pause);
    listed.again().await;
    let (_, second) = listed.again.unwrap();
    assert!(second > pause, "{second:?} after {pause:?}");
    workers.remove(WorkerId(1), true).await.unwrap();
    // Nothing holds a block size any more.
    listed.again().await;
    assert_eq!((listed.again, listed.refused.len()), (None, 0));
    assert!(endpoints(&server).contains("http://10.0.0.1:1"));
    server.shutdown().await;
}
