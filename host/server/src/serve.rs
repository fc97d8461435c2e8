//! The running server: everything made, connected, and in the end taken down.
//!
//! Owns the order of start and stop, the listeners and their connections. Used by the command
//! line, by the demo and by tests, several in one process: nothing here is global, and nothing
//! outlives [`Server::shutdown`].

mod aside;
mod connection;
mod crowd;
mod descriptors;
mod door;
mod error;
mod presence;
mod signal;
mod streams;
mod tls;
mod version;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use pointsman_core::router::Router;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::afterwards::Afterwards;
use crate::app::App;
use crate::clock::RouterClock;
use crate::config::{Config, Listener, Remark};
use crate::desks::Desks;
use crate::discovery::{KeeperConfig, WorkerKeeper};
use crate::dispatch::Dispatcher;
use crate::epp::Gateways;
use crate::policies::{self, Opened, PolicyKeeper};
use crate::prompts::{LoadError, Models, Prompter};
use crate::recorder::Recorder;
use crate::select::{self, Selections};
use crate::shared_cache::SharedCache;
use crate::telemetry::Metrics;
use crate::{admin, discovery, housekeeping, openai};
use connection::{Ends, Patience};
use crowd::Crowd;
use descriptors::Shares;
use door::Door;

pub(crate) use connection::Answers;
pub(crate) use crowd::{Beyond, Counts};

pub use error::ServeError;
pub(crate) use signal::Signals;
pub use signal::run;

/// Which doors are opened, of those that the configuration describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doors {
    /// The one for clients.
    pub public: bool,
    /// The one for operators.
    pub admin: bool,
}

impl Default for Doors {
    fn default() -> Self {
        Self { public: true, admin: true }
    }
}

/// Where each door is, with the port that it really got: as configured, if it stays closed.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    public: SocketAddr,
    admin: SocketAddr,
    select: Option<SocketAddr>,
    epp: Option<SocketAddr>,
}

/// A running router.
#[derive(Debug)]
pub struct Server {
    app: App,
    addresses: Addresses,
    /// Connections to the public listener from before the router was told to stop.
    served: TaskTracker,
    clients: Arc<Crowd>,
    /// Everything else: listeners, admin connections, latecomers.
    tasks: TaskTracker,
    /// Cuts every connection, and ends the listeners.
    cut: DropGuard,
    _drain: DropGuard,
}

impl Server {
    /// Starts: policies and workers first, then the listeners, so that the first request finds
    /// everything in its place. `config_path` is the file that is watched for changes.
    ///
    /// # Errors
    ///
    /// What keeps it from starting; nothing runs then.
    pub async fn start(config: Config, config_path: Option<PathBuf>) -> Result<Self, ServeError> {
        Self::start_with(config, config_path, Doors::default()).await
    }

