//! Connections to what can't be trusted, and to what can.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

/// Connects as a subscriber to someone who sends `bytes`, and reads until the end.
async fn against(bytes: Vec<u8>) -> Result<Vec<Bytes>, ZmtpError> {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let other = async move {
        let _ = theirs.write_all(&bytes).await;
        let _ = theirs.shutdown().await;
        let mut sink = Vec::new();
        let _ = theirs.read_to_end(&mut sink).await;
    };
    let subscriber = async {
        let socket = Socket::Sub { topic: "kv" };
        let mut connection = Connection::over(ours, socket).await?;
        connection.next().await
    };
    let (result, ()) = tokio::join!(
        async { tokio::time::timeout(PATIENCE, subscriber).await.expect("an end") },
        other
    );
    result
}

fn hello(socket: &str) -> Vec<u8> {
    let mut bytes = BytesMut::from(&GREETING[..]);
    frames::put_command(&mut bytes, &greeting::ready(socket));
    bytes.to_vec()
}

#[tokio::test]
async fn a_message_arrives_among_heartbeats() {
    let mut bytes = BytesMut::from(&hello("PUB")[..]);
    frames::put_command(&mut bytes, b"\x04PING\0\x10ctx");
    frames::put_command(&mut bytes, b"\x04PONG");
    frames::put_command(&mut bytes, b"\x05LATER?");
    frames::put_message(&mut bytes, &[b"kv", b"1"]);
    let frames = against(bytes.to_vec()).await.expect("a message");
    assert_eq!(frames, [Bytes::from("kv"), Bytes::from("1")]);
}

#[tokio::test]
async fn what_is_wrong_is_told_apart() {
    let with = |tail: &[u8]| [hello("PUB"), tail.to_vec()].concat();
    let cases: [(Vec<u8>, &str); 10] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(4), "isn't ZeroMQ"),
        (GREETING.to_vec(), "closed"),
        (hello("ROUTER"), "is a ROUTER socket, not PUB"),
        (hello("ROU\0\r\x1b[2J"), "is a ROU\\0\\r\\u{1b}[2J socket, not PUB"),
        ([&GREETING[..12], b"A\nB\0", &GREETING[16..]].concat(), "wants \"A\\nB\" security"),
        (
            [&GREETING[..], b"\x04\x0b\x05ERROR\x04away"].concat(),
            "refused the connection: \"away\"",
        ),
        (with(b"\x04\x0b\x05ERROR\x04away"), "refused the connection: \"away\""),
        ([&GREETING[..], b"\0\x01x"].concat(), "a message before the handshake"),
        // 2^62 bytes are declared: none are set aside.
        (with(&[2, 0x40, 0, 0, 0, 0, 0, 0, 0]), "larger than"),
        (with(&[0x80, 0]), "unknown flags"),
    ];
    for (bytes, error) in cases {
        let found = against(bytes).await.expect_err(error).to_string();
        assert!(found.contains(error), "{found}: {error}");
    }
}

#[tokio::test]
async fn random_bytes_are_no_panic() {
    let mut chance = pointsman_core::clock::Chance::new(5);
    for _ in 0..200 {
        let noise: Vec<u8> = (0..chance.below(200)).map(|_| chance.bits() as u8).collect();
        let _ = against(noise.clone()).await;
        let _ = against([&GREETING[..], &noise].concat()).await;
        let _ = against([hello("PUB"), noise].concat()).await;
    }
}

#[tokio::test]
async fn only_who_knows_heartbeats_is_held_to_them() {
    for (minor, held) in [(0, false), (1, true)] {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let mut bytes = hello("PUB");
        bytes[11] = minor;
        theirs.write_all(&bytes).await.expect("sent");
        let socket = Socket::Sub { topic: "" };
        let mut connection = Connection::over(ours, socket).await.expect("a connection");
        connection.beat(PATIENCE).expect("time enough");
        assert_eq!(connection.beat(Duration::ZERO).is_err(), held);
        connection.forgive();
        assert!(connection.beat(PATIENCE).is_ok());
    }
}

#[tokio::test]
async fn a_path_is_bound_again_once_nobody_waits_there() {
    let folder = std::env::temp_dir().join(format!("pointsman-zmtp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let address = Address::Ipc(folder.join("kv.sock"));
    let first = Listener::bind(&address).await.expect("bound");
    let error = Listener::bind(&address).await.expect_err("in use");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    drop(first);
    let listener = Listener::bind(&address).await.expect("bound again");
    let connect = Connection::connect(&address, Socket::Dealer, PATIENCE);
    let accept = async {
        let mut stream = listener.accept().await.expect("a connection");
        stream.write_all(&hello("ROUTER")).await.expect("sent");
        stream
    };
    let (connected, _stream) = tokio::join!(connect, accept);
    connected.expect("a connection");
    std::fs::remove_dir_all(&folder).expect("removed");
}
