//! The endpoint picker: workers chosen for a gateway that carries the requests itself.
//!
//! Owns the listener for Envoy's external processing (gRPC): its messages, what is read of them and what is
//! answered, for body modes buffered, streamed and full-duplex streamed; where a pick is said, and which
//! endpoints a gateway wants it to be among. Requests are decided, booked and accounted for as those of the
//! public listener, by [`crate::openai`]; this knows neither policies nor ledgers.
//!
//! In the way of a request: `service` takes the stream, `arrival` keeps count of messages that aren't whole yet,
//! `conversation` answers them one by one.
//! `modes` says in which order that goes, `head` reads headers, `chunks` the body as it comes (`scan` looks
//! through it on the way), `metadata` what the gateway adds, `subset` whom it means by that. `destination`
//! is where a worker is reached, `replies` are what goes back, and `course` follows the answer; `own` measures the work on a request. `health` says whether there is
//! anybody to pick. `ENDPOINT-PICKER.md` beside `src` is the operators' page.

mod arrival;
mod chunks;
mod conversation;
mod course;
mod destination;
mod head;
mod health;
mod metadata;
mod modes;
mod own;
mod replies;
mod scan;
mod service;
mod subset;

pub(crate) use service::Gateways;

#[cfg(test)]
mod tests;
