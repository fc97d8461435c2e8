//! What needs more decisions than a case has.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use pointsman_sdk::prelude::*;
use pointsman_sdk::testing::{self, Trial};

use crate::{MOST_HANDED_OVER, MOST_SESSIONS, StickyMinLoad};

fn of(session: &str) -> Request {
    let session = Some(Session { id: session.to_owned(), ..Session::default() });
    Request { session, ..testing::request() }
}

/// Whom a request of a session goes to; workers 1 and 2 have so many requests.
fn choose(trial: &mut Trial, session: &str, requests: [f64; 2]) -> u64 {
    let fleet = [(1, requests[0]), (2, requests[1])]
        .map(|(id, requests)| testing::worker(id).with(Input::ActiveRequests, requests));
    trial.decide(&of(session), &fleet).unwrap().worker.unwrap().id
}

#[test]
fn a_full_table_serves_further_sessions_unbound_and_known_ones_as_before() {
    let mut trial = Trial::of::<StickyMinLoad>("{}").unwrap();
    for n in 0..MOST_SESSIONS {
        assert_eq!(choose(&mut trial, &format!("s{n}"), [0.0, 1.0]), 1);
    }
    assert_eq!(choose(&mut trial, "one more", [0.0, 1.0]), 1);
    assert_eq!(choose(&mut trial, "one more", [1.0, 0.0]), 2, "it isn't bound");
    assert_eq!(choose(&mut trial, "s0", [1.0, 0.0]), 1, "it is");
}

#[test]
fn a_reload_takes_along_the_sessions_that_were_used_last() {
    let mut old = Trial::of::<StickyMinLoad>("{}").unwrap();
    for n in 0..=MOST_HANDED_OVER {
        choose(&mut old, &format!("s{n}"), [0.0, 1.0]);
    }
    let mut new = Trial::of::<StickyMinLoad>("{}").unwrap();
    let state = old.instances()[0].save().unwrap();
    new.instances().into_iter().for_each(|instance| instance.restore(&state).unwrap());
    assert_eq!(choose(&mut new, "s1", [9.0, 0.0]), 1);
    assert_eq!(choose(&mut new, "s0", [9.0, 0.0]), 2, "the one that was used longest ago");
}
