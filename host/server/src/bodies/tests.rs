//! What bodies take, and give back.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::time::Duration;

use axum::body::Body;
use futures_util::stream::{self, StreamExt as _};
use prometheus::IntGauge;

use super::sender::STEP;
use super::*;

fn room(all: usize) -> (Room, IntGauge) {
    let gauge = IntGauge::new("taken", "bytes").unwrap();
    (Room::new(all, gauge.clone()), gauge)
}

fn bounds(most: usize) -> Bounds {
    let minute = Duration::from_secs(60);
    Bounds { most, client_timeout: minute, end: Instant::now() + minute }
}

/// A body in chunks, which doesn't say how long it is.
fn chunked(chunks: &[usize]) -> Body {
    let chunks: Vec<_> =
        chunks.iter().map(|&size| Ok::<_, std::io::Error>(vec![b'x'; size])).collect();
    Body::from_stream(stream::iter(chunks))
}

async fn read(mut body: Body, room: &Room, most: usize) -> Result<Bytes, BodyError> {
    whole(&mut body, room, bounds(most)).await
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
    let refused = read(chunked(&[20_000, 20_000, 20_000]), &room, 50_000 << 1).await;
    assert!(matches!(refused, Err(BodyError::NoRoom)));
    assert_eq!(taken.get(), 0);
    let refused = read(Body::from(vec![b'x'; 60_000]), &room, 1 << 20).await;
    assert!(matches!(refused, Err(BodyError::NoRoom)));
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
    let refused = read(chunked(&[60_000, 40_001]), &room, 100_000).await;
    assert!(matches!(refused, Err(BodyError::TooLarge)));
}

#[tokio::test]
async fn a_promise_takes_no_room() {
    let (room, taken) = room(100_000);
    let mut silent = Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let mut waiting = Box::pin(whole(&mut silent, &room, bounds(100_000)));
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
    Body::from_stream(first.chain(stream::pending()))
}

#[tokio::test]
async fn slow_senders_give_their_room_to_who_has_none_the_latest_first_and_no_more_than_needed() {
    let gauge = IntGauge::new("taken", "bytes").unwrap();
    let grace = Duration::from_millis(50);
    let room = Room::with_grace(100_000, gauge.clone(), grace);
    let mut senders = Vec::new();
    for _ in 0..3 {
        let mut sender = Box::pin(read(stalled(30_000), &room, 100_000));
        assert!(futures_util::poll!(&mut sender).is_pending());
        senders.push(sender);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(gauge.get(), 90_000);
    let refused = read(Body::from(vec![b'x'; 30_000]), &room, 100_000).await;
    assert!(matches!(refused, Err(BodyError::NoRoom)), "none of them is late");
    tokio::time::sleep(grace).await;
    let refused = read(chunked(&[100_001]), &room, 200_000).await;
    assert!(matches!(refused, Err(BodyError::NoRoom)));
    assert_eq!(gauge.get(), 90_000, "of no use");
    for body in [Body::from(vec![b'x'; 30_000]), chunked(&[20_000, 30_000])] {
        assert!(read(body, &room, 100_000).await.is_ok());
        assert!(matches!(senders.remove(0).await, Err(BodyError::GaveWay)));
    }
    assert_eq!(gauge.get(), 30_000);
    drop(senders);
    assert_eq!(gauge.get(), 0);
}

#[tokio::test]
async fn a_body_that_drips_is_as_late_as_one_that_stands_still() {
    let (room, taken) = room(1 << 20);
    let bounds = Bounds { client_timeout: Duration::from_millis(100), ..bounds(1 << 20) };
    let drips = || {
        Body::from_stream(stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Some((Ok::<_, std::io::Error>(vec![b'x']), ()))
        }))
    };
    let late = whole(&mut drips(), &room, bounds).await;
    assert!(matches!(late, Err(BodyError::TooSlow)));
    assert_eq!(taken.get(), 0);
    // What is thrown away isn't waited for either.
    let mut drips = drips();
    let discarded = tokio::time::timeout(Duration::from_secs(20), discard(&mut drips, bounds));
    assert!(discarded.await.is_ok());
}

#[tokio::test]
async fn what_is_thrown_away_has_an_end() {
    let (chunk, bounds) = (vec![b'x'; 1_000], bounds(10_000));
    let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(chunk.clone()));
    let endless: Vec<_> = endless.take(1_000).collect().await;
    let mut body = Body::from_stream(stream::iter(endless));
    discard(&mut body, bounds).await;
    let mut left = 0;
    while let Some(Ok(frame)) = body.frame().await {
        left += frame.data_ref().map_or(0, Bytes::len);
    }
    assert_eq!(left, 989_000);
}

#[test]
fn what_whoever_a_body_comes_from_says_of_it_is_what_its_client_is_told() {
    let told = |why: BoxError| BodyError::BrokeOff(why).root();
    assert!(matches!(told(BodyError::NoRoom.into()), BodyError::NoRoom));
    assert!(matches!(told("the line is cut".into()), BodyError::BrokeOff(_)));
    assert!(matches!(BodyError::TooSlow.root(), BodyError::TooSlow));
}
