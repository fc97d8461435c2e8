//! ZeroMQ's wire protocol, as much of it as a subscriber needs.
//!
//! Owns one connection: greeting, handshake, frames, heartbeats. It speaks ZMTP 3 without security,
//! as SUB or as DEALER. Whoever has a [`Connection`] knows when it ends, which a socket that
//! reconnects by itself would hide, and a connection that is dropped leaves nothing behind. Nothing
//! is believed that the other side declares: memory grows with what has arrived, up to a limit.
//!
//! It doesn't know what the messages are.

mod frames;
mod greeting;

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::Instant;

use super::endpoint::Address;
use frames::{Arrival, Assembler};
use greeting::GREETING;

pub use frames::{MOST_BYTES, MOST_FRAMES};

/// How much is read at once, at least.
const READ: usize = 16 * 1024;

/// Why a connection can't be made, or has ended.
#[derive(Debug, Error)]
pub enum ZmtpError {
    /// The system says so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other side has closed it.
    #[error("the other side closed the connection")]
    Closed,
    /// Nothing was heard for so long, heartbeats included.
    #[error("nothing was heard for {0:?}")]
    Silent(Duration),
    /// It took too long.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// It isn't ZeroMQ.
    #[error("what answers there isn't ZeroMQ; check the port")]
    NotZmtp,
    /// It is too old.
    #[error("ZMTP {0} is too old; use ZeroMQ 4 or newer")]
    Version(u8),
    /// It wants keys.
    #[error("the other side wants \"{0}\" security; only NULL is supported")]
    Mechanism(String),
    /// It is another kind of socket.
    #[error("what answers there is a {found} socket, not {expected}; check the port")]
    Socket {
        /// What it says.
        found: String,
        /// What it would have to be.
        expected: &'static str,
    },
    /// It refused us.
    #[error("the other side refused the connection: \"{0}\"")]
    Refused(String),
    /// What came is against the protocol.
    #[error("what came is no ZMTP: {0}")]
    Protocol(&'static str),
    /// A message is too large.
    #[error("a message is larger than {MOST_BYTES} bytes or {MOST_FRAMES} frames")]
    TooLarge,
}

/// Which kind of socket we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket<'a> {
    /// Gets what is published under topics that begin so.
    Sub {
        /// The beginning of the topics.
        topic: &'a str,
    },
    /// Asks and is answered, without any order.
    Dealer,
}

impl Socket<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Sub { .. } => "SUB",
            Self::Dealer => "DEALER",
        }
    }

    /// Whether we can talk with such a one, and which it should be.
    fn fits(self, other: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Sub { .. } if matches!(other, b"PUB" | b"XPUB") => Ok(()),
            Self::Sub { .. } => Err("PUB"),
            Self::Dealer if matches!(other, b"ROUTER" | b"REP" | b"DEALER") => Ok(()),
            Self::Dealer => Err("ROUTER"),
        }
    }
}

