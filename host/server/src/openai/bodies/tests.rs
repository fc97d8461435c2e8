//! What bodies take, and give back.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::time::Duration;

use futures_util::stream;
use prometheus::IntGauge;

use super::*;

fn room(all: usize) -> (Room, IntGauge) {
    let gauge = IntGauge::new("taken", "bytes").unwrap();
    (Room::new(all, gauge.clone()), gauge)
}

fn config(max_body: usize) -> ProxyConfig {
    ProxyConfig { max_body, ..ProxyConfig::default() }
}

/// A body in chunks, which doesn't say how long it is.
fn chunked(chunks: &[usize]) -> Body {
    let chunks: Vec<_> =
        chunks.iter().map(|&size| Ok::<_, std::io::Error>(vec![b'x'; size])).collect();
    Body::from_stream(stream::iter(chunks))
}

async fn read(body: Body, room: &Room, max_body: usize) -> Result<Bytes, ApiError> {
    whole(body, room, &config(max_body), Instant::now() + Duration::from_secs(60)).await
}

#[tokio::test]
async fn a_body_holds_its_room_until_its_last_copy_is_gone() {
    let (room, taken) = room(1 << 20);
    let body = read(Body::from(vec![b'x'; 100_000]), &room, 1 << 20).await.unwrap();
    assert_eq!((body.len(), taken.get()), (100_000, 100_000), "no more than it said");
    let copy = body.clone();
    drop(body);
    assert_eq!(taken.get(), 100_000);
    drop(copy);
    assert_eq!(taken.get(), 0);
}

#[tokio::test]
async fn what_is_held_is_what_is_taken() {
    let (room, taken) = room(1 << 20);
    for chunks in [&[1][..], &[1, 2, 3], &[20_000, 20_000, 20_000], &[300_000, 1]] {
        let body = read(chunked(chunks), &room, 1 << 20).await.unwrap();
        let length = chunks.iter().sum::<usize>();
        assert_eq!(body.len(), length);
        let taken = usize::try_from(taken.get()).unwrap();
        assert!((length..=2 * length.max(STEP)).contains(&taken), "{chunks:?}: {taken}");
    }
    assert_eq!(taken.get(), 0);
}

#[tokio::test]
async fn a_body_that_has_no_room_is_refused_and_gives_back_what_it_had() {
    let (room, taken) = room(50_000);
    let refused = read(chunked(&[20_000, 20_000, 20_000]), &room, 50_000 << 1).await.unwrap_err();
    assert_eq!((refused.status.as_u16(), refused.kind()), (503, "body_budget_exhausted"));
    assert_eq!(taken.get(), 0);
    let refused = read(Body::from(vec![b'x'; 60_000]), &room, 1 << 20).await.unwrap_err();
    assert_eq!(refused.kind(), "body_budget_exhausted");
    let held = read(Body::from(vec![b'x'; 30_000]), &room, 1 << 20).await.unwrap();
    assert!(read(Body::from(vec![b'x'; 30_000]), &room, 1 << 20).await.is_err());
    drop(held);
    assert!(read(Body::from(vec![b'x'; 30_000]), &room, 1 << 20).await.is_ok());
}

#[tokio::test]
async fn a_body_of_the_largest_size_fits_into_a_budget_of_that_size() {
    let (room, _) = room(100_000);
    for body in [chunked(&[1, 59_999, 40_000]), Body::from(vec![b'x'; 100_000])] {
        assert_eq!(read(body, &room, 100_000).await.unwrap().len(), 100_000);
    }
    let refused = read(chunked(&[60_000, 40_001]), &room, 100_000).await.unwrap_err();
    assert_eq!(refused.kind(), "request_too_large");
}

#[tokio::test]
async fn a_promise_takes_no_room() {
    let (room, taken) = room(100_000);
    let silent = Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let config = config(100_000);
    let end = Instant::now() + Duration::from_secs(60);
    let mut waiting = Box::pin(whole(silent, &room, &config, end));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    assert_eq!(taken.get(), 0);
}

#[tokio::test]
async fn an_empty_body_takes_nothing() {
    let (room, taken) = room(0);
    assert!(read(Body::empty(), &room, 1_000).await.unwrap().is_empty());
    assert_eq!(taken.get(), 0);
}