    /// The same with not all doors open.
    ///
    /// # Errors
    ///
    /// What keeps it from starting; nothing runs then.
    pub async fn start_with(
        config: Config,
        config_path: Option<PathBuf>,
        doors: Doors,
    ) -> Result<Self, ServeError> {
        check_exposure(&config, doors)?;
        if let Some(problem) = tls_errors(&config).into_iter().next() {
            return Err(problem);
        }
        config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let opened = open(&config).await?;
        let models = models(&config).await?;
        let config = Arc::new(config);
        let clock = Arc::new(RouterClock::start());
        let router = Router::new(opened.policies(), clock.moment().seed);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let router = Arc::new(router.for_threads(threads));
        let dispatcher = Arc::new(Dispatcher::new(router, clock));
        let workers = WorkerKeeper::new(dispatcher.clone(), KeeperConfig::from(&*config));
        let workers = Arc::new(workers);
        workers.register_file(&config.workers).await.map_err(|error| {
            let at = config.places.workers.get(&error.worker);
            let place = at.map(|at| format!("{at}: ")).unwrap_or_default();
            ServeError::Worker { place, error: Box::new(error) }
        })?;

        let (draining, cut) = (CancellationToken::new(), CancellationToken::new());
        let metrics = Arc::new(Metrics::new());
        let shares = Shares::of_this_process(config.select.is_some(), config.epp.is_some());
        let crowd = |name, most| Crowd::new(name, most, metrics.connections(name));
        let clients = crowd("public", shares.public);
        let patience = Patience::with_writes(config.proxy.client_timeout);
        let open = |listener: &Listener, crowd| Door::open(listener, patience, crowd);
        let public = doors.public.then(|| open(&config.listen, clients.clone())).transpose()?;
        let for_operators = || open(&config.admin, crowd("admin", shares.admin));
        let admin = doors.admin.then(for_operators).transpose()?;
        let select = config.select.as_ref();
        let select = select.map(|it| open(&it.listener, crowd("select", shares.select)));
        let select = select.transpose()?;
        let gateways = crowd("epp", shares.epp);
        let epp = config.epp.as_ref().map(|epp| open(&epp.listener, gateways.clone()));
        let epp = epp.transpose()?;
        let addresses = Addresses {
            public: public.as_ref().map_or(config.listen.address, Door::address),
            admin: admin.as_ref().map_or(config.admin.address, Door::address),
            select: select.as_ref().map(Door::address),
            epp: epp.as_ref().map(Door::address),
        };
        let shared_cache =
            SharedCache::new(dispatcher.clone(), metrics.clone(), &config.shared_cache);
        let shared_cache = Arc::new(shared_cache);
        let policies = PolicyKeeper::start(
            opened,
            dispatcher.clone(),
            workers.clone(),
            shared_cache.clone(),
            config.clone(),
            config_path,
        );
        let recorder = Recorder::open(&config.recording, dispatcher.router().seed());
        let recorder = Arc::new(recorder.map_err(|source| ServeError::Recording {
            file: config.recording.file.clone().unwrap_or_default(),
            source,
        })?);
        let afterwards = Afterwards::start(recorder.clone()).map_err(ServeError::Thread)?;
        let afterwards = Arc::new(afterwards);
        let prompter = Prompter::new(models, dispatcher.clone(), metrics.clone(), &config.proxy);
        let desks = Desks::new(dispatcher.router().clone(), dispatcher.clock().clone());
        let desks = desks.with_log(afterwards.log());
        let selections = Arc::new(Selections::new(config.select.as_ref(), &metrics));
        let app = App {
            config,
            dispatcher,
            desks: Arc::new(desks),
            workers,
            policies: Arc::new(policies),
            prompter: Arc::new(prompter),
            shared_cache,
            cache_alarm: Arc::default(),
            afterwards,
            recorder,
            metrics,
            selections,
            draining: draining.clone(),
        };
        let (served, tasks) = (TaskTracker::new(), TaskTracker::new());
        if let Some(public) = public {
            tasks.spawn(public.serve(
                openai::Public::new(app.clone()),
                Ends { draining: draining.clone(), cut: cut.clone() },
                [served.clone(), tasks.clone()],
                clients.clone(),
            ));
        }
        if let Some(epp) = epp {
            tasks.spawn(epp.serve(
                Gateways::new(app.clone()),
                Ends { draining: draining.clone(), cut: cut.clone() },
                [served.clone(), tasks.clone()],
                clients.clone(),
            ));
        }
        // Operators are served to the very end, and so are those who give back what they have reserved.
        let to_the_end = |door: Door, router| {
            let ends = Ends { draining: cut.clone(), cut: cut.clone() };
            tasks.spawn(door.serve(router, ends, [tasks.clone(), tasks.clone()], clients.clone()));
        };
        if let Some(admin) = admin {
            to_the_end(admin, admin::router(app.clone()));
        }
        if let (Some(door), Some(config)) = (select, app.config.select.clone()) {
            to_the_end(door, select::router(app.clone(), config));
        }
        tasks.spawn(housekeeping::run(app.clone(), cut.clone()));
        discovery::follow(&app.config.discovery, &app.workers, &draining, &tasks);
        let Addresses { public, admin, select, epp } = addresses;
        let [select, epp] = [select, epp].map(|address| address.map(tracing::field::display));
        tracing::info!(
            public = doors.public.then(|| tracing::field::display(public)),
            admin = doors.admin.then(|| tracing::field::display(admin)),
            select,
            epp,
            "the router is listening"
        );
        let Shares { public, admin, select, epp } = shares;
        tracing::info!(
            public,
            admin,
            select,
            epp,
            "so many connections are held at once, by the limit on open files"
        );
        Ok(Self {
            app,
            addresses,
            served,
            clients,
            tasks,
            cut: cut.drop_guard(),
            _drain: draining.drop_guard(),
        })
    }

    /// Where clients are served, with the port that it really got; as configured, if that door stays
    /// closed.
    #[must_use]
    pub fn public_addr(&self) -> SocketAddr {
        self.addresses.public
    }

