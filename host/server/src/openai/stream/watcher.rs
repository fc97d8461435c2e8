//! Watches server-sent events go by: for the first token, for the terminator, for an error.
//!
//! Works on chunks as they come, however they cut the lines, and keeps only the first few bytes of
//! the present line.

/// Enough of a line to know it: `data: {"error"` with a byte to spare for a carriage return.
const KEPT: usize = 16;

/// How an error's line begins.
const ERROR: &[u8] = b"{\"error\"";

/// Enough of an error to find its code in, which stands at its end.
const MOST_REPORTED: usize = 64 * 1024;

/// What has gone by.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    line: [u8; KEPT],
    /// Bytes of the line up to now; more than [`KEPT`] are counted as one more.
    length: usize,
    /// A line that isn't blank came since the last blank one.
    in_event: bool,
    /// Events' lines of data.
    data: u64,
    done: bool,
    /// What is known of an error that was reported, and whose fault it is.
    error: Option<Fault>,
    /// The line, while it is an error's.
    report: Vec<u8>,
}

/// Whose fault a reported error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The request's, by its code: below 500.
    Requests,
    /// The worker's, or nobody said whose.
    Workers,
}

impl Watcher {
    /// A chunk goes by.
    pub(super) fn see(&mut self, mut chunk: &[u8]) {
        while let Some(at) = memchr::memchr(b'\n', chunk) {
            self.add(&chunk[..at]);
            self.end_line();
            chunk = &chunk[at + 1..];
        }
        self.add(chunk);
    }

    /// Nothing more comes. A terminator without a line's end counts.
    pub(super) fn end(&mut self) {
        if self.length > 0 {
            self.end_line();
        }
    }

    /// Whether an event with data has come: comments that only keep the connection alive are none.
    pub(super) fn saw_data(&self) -> bool {
        self.data > 0
    }

    /// How many lines of data have come, the terminator's included.
    pub(super) fn data_lines(&self) -> u64 {
        self.data
    }

    /// Whether the terminator has come.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Whose fault an error is that an event reported; none if none did. The last one counts.
    pub(super) fn saw_error(&self) -> Option<Fault> {
        self.error
    }

    /// What must come before an event that is added now, so that it is one of its own.
    pub(super) fn gap(&self) -> &'static str {
        match (self.length > 0, self.in_event) {
            (true, _) => "\n\n",
            (false, true) => "\n",
            (false, false) => "",
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.length);
        let kept = bytes.len().min(room);
        if let Some(place) = self.line.get_mut(self.length..self.length + kept) {
            place.copy_from_slice(&bytes[..kept]);
        }
        let began = self.length;
        self.length += kept;
        if bytes.len() > kept {
            self.length = KEPT + 1;
        }
        // Nearly no line is an error's: nothing is copied of the others.
        if self.report.is_empty() && began < KEPT && self.is_error() {
            self.report.extend_from_slice(&self.line[..self.length.min(KEPT)]);
            self.report.extend_from_slice(&bytes[kept..bytes.len().min(MOST_REPORTED)]);
        } else if !self.report.is_empty() && self.report.len() < MOST_REPORTED {
            self.report.extend_from_slice(&bytes[..bytes.len().min(MOST_REPORTED)]);
        }
    }

    /// Whether the line up to now is an error's.
    fn is_error(&self) -> bool {
        let line = &self.line[..self.length.min(KEPT)];
        let value =
            line.strip_prefix(b"data:").map(|value| value.strip_prefix(b" ").unwrap_or(value));
        value.is_some_and(|value| value.starts_with(ERROR))
    }

    fn end_line(&mut self) {
        let whole = self.length <= KEPT;
        if !self.report.is_empty() {
            self.error = Some(fault(&self.report));
            self.report = Vec::new();
        }
        let mut line = &self.line[..self.length.min(KEPT)];
        self.length = 0;
        if whole {
            line = line.strip_suffix(b"\r").unwrap_or(line);
        }
        self.in_event = !(whole && line.is_empty());
        let Some(value) = line.strip_prefix(b"data:") else { return };
        self.data = self.data.saturating_add(1);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        self.done |= whole && value == b"[DONE]";
    }
}

