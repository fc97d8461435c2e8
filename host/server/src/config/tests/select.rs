//! The selection service, as it is written.

use std::time::Duration;

use super::*;
use crate::config::SelectConfig;

#[test]
fn the_selection_service_is_off_until_it_is_asked_for_and_an_address_alone_will_do() {
    assert!(good("{}").select.is_none());
    let debug = |select: Option<SelectConfig>| format!("{select:?}");
    let usual = Some(SelectConfig::default());
    for text in ["select: {}", "select: 127.0.0.1:8092", "select: { address: 127.0.0.1:8092 }"] {
        assert_eq!(debug(good(text).select), debug(usual.clone()), "{text}");
    }
    let text =
        "select: { address: 0.0.0.0:1, token_env: TOKEN, reservation_lease: 30s, max_body: 1MiB }";
    let select = good(text).select.unwrap();
    assert_eq!((select.reservation_lease, select.max_body), (Duration::from_secs(30), 1 << 20));
    assert_eq!((select.listener.tokens.len(), select.listener.address.port()), (1, 1));
    let keys: Vec<_> = good(text).listeners().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["listen", "admin", "select"]);
}

#[test]
fn it_has_a_port_of_its_own_a_token_before_strangers_and_room_for_its_largest_body() {
    for (text, place, words) in [
        (
            "select: 127.0.0.1:8080",
            ":1:9:",
            "`listen` wants port 8080 as well; give it another port",
        ),
        ("select: 127.0.0.1:9090", ":1:9:", "`admin` wants port 9090 as well"),
        (
            "select: 0.0.0.0:8092",
            ":1:9:",
            "open to everybody who reaches 0.0.0.0:8092; give it `tokens`",
        ),
        ("select:\n  max_body: 512MiB\n", ":2:13:", "256MiB have no room for one body of 512MiB"),
        ("select: { reservation_lease: 1ms }", ":1:30:", "reservation_lease"),
        ("select: { colour: red }", ":1:11:", "colour"),
    ] {
        let told = mistakes(text);
        assert!(told.contains(place) && told.contains(words), "{text}\n{told}");
    }
}