    /// Where operators are served; as configured, if that door stays closed.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.addresses.admin
    }

    /// Where workers are selected for those who ask; none if they aren't.
    #[must_use]
    pub fn select_addr(&self) -> Option<SocketAddr> {
        self.addresses.select
    }

    /// Where gateways ask for endpoints; none if they can't.
    #[must_use]
    pub fn epp_addr(&self) -> Option<SocketAddr> {
        self.addresses.epp
    }

    /// What the listeners share.
    #[must_use]
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Drains and stops: takes nothing new, lets what is in flight end within the drain timeout,
    /// cuts what is left, and waits until every task has ended.
    pub async fn shutdown(self) {
        let limit = self.app.config.drain_timeout;
        self.shutdown_within(limit).await;
    }

    /// As [`Server::shutdown`], with another time limit.
    pub async fn shutdown_within(self, limit: std::time::Duration) {
        self.begin_drain();
        let Self { app, served, clients, tasks, cut, .. } = self;
        if timeout(limit, served.wait()).await.is_err() {
            tracing::warn!(
                connections = clients.len(),
                requests = clients.requests(),
                "the drain time is over; what is left is cut off"
            );
        }
        drop(cut);
        served.wait().await;
        app.desks.stop().await;
        app.policies.stop().await;
        app.afterwards.stop().await;
        app.shared_cache.stop().await;
        app.workers.stop().await;
        tasks.close();
        tasks.wait().await;
        tracing::info!("the router has stopped");
    }

    /// From now on nothing new is taken. What is in flight goes on. Asked again, it does nothing.
    fn begin_drain(&self) {
        let Self { app, served, clients, .. } = self;
        if !served.close() {
            return;
        }
        let (connections, requests) = (clients.len(), clients.requests());
        tracing::info!(connections, requests, "draining");
        app.draining.cancel();
    }
}

/// The policies as a start finds them. Components are compiled, which takes a thread.
async fn open(config: &Config) -> Result<Opened, ServeError> {
    let config = config.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let components = policies::components(&config)?;
        Ok::<_, ServeError>(Opened::open(&config, components)?)
    });
    opened.await.map_err(|error| ServeError::Abandoned(error.to_string()))?
}

/// The files of models' tokenizers. Large ones take a second to read, which takes a thread.
async fn models(config: &Config) -> Result<Models, ServeError> {
    let config = config.clone();
    let loaded = tokio::task::spawn_blocking(move || {
        Models::load(&config).map_err(|errors| tokenizer_errors(&config, errors))
    });
    let loaded = loaded.await.map_err(|error| ServeError::Abandoned(error.to_string()))?;
    loaded.map_err(|errors| {
        let first = errors.into_iter().next();
        first.unwrap_or_else(|| ServeError::Abandoned("no tokenizer could be read".to_owned()))
    })
}

/// What is wrong with the files of models' tokenizers, as far as a start finds out.
pub(crate) fn tokenizer_problems(config: &Config) -> Vec<Remark> {
    let errors = Models::load(config).err().unwrap_or_default();
    let remark = |error: LoadError| Remark {
        at: config.tokenizer_place(&error.model).cloned(),
        text: error.to_string(),
    };
    errors.into_iter().map(remark).collect()
}

fn tokenizer_errors(config: &Config, errors: Vec<LoadError>) -> Vec<ServeError> {
    let placed = errors.into_iter().map(|error| {
        let at = config.tokenizer_place(&error.model);
        let place = at.map(|at| format!("{at}: ")).unwrap_or_default();
        ServeError::Tokenizer { place, error: Box::new(error) }
    });
    placed.collect()
}

/// What is wrong with the listeners' certificates and keys, as far as a start finds out.
pub(crate) fn tls_problems(config: &Config) -> Vec<Remark> {
    let remark = |error: ServeError| match error {
        ServeError::Tls { at, error } => Remark { at: Some(at), text: error.to_string() },
        error => Remark { at: None, text: error.to_string() },
    };
    tls_errors(config).into_iter().map(remark).collect()
}

fn tls_errors(config: &Config) -> Vec<ServeError> {
    let listeners = config.listeners();
    let problem = |(name, listener): (&str, &Listener)| {
        let tls = listener.tls.as_ref()?;
        let error = tls::acceptor(tls).err()?;
        let key = if error.path() == Some(&tls.certificates) { "certificates" } else { "key" };
        Some(match config.places.key(&format!("{name}.tls.{key}")) {
            Some(at) => ServeError::Tls { at: at.clone(), error: Box::new(error) },
            None => error,
        })
    };
    listeners.into_iter().filter_map(problem).collect()
}

/// A listener by which strangers could register workers must ask for a token.
fn check_exposure(config: &Config, doors: Doors) -> Result<(), ServeError> {
    let select = config.select.as_ref().map(|select| ("select", &select.listener));
    let admin = doors.admin.then_some(("admin", &config.admin));
    let exposed =
        |listener: &Listener| listener.tokens.is_empty() && !listener.address.ip().is_loopback();
    match [admin, select].into_iter().flatten().find(|(_, listener)| exposed(listener)) {
        Some((door, listener)) => Err(ServeError::Exposed { door, address: listener.address }),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
