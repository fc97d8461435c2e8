//! Frames: how messages and commands are cut into bytes and put together again.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::ZmtpError;

/// The most bytes of one message: far above a batch of events.
pub const MOST_BYTES: usize = 32 << 20;
/// The most frames of one message; engines send five at most.
pub const MOST_FRAMES: usize = 16;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Message(Vec<Bytes>),
    Command(Bytes),
}

/// Puts messages together.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    frames: Vec<Bytes>,
    bytes: usize,
}

impl Assembler {
    /// Takes what is complete from the front of `read`; none if more must be read first.
    pub(super) fn next(&mut self, read: &mut BytesMut) -> Result<Option<Arrival>, ZmtpError> {
        loop {
            let Some((flags, header, length)) = head(read) else { return Ok(None) };
            if flags & !(MORE | LONG | COMMAND) != 0 {
                return Err(ZmtpError::Protocol("a frame with unknown flags"));
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > MOST_BYTES - self.bytes || self.frames.len() >= MOST_FRAMES {
                return Err(ZmtpError::TooLarge);
            }
            if read.len() - header < length {
                return Ok(None);
            }
            read.advance(header);
            let body = read.split_to(length).freeze();
            if flags & COMMAND != 0 {
                if flags & MORE != 0 {
                    return Err(ZmtpError::Protocol("a command in several frames"));
                }
                return Ok(Some(Arrival::Command(body)));
            }
            self.bytes += length;
            self.frames.push(body);
            if flags & MORE == 0 {
                self.bytes = 0;
                return Ok(Some(Arrival::Message(std::mem::take(&mut self.frames))));
            }
        }
    }
}

/// A frame's flags, the length of its head, and that of its body.
fn head(read: &[u8]) -> Option<(u8, usize, u64)> {
    let (&flags, rest) = read.split_first()?;
    if flags & LONG == 0 {
        return Some((flags, 2, u64::from(*rest.first()?)));
    }
    let length = rest.first_chunk::<8>()?;
    Some((flags, 9, u64::from_be_bytes(*length)))
}

fn put(write: &mut BytesMut, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => write.put_slice(&[flags, length]),
        Err(_) => {
            write.put_u8(flags | LONG);
            write.put_u64(body.len() as u64);
        }
    }
    write.put_slice(body);
}

/// Appends a message.
pub(super) fn put_message(write: &mut BytesMut, frames: &[&[u8]]) {
    for (at, frame) in frames.iter().enumerate() {
        put(write, if at + 1 < frames.len() { MORE } else { 0 }, frame);
    }
}

/// Appends a command.
pub(super) fn put_command(write: &mut BytesMut, body: &[u8]) {
    put(write, COMMAND, body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in_however_they_are_cut() {
        let long = vec![7; 300];
        let mut bytes = BytesMut::new();
        put_message(&mut bytes, &[b"topic", b"", &long]);
        put_command(&mut bytes, b"\x04PING");
        put_message(&mut bytes, &[b""]);
        for piece in [1, 2, 9, 100, 1000] {
            let (mut assembler, mut read, mut arrived) =
                (Assembler::default(), BytesMut::new(), Vec::new());
            for piece in bytes.chunks(piece) {
                read.extend_from_slice(piece);
                while let Some(arrival) = assembler.next(&mut read).expect("sound") {
                    arrived.push(arrival);
                }
            }
            let first = vec![Bytes::from("topic"), Bytes::new(), Bytes::from(long.clone())];
            assert_eq!(
                arrived,
                [
                    Arrival::Message(first),
                    Arrival::Command(Bytes::from("\x04PING")),
                    Arrival::Message(vec![Bytes::new()]),
                ]
            );
        }
    }

    #[test]
    fn what_is_declared_too_large_is_refused_before_it_comes() {
        let mut read = BytesMut::from(&[LONG, 0x7f, 255, 255, 255, 255, 255, 255, 255][..]);
        let refused = Assembler::default().next(&mut read);
        assert!(matches!(refused, Err(ZmtpError::TooLarge)), "{refused:?}");
        // Many small frames are no way around it.
        let mut read = BytesMut::new();
        for _ in 0..=MOST_FRAMES {
            read.extend_from_slice(&[MORE, 1, 0]);
        }
        let refused = Assembler::default().next(&mut read);
        assert!(matches!(refused, Err(ZmtpError::TooLarge)), "{refused:?}");
    }

    #[test]
    fn flags_that_nobody_knows_are_refused() {
        let mut read = BytesMut::from(&[0x48, 0][..]);
        assert!(Assembler::default().next(&mut read).is_err());
        let mut read = BytesMut::from(&[COMMAND | MORE, 0][..]);
        assert!(Assembler::default().next(&mut read).is_err());
    }
}
