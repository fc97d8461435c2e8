//! Where an engine's sockets are.
//!
//! Owns the text form of ZeroMQ endpoints, as far as engines use it: `tcp://host:port` and
//! `ipc://path`. It opens nothing.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::config::shorten;

/// The longest name of a host, in bytes: what DNS has, and a dot.
const MOST_HOST: usize = 254;

/// The longest path of a socket, in bytes: what Linux has room for.
const MOST_PATH: usize = 107;

/// Why a text is no endpoint.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EndpointError {
    /// It begins with something else.
    #[error("{0:?} is no endpoint; write tcp://host:port or ipc://path")]
    Scheme(String),
    /// The port is missing.
    #[error("{0:?} has no port; write tcp://host:port, with a port from 1 to 65535")]
    NoPort(String),
    /// The port is no number from 1 to 65535.
    #[error("{0:?} has a port that isn't from 1 to 65535; write tcp://host:port with one that is")]
    Port(String),
    /// The host is missing, or holds what no host's name does.
    #[error("{0:?} has no host; write tcp://host:port, and an IPv6 address in brackets")]
    Host(String),
    /// The path is missing, or one that no socket has.
    #[error("{0:?} has no path that a socket can have; write ipc:///run/engine.sock")]
    Path(String),
    /// A rank's port would be too high.
    #[error(
        "rank {rank} has no port: {endpoint} is too high to count up from; choose a lower port"
    )]
    RankPort {
        /// The first rank's.
        endpoint: String,
        /// Which rank.
        rank: u32,
    },
    /// Only one rank can have a path.
    #[error("rank {rank} can't share {endpoint}; engines of several ranks need tcp endpoints")]
    RankPath {
        /// The first rank's.
        endpoint: String,
        /// Which rank.
        rank: u32,
    },
}

/// Where a socket is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// On a host's port.
    Tcp {
        /// The host's name or address, without brackets; `*` for any of this host's.
        host: String,
        /// The port.
        port: u16,
    },
    /// On this machine, under a path.
    Ipc(PathBuf),
}

/// Which side opens the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attach {
    /// The engine waits there, and we connect.
    #[default]
    Connect,
    /// We wait there, and the engine connects.
    Bind,
}

impl Address {
    /// Whether it names any host rather than one.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        match self {
            Self::Tcp { host, .. } => is_wildcard(host),
            Self::Ipc(_) => false,
        }
    }

    /// The same port of another host, if this one names any.
    #[must_use]
    pub fn at_host(self, other: &str) -> Self {
        match self {
            Self::Tcp { host, port } if is_wildcard(&host) => {
                Self::Tcp { host: bare(other).to_owned(), port }
            }
            address => address,
        }
    }

    /// The address of a rank, where this is that of rank 0: a port of its own for each.
    ///
    /// # Errors
    ///
    /// There is no such port, or it is a path.
    pub fn of_rank(&self, rank: u32) -> Result<Self, EndpointError> {
        match self {
            address if rank == 0 => Ok(address.clone()),
            Self::Tcp { host, port } => u32::from(*port)
                .checked_add(rank)
                .and_then(|port| u16::try_from(port).ok())
                .map(|port| Self::Tcp { host: host.clone(), port })
                .ok_or_else(|| EndpointError::RankPort { endpoint: self.to_string(), rank }),
            Self::Ipc(_) => Err(EndpointError::RankPath { endpoint: self.to_string(), rank }),
        }
    }
}

/// Whether a host's name means any host.
fn is_wildcard(host: &str) -> bool {
    matches!(host, "*" | "0.0.0.0" | "::")
}

/// An IPv6 address without its brackets.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

