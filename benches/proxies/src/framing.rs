//! HTTP/1.1 messages on a socket: where one ends, and what its head says of that.

use anyhow::{Context, Result, bail, ensure};
use httparse::{EMPTY_HEADER, Header, Request, Response, Status};
use memchr::memmem;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Headers of a message, at most.
const MOST_HEADERS: usize = 64;

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// After so many bytes.
    Length(usize),
    /// After a chunk of no bytes.
    Chunked,
}

/// A message's head.
#[derive(Debug)]
pub struct Head {
    /// Its bytes, the blank line included.
    pub length: usize,
    /// Of a request.
    pub method: String,
    /// Of a request.
    pub path: String,
    /// Of an answer.
    pub status: u16,
    /// What follows.
    pub body: Body,
}

/// What has been read of a connection and not used yet.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    /// The first of them that isn't used.
    begin: usize,
}

impl Inbox {
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(256 << 10), begin: 0 }
    }

    /// What there is.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// So many bytes are used.
    pub fn skip(&mut self, bytes: usize) {
        self.begin = (self.begin + bytes).min(self.bytes.len());
        if self.begin == self.bytes.len() {
            self.bytes.clear();
            self.begin = 0;
        }
    }

    /// Reads more. False at the connection's end.
    pub async fn more(&mut self, stream: &mut TcpStream) -> Result<bool> {
        if self.begin > 0 {
            self.bytes.drain(..self.begin);
            self.begin = 0;
        }
        Ok(stream.read_buf(&mut self.bytes).await? > 0)
    }

    /// Reads until so many bytes are there.
    pub async fn at_least(&mut self, stream: &mut TcpStream, bytes: usize) -> Result<()> {
        while self.unread().len() < bytes {
            ensure!(self.more(stream).await?, "the connection ended within a message");
        }
        Ok(())
    }

    /// The next request's head; none at the connection's end.
    pub async fn request(&mut self, stream: &mut TcpStream) -> Result<Option<Head>> {
        loop {
            let mut headers = [EMPTY_HEADER; MOST_HEADERS];
            let mut request = Request::new(&mut headers);
            if let Status::Complete(length) = request.parse(self.unread())? {
                let (method, path) = (request.method.unwrap_or(""), request.path.unwrap_or(""));
                let (method, path) = (method.to_owned(), path.to_owned());
                let body = body(request.headers)?.unwrap_or(Body::Length(0));
                return Ok(Some(Head { length, method, path, status: 0, body }));
            }
            if !self.more(stream).await? {
                return Ok(None);
            }
        }
    }

    /// The next answer's head.
    pub async fn answer(&mut self, stream: &mut TcpStream) -> Result<Head> {
        loop {
            let mut headers = [EMPTY_HEADER; MOST_HEADERS];
            let mut answer = Response::new(&mut headers);
            if let Status::Complete(length) = answer.parse(self.unread())? {
                let status = answer.code.unwrap_or(0);
                let body =
                    body(answer.headers)?.context("an answer that only the connection ends")?;
                let (method, path) = (String::new(), String::new());
                return Ok(Head { length, method, path, status, body });
            }
            ensure!(self.more(stream).await?, "the connection ended before an answer");
        }
    }

    /// Reads a body to its end, and shows its data as it comes.
    pub async fn body(
        &mut self,
        stream: &mut TcpStream,
        body: Body,
        mut show: impl FnMut(&[u8]),
    ) -> Result<()> {
        match body {
            Body::Length(mut left) => {
                while left > 0 {
                    self.at_least(stream, 1).await?;
                    let there = self.unread().len().min(left);
                    show(&self.unread()[..there]);
                    self.skip(there);
                    left -= there;
                }
            }
            Body::Chunked => loop {
                let size = loop {
                    match httparse::parse_chunk_size(self.unread()) {
                        Ok(Status::Complete((head, size))) => {
                            self.skip(head);
                            break usize::try_from(size)?;
                        }
                        Ok(Status::Partial) => {
                            ensure!(self.more(stream).await?, "the connection ended in a body");
                        }
                        Err(_) => bail!("a chunk without a size"),
                    }
                };
                self.at_least(stream, size + 2).await?;
                show(&self.unread()[..size]);
                self.skip(size + 2);
                if size == 0 {
                    return Ok(());
                }
            },
        }
        Ok(())
    }
}

/// How a body ends; none if the head doesn't say.
fn body(headers: &[Header<'_>]) -> Result<Option<Body>> {
    let value = |name: &str| {
        let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value)
    };
    if value("transfer-encoding").is_some_and(|how| how.eq_ignore_ascii_case(b"chunked")) {
        return Ok(Some(Body::Chunked));
    }
    let Some(length) = value("content-length") else { return Ok(None) };
    Ok(Some(Body::Length(std::str::from_utf8(length)?.trim().parse()?)))
}

/// The whole number after a key of JSON.
pub fn number(json: &[u8], key: &[u8]) -> Option<u64> {
    let after = memmem::find(json, key)? + key.len();
    let digits = json[after..].iter().skip_while(|byte| matches!(byte, b' ' | b':' | b'"'));
    let digits: Vec<u8> = digits.take_while(|byte| byte.is_ascii_digit()).copied().collect();
    String::from_utf8(digits).ok()?.parse().ok()
}
