//! `select`: the selection service.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::document::Value;
use super::keys::SELECT;
use super::listener;
use super::places::Places;
use super::process::{BUDGET, BULK};
use super::reader::{Fields, Reader, Spot};
use super::scalar::{count, duration, show_size, size};
use super::{Config, Listener};

/// How long reservations and selections are kept: shorter, a pause of the network costs one; beyond a
/// day, none is meant.
const KEPT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);

/// The selection service.
#[derive(Clone, Debug)]
pub struct SelectConfig {
    /// Where it is served.
    pub listener: Listener,
    /// How long a reservation is kept that nobody speaks of, unless it says so itself.
    pub reservation_lease: Duration,
    /// The most reservations at a time.
    pub max_reservations: usize,
    /// How long a selection can be booked by its id.
    pub selection_cache_ttl: Duration,
    /// The most selections that are kept for that.
    pub selection_cache_entries: usize,
    /// The most bytes that they may take.
    pub selection_cache_size: usize,
    /// The largest request body, in bytes.
    pub max_body: usize,
    /// The most that request bodies may take together, in bytes; at least `max_body`.
    pub body_budget: usize,
}

impl Default for SelectConfig {
    fn default() -> Self {
        Self {
            listener: Listener::on(SocketAddr::from(([127, 0, 0, 1], 8092))),
            reservation_lease: Duration::from_secs(300),
            max_reservations: 1 << 18,
            selection_cache_ttl: Duration::from_secs(120),
            selection_cache_entries: 4_096,
            selection_cache_size: 256 << 20,
            max_body: 8 << 20,
            body_budget: 256 << 20,
        }
    }
}

impl Config {
    /// All listeners that are configured, by their keys.
    #[must_use]
    pub fn listeners(&self) -> Vec<(&'static str, &Listener)> {
        let select = self.select.as_ref().map(|select| ("select", &select.listener));
        let epp = self.epp.as_ref().map(|epp| ("epp", &epp.listener));
        let always = [("listen", &self.listen), ("admin", &self.admin)];
        always.into_iter().chain(select).chain(epp).collect()
    }
}

/// Reads it: an address, or a mapping.
pub(super) fn read(cx: &mut Reader<'_>, spot: &Spot<'_>, places: &mut Places) -> SelectConfig {
    let mut select = SelectConfig::default();
    if !matches!(spot.node().value, Value::Mapping(_)) {
        select.listener = listener::read(cx, spot, select.listener, places);
        return select;
    }
    let Some(fields) = cx.fields(spot, &SELECT) else { return select };
    listener::take(cx, &fields, &mut select.listener, places);
    cx.set(&fields, "reservation_lease", duration(KEPT), &mut select.reservation_lease);
    cx.set(&fields, "max_reservations", count(1..=1 << 24), &mut select.max_reservations);
    cx.set(&fields, "selection_cache_ttl", duration(KEPT), &mut select.selection_cache_ttl);
    let entries = &mut select.selection_cache_entries;
    cx.set(&fields, "selection_cache_entries", count(1..=1 << 20), entries);
    cx.set(&fields, "selection_cache_size", size(BUDGET), &mut select.selection_cache_size);
    cx.set(&fields, "max_body", size(BULK), &mut select.max_body);
    cx.set(&fields, "body_budget", size(BUDGET), &mut select.body_budget);
    if select.body_budget < select.max_body
        && let Some(spot) = fields.get("body_budget").or_else(|| fields.get("max_body"))
    {
        let [budget, most] =
            [select.body_budget, select.max_body].map(|size| show_size(size as u64));
        let what = format!("{budget} have no room for one body of {most}, which `max_body` allows");
        cx.refuse(
            &spot,
            what,
            format!("set `body_budget` to at least {most}, or lower `max_body`"),
        );
    }
    select
}

/// What is wrong with it beside the other listeners, and with strangers.
pub(super) fn check(
    cx: &mut Reader<'_>,
    root: &Fields<'_>,
    select: &SelectConfig,
    others: [(&str, &Listener); 2],
) {
    let Some(at) = root.get("select") else { return };
    let here = select.listener.address;
    for (name, other) in others {
        if listener::clash(here, other.address) {
            let what = format!("`{name}` wants port {} as well", here.port());
            cx.refuse(&at, what, "give it another port");
        }
    }
    let asked = cx.is_reported("select.token");
    if !here.ip().is_loopback() && select.listener.tokens.is_empty() && !asked {
        let what = format!("the selection service would be open to everybody who reaches {here}");
        cx.refuse(&at, what, "give it `tokens` or `token_env`, or a loopback address");
    }
}
