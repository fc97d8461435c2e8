//! What an engine may answer, and what becomes of the connection: an answer is never taken for
//! another request's.

use super::*;

/// An answer that nobody has asked for.
const OTHERS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nothers";
/// The answer to the second request.
const SECOND: &str = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond";

/// What becomes of a connection when its answer is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Kept,
    Left,
    /// The engine ends it, and the answer by that.
    Ended,
}

fn by(method: Method) -> Outgoing {
    Outgoing { method, ..outgoing() }
}

/// Sends two requests. The first is answered with `answer`, whose body is `expected`; the second must
/// come over the same connection, if that is kept, or else over another.
async fn check(method: Method, answer: &str, expected: &str, then: Then) {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let serves = async {
        let mut first = worker.accepts().await;
        reads(&mut first).await;
        writes(&mut first, answer).await;
        if then == Then::Kept {
            reads(&mut first).await;
            return writes(&mut first, SECOND).await;
        }
        if then == Then::Ended {
            first.shutdown().await.unwrap();
        }
        let mut second = worker.accepts().await;
        reads(&mut second).await;
        is_closed(&mut first).await;
        writes(&mut second, SECOND).await;
    };
    let asks = async {
        let first = send_of(&upstream, &worker.spec, &by(method.clone()), || {}).await.unwrap();
        assert_eq!(body(first).await, *expected, "{method} {answer:?}");
        assert_eq!(asks(&upstream, &worker.spec).await, "second", "{method} {answer:?}");
    };
    both(serves, asks).await;
}

#[tokio::test]
async fn a_connection_that_more_came_over_than_the_answer_is_used_no_more() {
    let (post, get, head) = (Method::POST, Method::GET, Method::HEAD);
    for (method, answer, expected) in [
        (&post, WHOLE.to_owned() + OTHERS, "ok"),
        (&get, WHOLE.to_owned() + "x", "ok"),
        (&post, BEGUN.to_owned() + END + OTHERS, "ok"),
        // Answers that have no body, whatever they say.
        (&post, "HTTP/1.1 204 No Content\r\n\r\n".to_owned() + OTHERS, ""),
        (&get, "HTTP/1.1 304 Not Modified\r\ncontent-length: 6\r\n\r\n".to_owned() + OTHERS, ""),
        (&head, "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nothers".to_owned(), ""),
        (&head, "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n".to_owned() + OTHERS, ""),
        // It is the last over its connection, whatever follows.
        (
            &post,
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok".to_owned()
                + OTHERS,
            "ok",
        ),
        (&post, "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned() + OTHERS, "ok"),
    ] {
        check(method.clone(), &answer, expected, Then::Left).await;
    }
}

#[tokio::test]
async fn a_connection_is_kept_by_the_rules_of_its_version() {
    let post = Method::POST;
    for (answer, then) in [
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", Then::Left),
        (
            "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            Then::Left,
        ),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", Then::Left),
        ("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok", Then::Kept),
        // Its end is the connection's.
        ("HTTP/1.1 200 OK\r\n\r\nok", Then::Ended),
        ("HTTP/1.0 200 OK\r\n\r\nok", Then::Ended),
        // Words on the way are no answers.
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            Then::Kept,
        ),
        // A chunk's extension, and fields behind the last one.
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n2;a=b\r\nok\r\n0\r\nx-sum: 7\r\n\r\n",
            Then::Kept,
        ),
    ] {
        check(post.clone(), answer, "ok", then).await;
    }
    for answer in
        ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]
    {
        check(post.clone(), answer, "", Then::Kept).await;
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
    check(Method::HEAD, head, "", Then::Kept).await;
}

#[tokio::test]
async fn what_comes_when_nobody_asks_ends_its_connection() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let (answered, said) = (Notify::new(), Notify::new());
    let serves = async {
        let mut first = worker.accepts().await;
        reads(&mut first).await;
        writes(&mut first, WHOLE).await;
        answered.notified().await;
        writes(&mut first, OTHERS).await;
        said.notify_one();
        let mut second = worker.accepts().await;
        reads(&mut second).await;
        writes(&mut second, SECOND).await;
        is_closed(&mut first).await;
    };
    let asks = async {
        assert_eq!(asks(&upstream, &worker.spec).await, "ok");
        answered.notify_one();
        said.notified().await;
        settles().await;
        assert_eq!(asks(&upstream, &worker.spec).await, "second");
    };
    both(serves, asks).await;
}

#[tokio::test]
async fn an_answer_that_comes_before_its_request_is_read_leaves_its_connection_to_nobody() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let serves = async {
        let mut first = worker.accepts().await;
        first.read_exact(&mut [0; 64]).await.unwrap();
        writes(&mut first, WHOLE).await;
        let mut second = worker.accepts().await;
        reads(&mut second).await;
        writes(&mut second, SECOND).await;
        is_closed(&mut first).await;
    };
    let asks = async {
        // More than both sockets hold.
        let long = Outgoing { body: vec![b'x'; 32 << 20].into(), ..outgoing() };
        let first = send_of(&upstream, &worker.spec, &long, || {}).await.unwrap();
        assert_eq!(body(first).await, "ok");
        assert_eq!(asks(&upstream, &worker.spec).await, "second");
    };
    both(serves, asks).await;
}

#[tokio::test]
async fn fields_behind_the_last_chunk_are_passed_on() {
    let (upstream, worker) = (upstream(), Worker::start().await);
    let serves = async {
        let mut stream = worker.accepts().await;
        reads(&mut stream).await;
        writes(&mut stream, BEGUN).await;
        writes(&mut stream, "0\r\nx-sum: 7\r\n\r\n").await;
    };
    let asks = async {
        let answer = send(&upstream, &worker.spec).await.unwrap();
        let whole = answer.into_body().collect().await.unwrap();
        assert_eq!(whole.trailers().unwrap()["x-sum"], "7");
        assert_eq!(whole.to_bytes(), "ok");
    };
    both(serves, asks).await;
}

#[tokio::test]
async fn a_head_beyond_all_measure_is_no_answer_and_neither_is_another_protocol() {
    let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let long = format!("x-long: {}\r\n", "y".repeat(1 << 20));
    for fields in [many, long] {
        let (upstream, worker) = (upstream(), Worker::start().await);
        let serves = async {
            let mut stream = worker.accepts().await;
            reads(&mut stream).await;
            let head = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nok");
            // Its rest may find nobody any more.
            let _ = stream.write_all(head.as_bytes()).await;
            is_closed(&mut stream).await;
        };
        let asks = async {
            let failure = send(&upstream, &worker.spec).await.unwrap_err();
            assert!(matches!(failure, Failure::Garbled(_)), "{failure:?}");
            assert_eq!(failure.kind(), "garbled");
        };
        both(serves, asks).await;
    }
    let (upstream, worker) = (upstream(), Worker::start().await);
    let serves = async {
        let mut stream = worker.accepts().await;
        reads(&mut stream).await;
        let switches =
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
        writes(&mut stream, switches).await;
        is_closed(&mut stream).await;
    };
    let asks = async {
        let failure = send(&upstream, &worker.spec).await.unwrap_err();
        assert!(matches!(failure, Failure::Switching), "{failure:?}");
    };
    both(serves, asks).await;
}