impl FromStr for Address {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("ipc://") {
            let sound = !matches!(path, "" | "*")
                && path.len() <= MOST_PATH
                && !path.contains(char::is_control);
            return match sound {
                true => Ok(Self::Ipc(PathBuf::from(path))),
                false => Err(EndpointError::Path(shorten(text))),
            };
        }
        let Some(rest) = text.strip_prefix("tcp://") else {
            return Err(EndpointError::Scheme(shorten(text)));
        };
        let Some((host, port)) = rest.rsplit_once(':') else {
            return Err(EndpointError::NoPort(shorten(text)));
        };
        if port.is_empty() {
            return Err(EndpointError::NoPort(shorten(text)));
        }
        let port = port.parse().ok().filter(|&port: &u16| port > 0);
        let Some(port) = port else { return Err(EndpointError::Port(shorten(text))) };
        let name = bare(host);
        let bracketed = name.len() != host.len();
        let sound = match name.parse::<Ipv6Addr>() {
            // vLLM writes `tcp://:::5557` for any address.
            Ok(address) => bracketed || address.is_unspecified(),
            Err(_) => {
                let of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
                !bracketed && (name == "*" || (!name.is_empty() && name.chars().all(of_name)))
            }
        };
        if !sound || name.len() > MOST_HOST {
            return Err(EndpointError::Host(shorten(text)));
        }
        Ok(Self::Tcp { host: name.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::Ipc(path) => write!(f, "ipc://{}", path.display()),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_and_written() {
        for (text, written) in [
            ("tcp://10.0.0.5:5557", "tcp://10.0.0.5:5557"),
            ("tcp://*:5557", "tcp://*:5557"),
            ("tcp://[fd00::5]:5557", "tcp://[fd00::5]:5557"),
            ("tcp://[::]:5557", "tcp://[::]:5557"),
            ("tcp://:::5557", "tcp://[::]:5557"),
            ("tcp://engine-0.engines.svc:80", "tcp://engine-0.engines.svc:80"),
            ("ipc:///run/engine.sock", "ipc:///run/engine.sock"),
        ] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()), Ok(written.to_owned()));
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in [
            "",
            "tcp://",
            "tcp://host",
            "tcp://host:0",
            "tcp://host:65536",
            "tcp://host:*",
            "tcp://:5557",
            "tcp://ho st:1",
            "tcp://user@host:1",
            "tcp://fd00::5:5557",
            "tcp://[host]:1",
            "http://host:1",
            "ipc://",
            "ipc://*",
            "inproc://events",
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains("; write "), "{text}: {error}");
        }
    }

    #[test]
    fn a_port_that_is_there_is_not_said_to_be_missing() {
        let error = |text: &str| text.parse::<Address>().expect_err(text).to_string();
        for text in ["tcp://*:99999", "tcp://host:0", "tcp://host:*", "tcp://host:-1"] {
            assert!(error(text).contains("isn't from 1 to 65535"), "{}", error(text));
        }
        // Engines tell of some: what they say is neither endless nor more than a line.
        let long = "x".repeat(1 << 20);
        for text in [
            long.clone(),
            format!("tcp://{long}:1"),
            format!("tcp://{long}"),
            format!("tcp://h:{long}"),
            format!("ipc:///{long}"),
            "ipc:///run/\n\x1b[2J".to_owned(),
        ] {
            let told = error(&text);
            assert!(told.len() < 200 && !told.contains(char::is_control), "{told:.300}");
        }
        for text in ["tcp://host", "tcp://host:"] {
            assert!(error(text).contains("has no port"), "{}", error(text));
        }
    }

    #[test]
    fn each_rank_has_a_port_of_its_own() {
        let first: Address = "tcp://*:5557".parse().expect("an endpoint");
        let third = first.of_rank(2).expect("a port").at_host("[fd00::5]");
        assert_eq!(third.to_string(), "tcp://[fd00::5]:5559");
        assert!(first.of_rank(60_000).is_err());
        assert!(first.of_rank(u32::MAX).is_err());
        let path: Address = "ipc:///run/engine.sock".parse().expect("an endpoint");
        assert_eq!(path.of_rank(0), Ok(path.clone()));
        assert!(path.of_rank(1).is_err());
    }
}
