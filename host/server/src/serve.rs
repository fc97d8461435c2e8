//! The running server: everything made, connected, and in the end taken down.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::app::App;
use crate::config::Config;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address could not be listened on.
    #[error("can't listen on {address}: {source}; choose another address, or stop what has it")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
}

/// A running router.
#[derive(Debug)]
pub struct Server {
    app: App,
    public: SocketAddr,
    admin: SocketAddr,
}

impl Server {
    /// Starts.
    pub async fn start(config: Config, config_path: Option<PathBuf>) -> Result<Self, ServeError> {
        let _ = (config, config_path);
        std::future::pending().await
    }

    /// Where clients are served.
    #[must_use]
    pub fn public_addr(&self) -> SocketAddr {
        self.public
    }

    /// Where operators are served.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// What the listeners share.
    #[must_use]
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Drains and stops.
    pub async fn shutdown(self) {}
}
