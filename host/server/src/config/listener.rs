//! Listeners: addresses, tokens, TLS.

use std::net::SocketAddr;

use super::document::Value;
use super::keys::{LISTENER, TLS};
use super::places::Places;
use super::reader::{Fields, Reader, Spot};
use super::scalar;
use super::{Listener, Secret, TlsConfig};

/// Reads one: an address, or a mapping.
pub(super) fn read(
    cx: &mut Reader<'_>,
    spot: &Spot<'_>,
    default: Listener,
    places: &mut Places,
) -> Listener {
    let mut listener = default;
    if !matches!(spot.node().value, Value::Mapping(_)) {
        if let Value::List(_) = spot.node().value {
            // `[::1]:8080` begins a list.
            let expected = "an address, or a mapping of address, tokens, token_env, tls";
            let remedy = "quote an IPv6 address, as in \"[::1]:8080\"";
            cx.expected(spot, scalar::Expected::or(expected, remedy));
        } else if let Some(address) = cx.read(spot, scalar::address) {
            listener.address = address;
        }
        return listener;
    }
    if let Some(fields) = cx.fields(spot, &LISTENER) {
        take(cx, &fields, &mut listener, places);
    }
    listener
}

/// Takes the fields that every listener has.
pub(super) fn take(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    listener: &mut Listener,
    places: &mut Places,
) {
    cx.set(fields, "address", scalar::address, &mut listener.address);
    if let Some(tokens) = fields.get("tokens") {
        for item in cx.list(&tokens) {
            listener.tokens.extend(cx.read_secret(&item, scalar::token).map(Secret));
        }
    }
    listener.tokens.extend(from_environment(cx, fields, "token_env"));
    listener.tls = fields.get("tls").and_then(|spot| tls(cx, &spot, places));
}

/// Whether two listeners can't both have what they want.
pub(super) fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let same_host =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && same_host
}

fn tls(cx: &mut Reader<'_>, spot: &Spot<'_>, places: &mut Places) -> Option<TlsConfig> {
    let fields = cx.fields(spot, &TLS)?;
    let mut file = |key| {
        let spot = cx.required(&fields, key)?;
        places.add_key(cx.at(&spot));
        cx.path(&spot)
    };
    let (certificates, key) = (file("certificates"), file("key"));
    Some(TlsConfig { certificates: certificates?, key: key? })
}

/// A token that an environment variable holds, by the key that names the variable.
pub(super) fn from_environment(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    key: &'static str,
) -> Option<Secret> {
    let spot = fields.get(key)?;
    let variable = cx.read(&spot, scalar::plain_name)?;
    let Some(token) = cx.strings.get(&variable) else {
        let what = format!("the environment variable {variable} is not set");
        cx.refuse(&spot, what, "set it, or leave the key out");
        return None;
    };
    // Files that variables are filled from tend to end in a newline.
    match scalar::token(token.trim_end_matches(['\r', '\n'])) {
        Ok(token) => Some(Secret(token)),
        Err(scalar::Expected { expected, .. }) => {
            let what = format!("the environment variable {variable} holds no token");
            cx.refuse(&spot, what, format!("set it to {expected}"));
            None
        }
    }
}

/// What is wrong with the two together, and with strangers at the admin listener.
pub(super) fn check(cx: &mut Reader<'_>, root: &Fields<'_>, listen: &Listener, admin: &Listener) {
    let at = root.get("admin").or_else(|| root.get("listen"));
    let at = at.unwrap_or_else(|| root.spot().clone());
    let (one, other) = (listen.address, admin.address);
    if clash(one, other) {
        let what = format!("both listeners want port {}", one.port());
        cx.refuse(&at, what, "give them different ports, since operators and clients don't mix");
    }
    // Tokens that are there, but wrong, have been reported.
    let asked = cx.is_reported("admin.token");
    if !other.ip().is_loopback() && admin.tokens.is_empty() && !asked {
        let what = format!("the admin listener would be open to everybody who reaches {other}");
        cx.refuse(&at, what, "give it `tokens` or `token_env`, or a loopback address");
    }
}
