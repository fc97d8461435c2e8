//! Workers that are the pods of an `InferencePool`.
//!
//! Owns the watches: one of the pool, and while there is one, another of the pods that it selects. A pod is a
//! worker for each of the pool's ports while it is ready and isn't being deleted; a pod of the same name that
//! comes later is another worker. While the API server can't be asked, the workers stay as they are: that
//! they are well is the probes' to say.

mod pods;
mod pool;
mod watched;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::watcher::Event;
use kube::{Client, Config};
use tokio_util::sync::CancellationToken;

use super::keeper::WorkerKeeper;
use super::listed::Listed;
use crate::config::KubernetesConfig;
use pods::Pods;
use pool::{Pool, Seen};
use watched::{Events, Failure};

/// How long after a failure the way to the API server is looked for again.
const PAUSE: Duration = Duration::from_secs(5);

/// What is watched, in words.
const POOL: &str = "its pool";
/// As [`POOL`].
const PODS: &str = "its pods";

/// Follows a pool until it is told to stop.
pub(crate) async fn follow(
    keeper: Arc<WorkerKeeper>,
    config: KubernetesConfig,
    stop: CancellationToken,
) {
    let work = pin!(async {
        let (client, namespace) = client(&keeper, &config).await;
        let source = format!("kubernetes {namespace}/{}", config.pool);
        let listed = Listed::new(keeper, source, config.like.clone());
        Following { client, namespace, config: &config, listed }.follow().await;
    });
    tokio::select! {
        () = work => {}
        () = stop.cancelled() => {}
    }
}

/// The way to the API server, and the namespace that is meant.
async fn client(keeper: &WorkerKeeper, config: &KubernetesConfig) -> (Client, String) {
    let pool = &config.pool;
    let source = format!("kubernetes {pool}");
    loop {
        match try_client(config).await {
            Ok(found) => {
                keeper.sources.lock().remove(&source);
                return found;
            }
            Err(error) => {
                let why = "there is no way to the Kubernetes API; the log has more; set `server`, or see that the pod has its service account";
                keeper.sources.lock().insert(source.clone(), why.to_owned());
                tracing::warn!(pool, %error, "there is no way to the Kubernetes API; trying again");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn try_client(
    config: &KubernetesConfig,
) -> Result<(Client, String), Box<dyn std::error::Error + Send + Sync>> {
    let found = match &config.server {
        Some(server) => Config::new(server.parse()?),
        None => Config::infer().await?,
    };
    let namespace = config.namespace.clone().unwrap_or_else(|| found.default_namespace.clone());
    Ok((Client::try_from(found)?, namespace))
}

struct Following<'a> {
    client: Client,
    namespace: String,
    config: &'a KubernetesConfig,
    listed: Listed,
}

impl Following<'_> {
    async fn follow(mut self) {
        let (group, version) = self.config.api_version.split_once('/').unwrap_or_default();
        let kind = GroupVersionKind::gvk(group, version, "InferencePool");
        let resource = ApiResource::from_gvk_with_plural(&kind, "inferencepools");
        let named = ListParams::default().fields(&format!("metadata.name={}", self.config.pool));
        let mut pools = self.events(&resource, named, POOL);
        let mut seen = Seen::default();
        let mut pods: Option<(Events, Pods)> = None;
        loop {
            tokio::select! {
                event = pools.next() => {
                    let Some(event) = self.sound(event, POOL) else { continue };
                    if let Some(pool) = seen.take(event) {
                        self.pool_is(pool.as_ref());
                        pods = pool.map(|pool| (self.pods_of(&pool), Pods::of(pool)));
                        if pods.is_none() {
                            self.listed.are(&BTreeMap::new()).await;
                        }
                    }
                }
                () = self.listed.due() => self.listed.again().await,
                event = next(&mut pods) => {
                    let Some(event) = self.sound(event, PODS) else { continue };
                    if let Some((_, pods)) = &mut pods
                        && let Some(endpoints) = pods.take(event)
                    {
                        self.listed.are(&endpoints).await;
                    }
                }
            }
        }
    }

    fn pods_of(&self, pool: &Pool) -> Events {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        self.events(&resource, ListParams::default().labels(&pool.selector()), PODS)
    }

    /// What happens to objects. Until they are listed, they aren't heard of.
    fn events(&self, resource: &ApiResource, which: ListParams, what: &str) -> Events {
        self.listed.fails(what, format!("the Kubernetes API hasn't told of {what} yet"));
        let client = self.client.clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, &self.namespace, resource);
        watched::events(api, which)
    }

    fn sound(
        &self,
        event: Option<Result<Event<DynamicObject>, Failure>>,
        what: &str,
    ) -> Option<Event<DynamicObject>> {
        match event? {
            Ok(event) => {
                // Before a list has ended nothing has been heard.
                if !matches!(event, Event::Init | Event::InitApply(_)) {
                    self.listed.is_well(what);
                }
                Some(event)
            }
            Err(Failure { told, detail }) => {
                let why =
                    format!("the Kubernetes API doesn't tell of {what}: {told}; the log has more");
                self.listed.fails(what, why);
                let (pool, namespace) = (&self.config.pool, &self.namespace);
                tracing::warn!(
                    pool,
                    namespace,
                    error = told,
                    detail,
                    "the Kubernetes API doesn't tell of {what}"
                );
                None
            }
        }
    }

    fn pool_is(&self, pool: Option<&Pool>) {
        let (name, namespace) = (&self.config.pool, &self.namespace);
        match pool {
            Some(pool) => {
                self.listed.is_well("");
                let (selector, ports) = (pool.selector(), &pool.ports);
                tracing::info!(pool = name, namespace, selector, ?ports, "a pool is followed");
            }
            None => {
                let why = "there is no such pool, or it selects nothing; create it with a selector and a port";
                // Nobody follows any.
                self.listed.is_well(PODS);
                self.listed.fails("", why);
                tracing::warn!(pool = name, namespace, "{why}");
            }
        }
    }
}

async fn next(pods: &mut Option<(Events, Pods)>) -> Option<Result<Event<DynamicObject>, Failure>> {
    match pods {
        Some((events, _)) => events.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
