//! What is said before messages, and between them: greeting, handshake, heartbeats.

use super::ZmtpError;

/// The length of a security mechanism's name, with the zeros behind it.
const MECHANISM: usize = 20;

/// The most bytes of what the other side says that are shown.
const MOST_SHOWN: usize = 100;

/// Our greeting: ZMTP 3.0, no security.
pub(super) const GREETING: [u8; 64] = {
    let mut greeting = [0; 64];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12] = b'N';
    greeting[13] = b'U';
    greeting[14] = b'L';
    greeting[15] = b'L';
    greeting
};

/// Asks for a sign of life; the connection isn't to be closed if none comes.
pub(super) const PING: &[u8] = b"\x04PING\0\0";

/// Checks the other side's greeting, and returns its minor version.
pub(super) fn check(greeting: &[u8]) -> Result<u8, ZmtpError> {
    let &[0xff, ..] = greeting else { return Err(ZmtpError::NotZmtp) };
    let (Some(&[last, major, minor]), Some(mechanism)) =
        (greeting.get(9..12), greeting.get(12..12 + MECHANISM))
    else {
        return Err(ZmtpError::NotZmtp);
    };
    if last & 1 == 0 {
        return Err(ZmtpError::NotZmtp);
    }
    if major < 3 {
        return Err(ZmtpError::Version(major));
    }
    let name = mechanism.split(|&byte| byte == 0).next().unwrap_or_default();
    if name != b"NULL" {
        return Err(ZmtpError::Mechanism(shown(name)));
    }
    Ok(if major > 3 { 1 } else { minor })
}

/// The command that ends the handshake.
pub(super) fn ready(socket: &str) -> Vec<u8> {
    let mut ready = b"\x05READY".to_vec();
    for (name, value) in [("Socket-Type", socket), ("Identity", "")] {
        ready.push(name.len() as u8);
        ready.extend_from_slice(name.as_bytes());
        ready.extend_from_slice(&(value.len() as u32).to_be_bytes());
        ready.extend_from_slice(value.as_bytes());
    }
    ready
}

/// A command's name and the rest.
fn name(command: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = command.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// Which kind of socket the other side is, by its READY.
pub(super) fn socket_type(command: &[u8]) -> Result<&[u8], ZmtpError> {
    if let Some(reason) = refusal(command) {
        return Err(ZmtpError::Refused(reason));
    }
    let Some((b"READY", mut rest)) = name(command) else {
        return Err(ZmtpError::Protocol("another command in place of READY"));
    };
    while let Some((key, value)) = name(rest) {
        let Some((length, value)) = value.split_first_chunk::<4>() else { break };
        let length = u32::from_be_bytes(*length) as usize;
        let Some((value, left)) = value.split_at_checked(length) else { break };
        if key.eq_ignore_ascii_case(b"Socket-Type") {
            return Ok(value);
        }
        rest = left;
    }
    Err(ZmtpError::Protocol("a READY without a socket type"))
}

/// Why the other side refuses us, if that is what the command says.
pub(super) fn refusal(command: &[u8]) -> Option<String> {
    let (b"ERROR", rest) = name(command)? else { return None };
    let reason = name(rest).map_or(rest, |(reason, _)| reason);
    Some(shown(reason))
}

/// What the other side says, for a message: of bounded length, and escaped.
pub(super) fn shown(said: &[u8]) -> String {
    let said = said.get(..MOST_SHOWN).unwrap_or(said);
    String::from_utf8_lossy(said).escape_debug().to_string()
}

/// The answer to a PING, if the command is one: its context sent back.
pub(super) fn pong(command: &[u8]) -> Option<Vec<u8>> {
    let (b"PING", rest) = name(command)? else { return None };
    let context = rest.get(2..)?;
    Some([b"\x04PONG", context.get(..16).unwrap_or(context)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_greeting_and_handshake_are_sound() {
        assert!(matches!(check(&GREETING), Ok(0)));
        assert!(matches!(socket_type(&ready("PUB")), Ok(b"PUB")));
    }

    #[test]
    fn others_are_told_apart() {
        let with = |at: usize, bytes: &[u8]| {
            let mut greeting = GREETING;
            greeting[at..at + bytes.len()].copy_from_slice(bytes);
            check(&greeting)
        };
        assert!(matches!(with(0, b"HTTP/1.1 400"), Err(ZmtpError::NotZmtp)));
        assert!(matches!(with(10, &[2]), Err(ZmtpError::Version(2))));
        assert!(matches!(with(11, &[1]), Ok(1)));
        assert!(matches!(with(12, b"CURVE"), Err(ZmtpError::Mechanism(m)) if m == "CURVE"));
    }

    #[test]
    fn a_cut_off_command_is_no_panic() {
        let ready = ready("PUB");
        for length in 0..ready.len() {
            let _ = socket_type(&ready[..length]);
            let _ = pong(&ready[..length]);
        }
        assert_eq!(refusal(b"\x05ERROR\x04away").as_deref(), Some("away"));
        // Without a length, all of it; but what it says goes to a log.
        let long = [&b"\x05ERROR\xff"[..], &[b'\n'; 1 << 20]].concat();
        assert_eq!(refusal(&long).map(|reason| reason.len()), Some(2 * MOST_SHOWN));
        assert_eq!(pong(b"\x04PING\0\x01abc").as_deref(), Some(&b"\x04PONGabc"[..]));
        assert_eq!(pong(b"\x04PING\0"), None);
    }
}
