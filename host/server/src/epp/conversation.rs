//! One request's stream of messages, and what is answered to each.
//!
//! Owns the order of answers. A conversation is driven by whoever takes them, and by nothing else: while the
//! gateway takes none, nothing of the body is read; when the gateway lets go of the stream, all is dropped
//! that the request had, its load too.

use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Message;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HeaderMutation, HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse,
};
use futures_util::{Stream, StreamExt};
use http::{Request, header, request};
use http_body_util::Full;
use pointsman_core::clock::Stopwatch;
use pointsman_core::ids::WorkerId;
use tonic::{Status, Streaming};

use super::chunks::{Came, Chunks, Incoming};
use super::course::Course;
use super::modes::{BodyMode, Modes, no_bodies};
use super::own::own;
use super::replies::{Replies, Way, hygiene};
use super::service::Office;
use super::{head, metadata};
use crate::openai::{Asked, GROUP, Refused};

/// Messages that may come while a request is decided: the end of its body, and its trailers.
const MOST_KEPT: usize = 16;

/// A conversation.
pub(super) struct Conversation {
    office: Arc<Office>,
    messages: Messages,
    replies: Replies,
    modes: Option<Modes>,
    /// A head whose body is to come in one message.
    headed: Option<Headed>,
    course: Course,
    over: bool,
}

/// A request's head.
struct Headed {
    head: request::Parts,
    among: Option<BTreeSet<WorkerId>>,
    /// What it took to read.
    took: Duration,
}

impl Conversation {
    pub(super) fn new(office: Arc<Office>, incoming: Streaming<ProcessingRequest>) -> Self {
        Self {
            office,
            messages: Messages { incoming, kept: Vec::new(), ended: false },
            replies: Replies::default(),
            modes: None,
            headed: None,
            course: Course::Nothing,
            over: false,
        }
    }

    /// The next answer; none when there is nothing more to say.
    pub(super) async fn next(&mut self) -> Option<Result<ProcessingResponse, Status>> {
        loop {
            if let Some(reply) = self.replies.next() {
                return Some(Ok(reply));
            }
            if self.over {
                return None;
            }
            let message = match self.messages.next().await? {
                Ok(message) => message,
                // A stream that breaks ends, and not as if all had been said: a gateway would go on by itself.
                Err(status) => {
                    self.over = true;
                    return Some(Err(status));
                }
            };
            if let Err(status) = self.take(message).await {
                self.over = true;
                tracing::warn!(error = status.message(), "a gateway's filter can't be served");
                return Some(Err(status));
            }
        }
    }

    async fn take(&mut self, message: ProcessingRequest) -> Result<(), Status> {
        let ProcessingRequest { request, metadata_context, attributes, .. } = message;
        let modes = match self.modes {
            Some(modes) => modes,
            None if message.observability_mode => {
                return Err(Status::failed_precondition(
                    "observability_mode is set, in which no answer is heeded; leave it out",
                ));
            }
            None => *self.modes.insert(Modes::of(message.protocol_config.as_ref())?),
        };
        match request {
            Some(Message::RequestHeaders(headers)) => {
                head::bounded(&headers)?;
                let among = metadata::subset(metadata_context.as_ref());
                return self.request(headers, among, modes).await;
            }
            Some(Message::RequestBody(body)) => self.request_body(body, modes).await,
            Some(Message::RequestTrailers(_)) => self.replies.trailers(Way::Request),
            Some(Message::ResponseHeaders(headers)) => {
                head::bounded(&headers)?;
                if let Course::Out(_, at) = &self.course
                    && let Some(served) = metadata::served(metadata_context.as_ref())
                {
                    self.office.compare(&at.to_string(), served);
                }
                let details = metadata::details(&attributes);
                let change = self.course.head(&headers, details);
                self.replies.changed_head(Way::Answer, change);
            }
            Some(Message::ResponseBody(body)) => self.answer_body(body, modes),
            Some(Message::ResponseTrailers(_)) => {
                if let Some(complaint) = self.course.close()
                    && modes.answer == BodyMode::Duplex
                {
                    self.replies.piece(Way::Answer, complaint, false);
                }
                self.replies.trailers(Way::Answer);
            }
            // A word on flow control.
            None => {}
        }
        Ok(())
    }

    /// A request begins.
    async fn request(
        &mut self,
        headers: HttpHeaders,
        among: Option<Vec<String>>,
        modes: Modes,
    ) -> Result<(), Status> {
        let watch = Stopwatch::start();
        let head = head::request(&headers);
        let among = among.map(|endpoints| self.office.named(&endpoints));
        let headed = Headed { head, among, took: watch.elapsed() };
        if headers.end_of_stream {
            self.pick_whole(headed, Bytes::new(), true).await;
            return Ok(());
        }
        match modes.request {
            None => return Err(no_bodies()),
            Some(BodyMode::Buffered) => {
                let change =
                    HeaderMutation { remove_headers: hygiene(), ..HeaderMutation::default() };
                self.replies.changed_head(Way::Request, change);
                self.headed = Some(headed);
            }
            Some(mode) => self.pick_on_the_way(headed, mode).await,
        }
        Ok(())
    }

