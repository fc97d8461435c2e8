//! One connection to a worker, driven by whoever uses it.
//!
//! No task of its own stands behind it: the task that waits for an answer reads and writes, so that an
//! exchange wakes nobody but the one who wants it, nothing is read that nobody asks for, and what is
//! dropped is closed. A link in nobody's hands isn't looked at; whoever takes it up again asks first
//! whether it is still open.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::unconstrained;

use super::sent::Announced;

/// How often a link is looked at in one go while it wakes itself. A task that has used up what the
/// runtime lets it do at once wakes itself for ever.
const MOST_TURNS: usize = 4;

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    sender: SendRequest<Announced>,
    /// None once it has ended.
    wire: Option<Connection<TokioIo<TcpStream>, Announced>>,
    nudge: Arc<Nudge>,
    waker: Waker,
    used: bool,
}

/// Wakes whoever drives a link, unless that is what he is doing: then he looks once more.
#[derive(Debug, Default)]
struct Nudge {
    driver: AtomicWaker,
    driving: AtomicBool,
    again: AtomicBool,
}

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.again.store(true, Ordering::SeqCst);
        if !self.driving.load(Ordering::SeqCst) {
            self.driver.wake();
        }
    }
}

impl Link {
    /// Over a socket that has just been connected.
    pub(super) async fn over(stream: TcpStream) -> hyper::Result<Self> {
        let (sender, wire) = handshake(TokioIo::new(stream)).await?;
        let nudge = Arc::new(Nudge::default());
        let waker = Waker::from(nudge.clone());
        Ok(Self { sender, wire: Some(wire), nudge, waker, used: false })
    }

    /// Whether it has carried an answer before.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Whether another request can be sent over it now: its last exchange is over on both sides, and
    /// nothing has come since. One that the worker has closed meanwhile says so here.
    pub(super) fn is_ready(&mut self) -> bool {
        // However much the task has done already: what isn't looked at now would be taken for the next
        // request's answer.
        let turn = pin!(unconstrained(poll_fn(|cx| {
            self.turn(cx);
            Poll::Ready(())
        })));
        let turned = turn.poll(&mut Context::from_waker(Waker::noop()));
        turned.is_ready() && self.wire.is_some() && self.sender.is_ready()
    }

    /// Sends a request, and waits for the head of the answer.
    pub(super) async fn send(
        &mut self,
        request: Request<Announced>,
    ) -> hyper::Result<Response<Incoming>> {
        let mut answer = pin!(self.sender.send_request(request));
        let answer = poll_fn(|cx| self.drive(cx, |cx| answer.as_mut().poll(cx))).await;
        self.used |= answer.is_ok();
        answer
    }

    /// Reads and writes until `ask` has what it wants, which can come from here only, or until there is
    /// nothing to do for now.
    pub(super) fn drive<T>(
        &mut self,
        cx: &Context<'_>,
        mut ask: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let nudge = self.nudge.clone();
        nudge.driver.register(cx.waker());
        for _ in 0..MOST_TURNS {
            nudge.driving.store(true, Ordering::SeqCst);
            // Read, too: whoever set it has done something that this turn must see.
            nudge.again.swap(false, Ordering::SeqCst);
            let waker = self.waker.clone();
            self.turn(&mut Context::from_waker(&waker));
            // Whatever it waits for comes with a turn: nobody need wake it.
            let got = ask(&mut Context::from_waker(Waker::noop()));
            nudge.driving.store(false, Ordering::SeqCst);
            if got.is_ready() {
                return got;
            }
            if !nudge.again.load(Ordering::SeqCst) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn turn(&mut self, cx: &mut Context<'_>) {
        // How it ended is told to whoever waits for an answer or its body.
        if self.wire.as_mut().is_some_and(|wire| Pin::new(wire).poll(cx).is_ready()) {
            self.wire = None;
        }
    }
}
