//! What bodies take, and give back.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::time::Duration;

use futures_util::stream;
use prometheus::IntGauge;

use super::sender::STEP;
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

/// A body of which so much comes at once, and then nothing.
fn stalled(bytes: usize) -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(vec![b'x'; bytes])]);
    Body::from_stream(stream::StreamExt::chain(first, stream::pending()))
}

#[tokio::test]
async fn slow_senders_give_their_room_to_who_has_none_the_latest_first_and_no_more_than_needed() {
    let gauge = IntGauge::new("taken", "bytes").unwrap();
    let grace = Duration::from_millis(50);
    let room = Room::with_grace(100_000, gauge.clone(), grace);
    let config = config(100_000);
    let end = Instant::now() + Duration::from_secs(60);
    let mut senders = Vec::new();
    for _ in 0..3 {
        let mut sender = Box::pin(whole(stalled(30_000), &room, &config, end));
        assert!(futures_util::poll!(&mut sender).is_pending());
        senders.push(sender);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(gauge.get(), 90_000);
    let refused = read(Body::from(vec![b'x'; 30_000]), &room, 100_000).await.unwrap_err();
    assert_eq!(refused.kind(), "body_budget_exhausted", "none of them is late");
    tokio::time::sleep(grace).await;
    let refused = read(chunked(&[100_001]), &room, 200_000).await.unwrap_err();
    assert_eq!((refused.kind(), gauge.get()), ("body_budget_exhausted", 90_000), "of no use");
    for body in [Body::from(vec![b'x'; 30_000]), chunked(&[20_000, 30_000])] {
        assert!(read(body, &room, 100_000).await.is_ok());
        let late = senders.remove(0).await.unwrap_err();
        assert_eq!((late.status.as_u16(), late.kind()), (408, "request_timeout"));
    }
    assert_eq!(gauge.get(), 30_000);
    drop(senders);
    assert_eq!(gauge.get(), 0);
}

#[tokio::test]
async fn a_body_that_drips_is_as_late_as_one_that_stands_still() {
    let (room, taken) = room(1 << 20);
    let config =
        ProxyConfig { client_timeout: Duration::from_millis(100), ..ProxyConfig::default() };
    let drips = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Some((Ok::<_, std::io::Error>(vec![b'x']), ()))
    });
    let end = Instant::now() + Duration::from_secs(60);
    let late = whole(Body::from_stream(drips), &room, &config, end).await.unwrap_err();
    assert_eq!((late.status.as_u16(), late.kind(), taken.get()), (408, "request_timeout", 0));
}
