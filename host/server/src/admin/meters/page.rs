//! A page of metrics as Prometheus reads it, written as its values are read.
//!
//! Owns the text form: a family's help and type stand before its first series, labels in the order of
//! their names, what is special in a text escaped. A fleet of thousands of ranks has more than a hundred
//! thousand series, so nothing is kept of one but its line, in pieces that are sent as they are.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{Display, Write};
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// A piece has about so many bytes: few to send, and none to be moved about while it grows.
const PIECE: usize = 32 << 10;

/// A family: its name, what it says, and what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
}

/// A label's name, and its value.
pub(super) type Label<'a> = (&'static str, &'a str);

/// How values are spread.
#[derive(Debug)]
pub(super) struct Spread {
    /// How many are at most so large, for each bound, in ascending order.
    pub(super) up_to: Vec<(f64, u64)>,
    /// How many there are.
    pub(super) count: u64,
    /// What they are together.
    pub(super) sum: f64,
}

/// What has been written up to here, by family.
#[derive(Debug, Default)]
pub(super) struct Page(BTreeMap<&'static str, Family>);

#[derive(Debug, Default)]
struct Family {
    done: Vec<Bytes>,
    last: String,
}

/// A page that is there.
#[derive(Debug)]
pub(super) struct Written {
    /// When its values began to be read.
    pub(super) begun: Instant,
    pieces: Vec<Bytes>,
}

/// A page on its way to a client.
#[derive(Debug)]
pub(super) struct Sending {
    page: Arc<Written>,
    sent: usize,
}

impl Metric {
    pub(super) const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "gauge" }
    }

    pub(super) const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "counter" }
    }

    pub(super) const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "histogram" }
    }
}

