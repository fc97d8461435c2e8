//! Workers that a name's records list, such as those of a headless service.
//!
//! Owns the look-ups: at once, then time and again. An answer that there are none lists none; a name server
//! that fails lists nothing new, and the workers stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use tokio_util::sync::CancellationToken;

use super::keeper::WorkerKeeper;
use super::listed::Listed;
use crate::config::{DnsConfig, Records};

/// Looks a name up until it is told to stop.
pub(crate) async fn follow(keeper: Arc<WorkerKeeper>, config: DnsConfig, stop: CancellationToken) {
    let name = &config.name;
    let mut listed = Listed::new(keeper, format!("dns {name}"), config.like.clone());
    let (mut way, mut fails) = (None, false);
    loop {
        let looked = tokio::select! {
            looked = look_up(&mut way, &config) => looked,
            () = stop.cancelled() => return,
        };
        match &looked {
            Ok(_) => listed.is_well(""),
            Err(error) => listed.fails("", error.to_string()),
        }
        match looked {
            Ok(addresses) => {
                fails = false;
                let endpoint =
                    |address: SocketAddr| (address.to_string(), format!("http://{address}"));
                listed.are(&addresses.into_iter().map(endpoint).collect::<BTreeMap<_, _>>()).await;
            }
            Err(error) if !std::mem::replace(&mut fails, true) => {
                tracing::warn!(name, %error, "a name can't be looked up; its workers stay as they are");
            }
            Err(error) => tracing::debug!(name, %error, "a name can't be looked up"),
        }
        tokio::select! {
            () = tokio::time::sleep(config.refresh) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Why names can't be looked up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DnsError {
    /// There is nobody to ask.
    #[error("names can't be looked up: {0}; set `servers`")]
    NoWay(NetError),
    /// Nobody answers, or not well.
    #[error("{0}; see that its name server answers")]
    Failed(#[from] NetError),
}

/// Whether there is a way to look names up at all.
pub(crate) fn has_a_way(config: &DnsConfig) -> Result<(), DnsError> {
    resolver(config).map(drop).map_err(DnsError::NoWay)
}

fn resolver(config: &DnsConfig) -> Result<TokioResolver, NetError> {
    let mut builder = if config.servers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let connection = |mut connection: ConnectionConfig, port| {
            connection.port = port;
            connection
        };
        let servers = config.servers.iter().map(|server| {
            let both = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            let both = both.map(|one| connection(one, server.port()));
            NameServerConfig::new(server.ip(), true, both.to_vec())
        });
        let servers = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default())
    };
    // Each look-up is to be of now.
    builder.options_mut().cache_size = 0;
    builder.build()
}

/// Looks up, by a way that is made if there is none yet.
async fn look_up(
    way: &mut Option<TokioResolver>,
    config: &DnsConfig,
) -> Result<BTreeSet<SocketAddr>, DnsError> {
    let resolver = match way {
        Some(resolver) => resolver,
        None => way.insert(resolver(config).map_err(DnsError::NoWay)?),
    };
    let found = match config.records {
        Records::Addresses(port) => {
            let found = resolver.lookup_ip(&*config.name).await;
            found.map(|found| found.iter().map(|ip| SocketAddr::new(ip, port)).collect())
        }
        Records::Services => services(resolver, &config.name).await,
    };
    match found {
        // Nobody is ready.
        Err(error) if error.is_no_records_found() => Ok(BTreeSet::new()),
        found => Ok(found?),
    }
}

async fn services(resolver: &TokioResolver, name: &str) -> Result<BTreeSet<SocketAddr>, NetError> {
    let mut all = BTreeSet::new();
    for record in resolver.srv_lookup(name).await?.answers() {
        let RData::SRV(service) = &record.data else { continue };
        let found = match resolver.lookup_ip(service.target.clone()).await {
            // A target that has gone meanwhile.
            Err(error) if error.is_no_records_found() => continue,
            found => found?,
        };
        all.extend(found.iter().map(|ip| SocketAddr::new(ip, service.port)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
