//! `epp`: the endpoint picker.

use std::net::SocketAddr;

use super::Listener;
use super::document::Value;
use super::keys::EPP;
use super::listener;
use super::places::Places;
use super::reader::{Fields, Reader, Spot};

/// The endpoint picker.
#[derive(Clone, Debug)]
pub struct EppConfig {
    /// Where gateways ask it.
    pub listener: Listener,
}

impl Default for EppConfig {
    fn default() -> Self {
        Self { listener: Listener::on(SocketAddr::from(([127, 0, 0, 1], 9002))) }
    }
}

/// Reads it: an address, or a mapping.
pub(super) fn read(cx: &mut Reader<'_>, spot: &Spot<'_>, places: &mut Places) -> EppConfig {
    let mut epp = EppConfig::default();
    if !matches!(spot.node().value, Value::Mapping(_)) {
        epp.listener = listener::read(cx, spot, epp.listener, places);
        return epp;
    }
    let Some(fields) = cx.fields(spot, &EPP) else { return epp };
    listener::take(cx, &fields, &mut epp.listener, places);
    epp
}

/// What is wrong with it beside the other listeners.
pub(super) fn check<'a>(
    cx: &mut Reader<'_>,
    root: &Fields<'_>,
    epp: &EppConfig,
    others: impl IntoIterator<Item = (&'a str, &'a Listener)>,
) {
    let Some(at) = root.get("epp") else { return };
    let here = epp.listener.address;
    for (name, other) in others {
        if listener::clash(here, other.address) {
            let what = format!("`{name}` wants port {} as well", here.port());
            cx.refuse(&at, what, "give it another port");
        }
    }
}