    /// Picks for a request whose body comes piece by piece.
    async fn pick_on_the_way(&mut self, headed: Headed, mode: BodyMode) {
        let Headed { head, among, took } = headed;
        let length = head.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let group = head.headers.get(GROUP).cloned();
        let picks = self.office.picks.clone();
        let serves =
            |model: &str| picks.serves(model, group.as_ref().and_then(|group| group.to_str().ok()));
        let mut came = Came::default();
        let body = Chunks::new(&mut self.messages, &mut came, length, serves);
        let (asked, read) = own(picks.read(Request::from_parts(head, body))).await;
        let watch = Stopwatch::start();
        if came.answered {
            // Nobody waits for a pick any more, and what was answered is to be let through.
            return;
        }
        let Some((body, waited)) = self.pick(asked, among, true).await else { return };
        match mode {
            BodyMode::Duplex if !body.is_empty() || came.last => {
                self.replies.piece(Way::Request, body, came.last);
            }
            BodyMode::Duplex => {}
            _ => self.replies.unchanged(Way::Request, came.pieces),
        }
        if came.trailers {
            self.replies.trailers(Way::Request);
        }
        let answered = came.whole.map(|whole| whole.elapsed()).unwrap_or_default();
        self.office.picked(answered, took + read + watch.elapsed().saturating_sub(waited));
    }

    /// Picks for a request of which all is there.
    async fn pick_whole(&mut self, headed: Headed, body: Bytes, with_head: bool) {
        let Headed { head, among, took } = headed;
        let whole = Stopwatch::start();
        let request = Request::from_parts(head, Full::new(body));
        let asked = self.office.picks.clone().read(request).await;
        if let Some((_, waited)) = self.pick(asked, among, with_head).await {
            let answered = whole.elapsed();
            self.office.picked(answered, took + answered.saturating_sub(waited));
        }
    }

    /// Has it decided. Returns the body, and how long others were waited for, if there is a worker for it; else
    /// the client is told why not, and all is over.
    async fn pick(
        &mut self,
        asked: Result<Asked, Refused>,
        among: Option<BTreeSet<WorkerId>>,
        with_head: bool,
    ) -> Option<(Bytes, Duration)> {
        let office = self.office.clone();
        let decided = async {
            let pick = office.picks.pick(asked?, among).await?;
            let (waited, watch) = (pick.waited(), Stopwatch::start());
            let (pick, at) = office.reached(pick).await?;
            Ok::<_, Refused>((pick, at, waited + watch.elapsed()))
        };
        let decided = pin!(decided);
        let decided = tokio::select! {
            biased;
            decided = decided => decided,
            // Nobody waits for it.
            () = self.messages.end() => {
                self.over = self.messages.ended;
                return None;
            }
        };
        match decided {
            Ok((mut pick, at, waited)) => {
                let body = pick.take_body();
                pick.goes_out();
                self.replies.picked(&pick, at, with_head);
                self.course = Course::Out(Box::new(pick), at);
                Some((body, waited))
            }
            Err(refused) => {
                self.office.refused(&refused);
                self.replies.refused(refused);
                self.over = true;
                None
            }
        }
    }

    async fn request_body(&mut self, body: HttpBody, modes: Modes) {
        let HttpBody { body, end_of_stream: last, .. } = body;
        if let Some(headed) = self.headed.take() {
            return self.pick_whole(headed, body.into(), false).await;
        }
        match modes.request {
            Some(BodyMode::Duplex) => self.replies.piece(Way::Request, body.into(), last),
            _ => self.replies.unchanged(Way::Request, 1),
        }
    }

    fn answer_body(&mut self, body: HttpBody, modes: Modes) {
        let HttpBody { body, end_of_stream: last, .. } = body;
        let body = Bytes::from(body);
        let complaint = self.course.piece(&body, last);
        match (modes.answer, complaint) {
            (BodyMode::Duplex, None) => self.replies.piece(Way::Answer, body, last),
            (BodyMode::Duplex, Some(complaint)) => {
                if !body.is_empty() {
                    self.replies.piece(Way::Answer, body, false);
                }
                self.replies.piece(Way::Answer, complaint, true);
            }
            _ => self.replies.unchanged(Way::Answer, 1),
        }
    }
}

/// Messages as they come, those first that came while nobody asked for them.
struct Messages {
    incoming: Streaming<ProcessingRequest>,
    /// The earliest last.
    kept: Vec<ProcessingRequest>,
    ended: bool,
}

impl Messages {
    /// Until no more will come, or the gateway has answered by itself. What comes meanwhile is kept; where
    /// much does, the end isn't seen.
    async fn end(&mut self) {
        while self.kept.len() < MOST_KEPT {
            match self.incoming.next().await {
                Some(Ok(message)) => {
                    let is_answer = is_of_an_answer(&message);
                    self.kept.insert(0, message);
                    if is_answer {
                        // Of the request nothing is to go on.
                        self.kept.retain(is_of_an_answer);
                        return;
                    }
                }
                Some(Err(_)) | None => {
                    self.ended = true;
                    return;
                }
            }
        }
        std::future::pending().await
    }
}

/// Whether a message is of an answer: while nothing is picked, that is the gateway's own, which gave up.
fn is_of_an_answer(message: &ProcessingRequest) -> bool {
    matches!(
        message.request,
        Some(Message::ResponseHeaders(_) | Message::ResponseBody(_) | Message::ResponseTrailers(_))
    )
}

impl Incoming for Messages {
    fn put_back(&mut self, message: ProcessingRequest) {
        self.kept.push(message);
    }
}

impl Stream for Messages {
    type Item = Result<ProcessingRequest, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.kept.pop() {
            Some(message) => Poll::Ready(Some(Ok(message))),
            None if self.ended => Poll::Ready(None),
            None => self.incoming.poll_next_unpin(cx),
        }
    }
}