/// What bytes travel on.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Where others connect to us.
#[derive(Debug)]
pub enum Listener {
    /// On a port.
    Tcp(TcpListener),
    /// Under a path.
    Ipc(UnixListener),
}

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp { host, port } => {
                let host = if host == "*" { "0.0.0.0" } else { host };
                Ok(Self::Tcp(TcpListener::bind((host, *port)).await?))
            }
            Address::Ipc(path) => {
                let bound = match UnixListener::bind(path) {
                    // A socket that nobody waits at any more stays behind as a file.
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                        let tried = UnixStream::connect(path).await.map_err(|e| e.kind());
                        if !matches!(tried, Err(io::ErrorKind::ConnectionRefused)) {
                            return Err(error);
                        }
                        std::fs::remove_file(path)?;
                        UnixListener::bind(path)
                    }
                    bound => bound,
                };
                Ok(Self::Ipc(bound?))
            }
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Self::Ipc(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

/// A connection to another ZeroMQ socket.
pub struct Connection {
    stream: Box<dyn Stream>,
    read: BytesMut,
    /// What is to be sent before anything more is read.
    write: BytesMut,
    assembler: Assembler,
    heard: Instant,
    /// Whether the other side knows heartbeats.
    beats: bool,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("beats", &self.beats).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Nothing answers there within `patience`, or the wrong thing.
    pub async fn connect(
        address: &Address,
        socket: Socket<'_>,
        patience: Duration,
    ) -> Result<Self, ZmtpError> {
        let connect = async {
            let stream: Box<dyn Stream> = match address {
                Address::Tcp { host, port } => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    stream.set_nodelay(true)?;
                    Box::new(stream)
                }
                Address::Ipc(path) => Box::new(UnixStream::connect(path).await?),
            };
            Self::shake_hands(stream, socket).await
        };
        tokio::time::timeout(patience, connect).await.unwrap_or(Err(ZmtpError::TimedOut(patience)))
    }

    /// Waits until someone connects, as long as it takes.
    ///
    /// # Errors
    ///
    /// The system refuses, or who connects is the wrong one or takes longer than `patience`.
    pub async fn accept(
        listener: &Listener,
        socket: Socket<'_>,
        patience: Duration,
    ) -> Result<Self, ZmtpError> {
        let stream = listener.accept().await?;
        tokio::time::timeout(patience, Self::shake_hands(stream, socket))
            .await
            .unwrap_or(Err(ZmtpError::TimedOut(patience)))
    }

    /// Shakes hands over what bytes travel on, however long the other side takes.
    ///
    /// # Errors
    ///
    /// The other side is the wrong one, or the bytes end.
    pub async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        socket: Socket<'_>,
    ) -> Result<Self, ZmtpError> {
        Self::shake_hands(Box::new(stream), socket).await
    }

    async fn shake_hands(stream: Box<dyn Stream>, socket: Socket<'_>) -> Result<Self, ZmtpError> {
        let mut connection = Self {
            stream,
            read: BytesMut::new(),
            write: BytesMut::from(&GREETING[..]),
            assembler: Assembler::default(),
            heard: Instant::now(),
            beats: false,
        };
        frames::put_command(&mut connection.write, &greeting::ready(socket.name()));
        while connection.read.len() < GREETING.len() {
            connection.exchange().await?;
        }
        let minor = greeting::check(&connection.read.split_to(GREETING.len()))?;
        connection.beats = minor >= 1;
        let ready = loop {
            match connection.assembler.next(&mut connection.read)? {
                Some(Arrival::Command(command)) => break command,
                Some(Arrival::Message(_)) => {
                    return Err(ZmtpError::Protocol("a message before the handshake"));
                }
                None => connection.exchange().await?,
            }
        };
        let found = greeting::socket_type(&ready)?;
        if let Err(expected) = socket.fits(found) {
            return Err(ZmtpError::Socket { found: greeting::shown(found), expected });
        }
        if let Socket::Sub { topic } = socket {
            let mut subscription = vec![1];
            subscription.extend_from_slice(topic.as_bytes());
            frames::put_message(&mut connection.write, &[&subscription]);
            connection.flush().await?;
        }
        Ok(connection)
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub async fn send(&mut self, frames: &[&[u8]]) -> Result<(), ZmtpError> {
        frames::put_message(&mut self.write, frames);
        self.flush().await
    }

    /// The next message's frames. May be dropped at any time: the next call goes on.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub async fn next(&mut self) -> Result<Vec<Bytes>, ZmtpError> {
        loop {
            match self.assembler.next(&mut self.read)? {
                Some(Arrival::Message(frames)) => return Ok(frames),
                Some(Arrival::Command(command)) => self.answer(&command)?,
                None => self.exchange().await?,
            }
        }
    }

    /// To be called now and then: asks for a sign of life with the next read, if the other side
    /// can give one.
    ///
    /// # Errors
    ///
    /// It could, and hasn't within `patience`.
    pub fn beat(&mut self, patience: Duration) -> Result<(), ZmtpError> {
        if !self.beats {
            return Ok(());
        }
        if self.heard.elapsed() > patience {
            return Err(ZmtpError::Silent(patience));
        }
        if self.write.is_empty() {
            frames::put_command(&mut self.write, greeting::PING);
        }
        Ok(())
    }

    /// Nobody has read for a while, so nothing could be heard: the other side's time begins now.
    pub fn forgive(&mut self) {
        self.heard = Instant::now();
    }

    fn answer(&mut self, command: &[u8]) -> Result<(), ZmtpError> {
        if let Some(reason) = greeting::refusal(command) {
            return Err(ZmtpError::Refused(reason));
        }
        if let Some(pong) = greeting::pong(command) {
            frames::put_command(&mut self.write, &pong);
        }
        Ok(())
    }

    /// Sends what is to be sent, then reads something.
    async fn exchange(&mut self) -> Result<(), ZmtpError> {
        self.flush().await?;
        self.read.reserve(READ);
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(ZmtpError::Closed),
            _ => {
                self.heard = Instant::now();
                Ok(())
            }
        }
    }

    async fn flush(&mut self) -> Result<(), ZmtpError> {
        while self.write.has_remaining() {
            if self.stream.write_buf(&mut self.write).await? == 0 {
                return Err(ZmtpError::Closed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