/// Whose fault a line says that an error is: its code, or the status that it names, tells.
fn fault(line: &[u8]) -> Fault {
    let value = line.strip_prefix(b"data:").unwrap_or(line);
    let report: serde_json::Value = serde_json::from_slice(value).unwrap_or_default();
    let error = &report["error"];
    let number = |value: &serde_json::Value| {
        value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
    };
    let code = ["code", "status", "status_code"].iter().find_map(|key| number(&error[*key]));
    if code.is_some_and(|code| (400..500).contains(&code)) {
        Fault::Requests
    } else {
        Fault::Workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": ping\n\ndata: {\"id\":\"a long enough line\"}\n\ndata: [DONE]\n\n";

    fn watch<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Watcher {
        let mut watcher = Watcher::default();
        chunks.into_iter().for_each(|chunk| watcher.see(chunk.as_bytes()));
        watcher
    }

    #[test]
    fn the_terminator_is_found_wherever_the_chunks_are_cut() {
        for stream in [STREAM.to_owned(), STREAM.replace('\n', "\r\n")] {
            for at in 0..=stream.len() {
                for other in at..=stream.len() {
                    let watcher = watch([&stream[..at], &stream[at..other], &stream[other..]]);
                    assert!(watcher.is_done() && watcher.saw_data(), "{at} {other}");
                    assert_eq!(watcher.saw_error(), None);
                    assert_eq!(watcher.gap(), "");
                }
            }
            let cut = &stream[..stream.len() - stream.split("[DONE]").last().unwrap_or("").len()];
            let mut watcher = watch([cut]);
            assert!(!watcher.is_done(), "its line isn't over");
            watcher.end();
            assert!(watcher.is_done());
        }
    }

    #[test]
    fn what_only_looks_like_a_terminator_is_none() {
        for stream in [
            "data: [DONE] \n\n",
            "data: [DONE]!!!!!!!!!!!!!!!\n\n",
            " data: [DONE]\n\n",
            "data: {\"text\":\"data: [DONE]\"}\n\n",
            "event: [DONE]\n\n",
            "data: [done]\n\n",
        ] {
            let mut watcher = watch([stream]);
            watcher.end();
            assert!(!watcher.is_done(), "{stream:?}");
        }
        assert!(watch(["data:[DONE]\n"]).is_done());
    }

    #[test]
    fn a_real_engines_stream_is_understood() {
        for stream in [
            include_str!("../../mock_engine/recorded/chat_stream.sse"),
            include_str!("../../mock_engine/recorded/completion_stream_usage.sse"),
        ] {
            let watcher = watch([stream]);
            assert!(watcher.is_done() && watcher.saw_data() && watcher.saw_error().is_none());
            // As one that was killed leaves it.
            let cut = stream.rfind("data: [DONE]").unwrap_or_default();
            assert!(!watch([&stream[..cut]]).is_done());
        }
    }

    #[test]
    fn a_comment_is_no_token() {
        assert!(!watch([": ping\n\n", "event: x\n"]).saw_data());
        assert!(watch([": ping\n\n", "data: x\n"]).saw_data());
    }

    #[test]
    fn an_error_event_is_seen_and_an_added_event_stands_alone() {
        assert_eq!(watch(["data: {\"err", "or\": 1}\n\n"]).saw_error(), Some(Fault::Workers));
        for (code, fault) in [
            ("400", Fault::Requests),
            ("\"429\"", Fault::Requests),
            ("500", Fault::Workers),
            ("null", Fault::Workers),
            ("\"rate_limit\"", Fault::Workers),
        ] {
            let line = format!(
                "data: {{\"error\":{{\"message\":\"a \\\"long\\\" one\",\"code\":{code}}}}}\r\n\r\n"
            );
            for at in 0..=line.len() {
                let watcher = watch([&line[..at], &line[at..]]);
                assert_eq!(watcher.saw_error(), Some(fault), "{line} cut at {at}");
            }
        }
        assert_eq!(watch(["data: x\n\nda"]).gap(), "\n\n");
        assert_eq!(watch(["data: x\n"]).gap(), "\n");
        assert_eq!(watch(["data: x\r\n\r\n"]).gap(), "");
        assert_eq!(watch(["data: a line longer than what is kept of it"]).gap(), "\n\n");
    }
}
