//! The endpoint picker, as it is written.

use super::*;
use crate::config::EppConfig;

#[test]
fn the_endpoint_picker_is_off_until_it_is_asked_for_and_an_address_alone_will_do() {
    assert!(good("{}").epp.is_none());
    let debug = |epp: Option<EppConfig>| format!("{epp:?}");
    let usual = Some(EppConfig::default());
    for text in ["epp: {}", "epp: 127.0.0.1:9002", "epp: { address: 127.0.0.1:9002 }"] {
        assert_eq!(debug(good(text).epp), debug(usual.clone()), "{text}");
    }
    // Gateways are other machines, and mostly have no token.
    let config = good("epp: { address: 0.0.0.0:1 }\nselect: {}\n");
    let keys: Vec<_> = config.listeners().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["listen", "admin", "select", "epp"]);
}

#[test]
fn the_endpoint_picker_has_a_port_of_its_own() {
    for (text, words) in [
        ("epp: 127.0.0.1:8080", "`listen` wants port 8080 as well; give it another port"),
        ("epp: 0.0.0.0:9090", "`admin` wants port 9090 as well"),
        ("epp: 127.0.0.1:8092\nselect: {}\n", "`select` wants port 8092 as well"),
        ("epp: { colour: red }", "colour"),
    ] {
        let told = mistakes(text);
        assert!(told.contains(words), "{text}\n{told}");
    }
}
