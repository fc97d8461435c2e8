//! A name that is looked up at a small name server on loopback.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use hickory_resolver::proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::super::testing::{becomes, endpoints, following, until};
use super::*;
use crate::config::DiscoveryConfig;
use crate::serve::Server;
use crate::serve::testing;

const NAME: &str = "engines.test.";

#[derive(Debug, Default)]
struct Zone {
    records: BTreeMap<(String, RecordType), Vec<RData>>,
    fails: bool,
    asked: u64,
}

/// Answers by a zone. It ends with this.
struct NameServer {
    zone: Arc<Mutex<Zone>>,
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl NameServer {
    async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (zone, address) = (Arc::<Mutex<Zone>>::default(), socket.local_addr().unwrap());
        let its = zone.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut buffer = [0; 4_096];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                let asked = Message::from_vec(buffer.get(..length).unwrap()).unwrap();
                let answer = answer(&asked, &mut its.lock());
                socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
            }
        });
        Self { zone, address, _task: task }
    }

    fn addresses(&self, name: &str, addresses: &[[u8; 4]]) {
        let data = addresses.iter().map(|one| RData::A(A(Ipv4Addr::from(*one)))).collect();
        self.zone.lock().records.insert((name.to_owned(), RecordType::A), data);
    }

    fn services(&self, services: &[(&str, u16)]) {
        let one = |(target, port): &(&str, u16)| {
            RData::SRV(SRV::new(0, 0, *port, Name::from_ascii(target).unwrap()))
        };
        let data = services.iter().map(one).collect();
        self.zone.lock().records.insert((NAME.to_owned(), RecordType::SRV), data);
    }

    /// Until it has been asked so often since it failed.
    async fn asked(&self, times: u64) {
        while self.zone.lock().asked < times {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn followed(&self, records: Records) -> Server {
        let dns = DnsConfig {
            name: NAME.to_owned(),
            records,
            refresh: Duration::from_millis(20),
            servers: vec![self.address],
            like: testing::like(),
        };
        let discovery = DiscoveryConfig { dns: vec![dns], ..DiscoveryConfig::default() };
        following(discovery).await
    }
}

fn answer(asked: &Message, zone: &mut Zone) -> Message {
    let query = asked.queries.first().unwrap().clone();
    let mut answer = Message::new(asked.metadata.id, MessageType::Response, OpCode::Query);
    answer.metadata.recursion_desired = true;
    answer.metadata.recursion_available = true;
    let key = (query.name().to_ascii(), query.query_type());
    zone.asked += 1;
    let known = zone.records.keys().any(|(name, _)| *name == key.0);
    if zone.fails {
        answer.metadata.response_code = ResponseCode::ServFail;
    } else if let Some(data) = zone.records.get(&key) {
        for one in data {
            answer.add_answer(Record::from_rdata(query.name().clone(), 0, one.clone()));
        }
    } else if !known {
        answer.metadata.response_code = ResponseCode::NXDomain;
    }
    answer.add_query(query);
    answer
}

#[tokio::test]
async fn the_addresses_of_a_name_are_workers_as_they_come_and_go() {
    let names = NameServer::start().await;
    let server = names.followed(Records::Addresses(8_000)).await;
    names.asked(1).await;
    assert!(endpoints(&server).is_empty());
    names.addresses(NAME, &[[10, 0, 0, 1], [10, 0, 0, 2]]);
    becomes(&server, &["http://10.0.0.1:8000", "http://10.0.0.2:8000"]).await;
    let ids = || server.app().dispatcher.router().workers();
    let before =
        ids().iter().map(|worker| (worker.spec.worker_id, worker.epoch)).collect::<Vec<_>>();
    names.addresses(NAME, &[[10, 0, 0, 2], [10, 0, 0, 3]]);
    becomes(&server, &["http://10.0.0.2:8000", "http://10.0.0.3:8000"]).await;
    // Who stays goes on with its life.
    let after =
        ids().iter().map(|worker| (worker.spec.worker_id, worker.epoch)).collect::<Vec<_>>();
    assert_eq!(before.iter().filter(|one| after.contains(one)).count(), 1);
    names.addresses(NAME, &[]);
    becomes(&server, &[]).await;
    server.shutdown().await;
}

#[tokio::test]
async fn services_bring_their_ports() {
    let names = NameServer::start().await;
    names.services(&[("a.test.", 8_000), ("b.test.", 8_001), ("gone.test.", 8_002)]);
    names.addresses("a.test.", &[[10, 0, 0, 1]]);
    names.addresses("b.test.", &[[10, 0, 0, 1]]);
    let server = names.followed(Records::Services).await;
    becomes(&server, &["http://10.0.0.1:8000", "http://10.0.0.1:8001"]).await;
    server.shutdown().await;
}

#[tokio::test]
async fn while_the_name_server_fails_the_workers_stay_as_they_are() {
    let names = NameServer::start().await;
    names.addresses(NAME, &[[10, 0, 0, 1]]);
    let server = names.followed(Records::Addresses(8_000)).await;
    becomes(&server, &["http://10.0.0.1:8000"]).await;
    {
        let mut zone = names.zone.lock();
        (zone.fails, zone.asked) = (true, 0);
    }
    names.asked(4).await;
    assert_eq!(endpoints(&server).len(), 1);
    names.addresses(NAME, &[[10, 0, 0, 2]]);
    names.zone.lock().fails = false;
    becomes(&server, &["http://10.0.0.2:8000"]).await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_name_that_nobody_looks_up_is_told_to_who_asks_whether_the_router_is_ready() {
    let names = NameServer::start().await;
    names.zone.lock().fails = true;
    let server = names.followed(Records::Addresses(8_000)).await;
    let unheard = || server.app().workers.unheard();
    until(|| unheard().contains_key("dns engines.test."), || format!("{:?}", unheard())).await;
    names.addresses(NAME, &[[10, 0, 0, 1]]);
    names.zone.lock().fails = false;
    becomes(&server, &["http://10.0.0.1:8000"]).await;
    assert!(unheard().is_empty(), "{:?}", unheard());
    server.shutdown().await;
}

#[tokio::test]
async fn a_listed_worker_that_is_deleted_stays_away_until_it_is_listed_anew() {
    let names = NameServer::start().await;
    names.addresses(NAME, &[[10, 0, 0, 1], [10, 0, 0, 2]]);
    let server = names.followed(Records::Addresses(8_000)).await;
    becomes(&server, &["http://10.0.0.1:8000", "http://10.0.0.2:8000"]).await;
    let workers = server.app().dispatcher.router().workers();
    let first = workers.iter().find(|worker| worker.spec.endpoint.contains("0.1:")).unwrap();
    server.app().workers.remove(first.spec.worker_id, true).await.unwrap();
    let asked = names.zone.lock().asked;
    names.asked(asked + 6).await;
    assert_eq!(endpoints(&server).len(), 1);
    names.addresses(NAME, &[[10, 0, 0, 2], [10, 0, 0, 3]]);
    becomes(&server, &["http://10.0.0.2:8000", "http://10.0.0.3:8000"]).await;
    names.addresses(NAME, &[[10, 0, 0, 1], [10, 0, 0, 2]]);
    becomes(&server, &["http://10.0.0.1:8000", "http://10.0.0.2:8000"]).await;
    server.shutdown().await;
}
