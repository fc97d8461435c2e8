//! The keys of where somebody is served.

use super::{Key, Table};

table! {
    LISTENER: "listen, admin", "A listener is its address, or a mapping.";
    "address", "`ip:port`", "as above", "where it listens; port 0 takes any free one";
    "tokens", "list of texts", "none", "bearer tokens, any of which opens it; none asks for none";
    "token_env", "text", "none", "an environment variable that holds one more token";
    "tls", "mapping", "none", "serves TLS";
}

table! {
    TLS: "listen.tls, admin.tls, select.tls, epp.tls", "A certificate and its key.";
    "certificates", "path", "required", "a PEM file with the chain";
    "key", "path", "required", "a PEM file with the private key";
}

table! {
    SELECT: "select", "The selection service: the same decisions for those who keep their own data path. See [SELECTION.md](SELECTION.md). Left out, it isn't served. An address alone will do.";
    "address", "`ip:port`", "127.0.0.1:8092", "where it listens; port 0 takes any free one; anything but loopback needs a token";
    "tokens", "list of texts", "none", "bearer tokens, any of which opens it; none asks for none";
    "token_env", "text", "none", "an environment variable that holds one more token";
    "tls", "mapping", "none", "serves TLS; as for the other listeners";
    "reservation_lease", "duration, 100ms to 24h", "5m", "how long a reservation is kept that nobody speaks of, unless it says so itself; then its load is given back";
    "max_reservations", "count, 1 to 16_777_216", "262_144", "the most reservations at a time; beyond, none is taken";
    "selection_cache_ttl", "duration, 100ms to 24h", "2m", "how long a selection with an id can be booked";
    "selection_cache_entries", "count, 1 to 1_048_576", "4_096", "the most selections that are kept to be booked; the oldest give way";
    "selection_cache_size", "size", "256MiB", "the memory that they may take";
    "max_body", "size, 1KiB to 1GiB", "8MiB", "the largest request body";
    "body_budget", "size, 1KiB to 1TiB", "256MiB", "what request bodies may take together; at least `max_body`";
}

table! {
    EPP: "epp", "The endpoint picker: the same decisions for gateways that carry the requests. See [ENDPOINT-PICKER.md](ENDPOINT-PICKER.md). Left out, it isn't served. An address alone will do.";
    "address", "`ip:port`", "127.0.0.1:9002", "where gateways ask it, by gRPC; port 0 takes any free one";
    "tokens", "list of texts", "none", "bearer tokens, any of which opens it to picks; none asks for none; gRPC's health needs none";
    "token_env", "text", "none", "an environment variable that holds one more token";
    "tls", "mapping", "none", "serves TLS; as for the other listeners";
}