impl Page {
    /// Adds a series, which must be there once only. Its labels are in two lists, each in the order
    /// of their names.
    pub(super) fn put(
        &mut self,
        metric: &Metric,
        labels: &[Label<'_>],
        more: &[Label<'_>],
        value: impl Display,
    ) {
        self.write(metric, "", labels, more, value);
    }

    /// Adds the series of a histogram.
    pub(super) fn put_spread(
        &mut self,
        metric: &Metric,
        labels: &[Label<'_>],
        more: &[Label<'_>],
        spread: &Spread,
    ) {
        let mut up_to = |bound: &str, count: u64| {
            let mut with: Vec<Label<'_>> = more.to_vec();
            with.push(("le", bound));
            with.sort_by_key(|label| label.0);
            self.write(metric, "_bucket", labels, &with, count);
        };
        for (bound, count) in &spread.up_to {
            up_to(&bound.to_string(), *count);
        }
        up_to("+Inf", spread.count);
        self.write(metric, "_sum", labels, more, spread.sum);
        self.write(metric, "_count", labels, more, spread.count);
    }

    fn write(
        &mut self,
        metric: &Metric,
        suffix: &str,
        labels: &[Label<'_>],
        more: &[Label<'_>],
        value: impl Display,
    ) {
        debug_assert!([labels, more].iter().all(|list| list.is_sorted_by_key(|label| label.0)));
        let Family { done, last } = self.0.entry(metric.name).or_insert_with(|| {
            let Metric { name, help, kind } = metric;
            let last = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            Family { done: Vec::new(), last }
        });
        last.push_str(metric.name);
        last.push_str(suffix);
        let (mut labels, mut more) = (labels.iter().peekable(), more.iter().peekable());
        let mut before = '{';
        loop {
            let next = match (labels.peek(), more.peek()) {
                (Some(one), Some(other)) if other.0 < one.0 => more.next(),
                (Some(_), _) => labels.next(),
                (None, _) => more.next(),
            };
            let Some((name, value)) = next else { break };
            last.push(before);
            last.push_str(name);
            last.push_str("=\"");
            escape(last, value);
            last.push('"');
            before = ',';
        }
        if before == ',' {
            last.push('}');
        }
        // Nothing goes wrong with a string.
        let _ = writeln!(last, " {value}");
        if last.len() >= PIECE {
            done.push(take(last).into());
        }
    }

    /// The page, behind what has been written elsewhere.
    pub(super) fn written(self, begun: Instant, before: String) -> Written {
        let mut pieces = vec![before.into()];
        for Family { done, last } in self.0.into_values() {
            pieces.extend(done);
            pieces.push(last.into());
        }
        Written { begun, pieces }
    }
}

impl Written {
    pub(super) fn send(self: Arc<Self>) -> Sending {
        Sending { page: self, sent: 0 }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.page.pieces.get(self.sent).cloned();
        self.sent += 1;
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.page.pieces.get(self.sent..).unwrap_or_default();
        SizeHint::with_exact(left.iter().map(|piece| piece.len() as u64).sum())
    }
}

fn escape(into: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '"', '\n']) {
        let (plain, special) = rest.split_at(at);
        into.push_str(plain);
        let mut special = special.chars();
        into.push_str(match special.next() {
            Some('\n') => "\\n",
            Some('"') => "\\\"",
            _ => "\\\\",
        });
        rest = special.as_str();
    }
    into.push_str(rest);
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use http_body_util::BodyExt;
    use prometheus::{GaugeVec, IntCounter, IntCounterVec, Opts, Registry, TextEncoder};

    use super::*;

    const ONE: Metric = Metric::counter("one_total", "Words, \"quoted\" too");
    const TWO: Metric = Metric::gauge("two", "Words");
    const BARE: Metric = Metric::counter("bare_total", "No labels");

    async fn text(page: Page) -> String {
        let page = Arc::new(page.written(Instant::now(), String::new())).send();
        let (length, body) = (page.size_hint().exact(), page.collect().await.unwrap().to_bytes());
        assert_eq!(length, Some(body.len() as u64));
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_page_is_what_the_usual_encoder_would_have_made() {
        let registry = Registry::new();
        let one = IntCounterVec::new(Opts::new(ONE.name, ONE.help), &["model", "kind", "zone"]);
        let two = GaugeVec::new(Opts::new(TWO.name, TWO.help), &["model"]).unwrap();
        let (one, bare) = (one.unwrap(), IntCounter::new(BARE.name, BARE.help).unwrap());
        registry.register(Box::new(one.clone())).unwrap();
        registry.register(Box::new(two.clone())).unwrap();
        registry.register(Box::new(bare.clone())).unwrap();
        let mut page = Page::default();
        let odd = "a \\ \"b\"\nc\\";
        for (model, count) in [("", 3_u64), (odd, 0), ("é", 1 << 40)] {
            one.with_label_values(&[model, "k", "z"]).inc_by(count);
            page.put(&ONE, &[("model", model), ("zone", "z")], &[("kind", "k")], count);
        }
        for (model, value) in [("a", 0.25), ("b", -1e-9), ("c", 5.0), ("d", 1e21)] {
            two.with_label_values(&[model]).set(value);
            page.put(&TWO, &[("model", model)], &[], value);
        }
        bare.inc();
        page.put(&BARE, &[], &[], 1);
        let usual = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert_eq!(text(page).await, usual);
    }

    #[tokio::test]
    async fn a_family_of_many_pieces_is_whole() {
        let mut page = Page::default();
        for nth in 0..5_000 {
            page.put(&TWO, &[], &[("nth", &nth.to_string())], nth);
            page.put(&BARE, &[], &[("nth", &nth.to_string())], nth);
        }
        let text = text(page).await;
        let mut lines = text.lines();
        for name in ["bare_total", "two"] {
            assert!(lines.next().is_some_and(|line| line.starts_with("# HELP")));
            assert!(lines.next().is_some_and(|line| line.starts_with("# TYPE")));
            for nth in 0..5_000 {
                assert_eq!(lines.next(), Some(&*format!("{name}{{nth=\"{nth}\"}} {nth}")));
            }
        }
        assert_eq!(lines.next(), None);
    }
}
