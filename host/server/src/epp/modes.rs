//! In which order a gateway wants a request's parts answered, by what its filter is configured to send.

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::ProtocolConfiguration;
use tonic::Status;

/// How bodies come, and how they are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyMode {
    /// In one message, once the head has been answered.
    Buffered,
    /// Piece by piece, each of which gets an answer; the body goes on as the gateway has it.
    Streamed,
    /// Piece by piece, and sent back as it is to go on, whenever that is.
    Duplex,
}

/// The modes of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modes {
    /// None if requests come without their bodies.
    pub(super) request: Option<BodyMode>,
    pub(super) answer: BodyMode,
}

impl Modes {
    /// Those of a filter. One that says nothing is taken as gateways configure it for endpoint pickers.
    ///
    /// # Errors
    ///
    /// No pick can be made so, or its load can't be followed; in words what to set.
    pub(super) fn of(filter: Option<&ProtocolConfiguration>) -> Result<Self, Status> {
        let Some(filter) = filter else {
            return Ok(Self { request: Some(BodyMode::Duplex), answer: BodyMode::Duplex });
        };
        let request = match read(filter.request_body_mode) {
            Ok(BodyMode::Streamed) if !filter.send_body_without_waiting_for_header_response => {
                return Err(Status::failed_precondition(
                    "request_body_mode is STREAMED, and bodies come only after their heads have been answered; \
                     set send_body_without_waiting_for_header_response, or FULL_DUPLEX_STREAMED",
                ));
            }
            Ok(mode) => Some(mode),
            Err("NONE") => None,
            Err(mode) => return Err(wrong("request_body_mode", mode)),
        };
        let answer = read(filter.response_body_mode);
        Ok(Self { request, answer: answer.map_err(|mode| wrong("response_body_mode", mode))? })
    }
}

fn read(mode: i32) -> Result<BodyMode, &'static str> {
    match BodySendMode::try_from(mode) {
        Ok(BodySendMode::Buffered) => Ok(BodyMode::Buffered),
        Ok(BodySendMode::Streamed) => Ok(BodyMode::Streamed),
        Ok(BodySendMode::FullDuplexStreamed) => Ok(BodyMode::Duplex),
        Ok(other) => Err(other.as_str_name()),
        Err(_) => Err("unknown"),
    }
}

fn wrong(field: &str, mode: &str) -> Status {
    Status::failed_precondition(format!(
        "{field} is {mode}; set it to FULL_DUPLEX_STREAMED, STREAMED or BUFFERED"
    ))
}

/// What a request with a body gets where bodies aren't sent.
pub(super) fn no_bodies() -> Status {
    wrong("request_body_mode", "NONE")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on should say where")]

    use super::*;

    #[test]
    fn a_filter_by_which_nothing_could_be_picked_is_told_what_to_set() {
        let of = |request: BodySendMode, answer: BodySendMode, waits: bool| {
            let filter = ProtocolConfiguration {
                request_body_mode: request.into(),
                response_body_mode: answer.into(),
                send_body_without_waiting_for_header_response: !waits,
            };
            Modes::of(Some(&filter)).map_err(|status| status.message().to_owned())
        };
        use BodySendMode::{Buffered, BufferedPartial, FullDuplexStreamed, Grpc, None, Streamed};
        let good = |request, answer| Ok(Modes { request, answer });
        let duplex = Some(BodyMode::Duplex);
        assert_eq!(of(FullDuplexStreamed, Streamed, true), good(duplex, BodyMode::Streamed));
        assert_eq!(
            of(Streamed, Buffered, false),
            good(Some(BodyMode::Streamed), BodyMode::Buffered)
        );
        assert_eq!(of(None, FullDuplexStreamed, true), good(Option::None, BodyMode::Duplex));
        assert_eq!(Modes::of(Option::None).ok(), good(duplex, BodyMode::Duplex).ok());
        for (request, answer, waits, words) in [
            (Streamed, Streamed, true, "set send_body_without_waiting_for_header_response"),
            (BufferedPartial, Streamed, true, "request_body_mode is BUFFERED_PARTIAL; set it to"),
            (Grpc, Streamed, true, "request_body_mode is GRPC"),
            (Buffered, None, true, "response_body_mode is NONE"),
        ] {
            let told = of(request, answer, waits).unwrap_err();
            assert!(told.contains(words), "{told}");
        }
    }
}
