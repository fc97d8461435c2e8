//! What a text can mean: numbers, sizes, durations, addresses, names.
//!
//! Each reader takes a text as it stands in the file, and gives the value or says what was
//! expected. It doesn't know keys or places.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

pub(super) use pointsman_core::clock::written as show;

/// What was expected in place of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) expected: String,
    /// What to do, where that doesn't follow.
    pub(super) remedy: Option<String>,
}

impl Expected {
    pub(super) fn new(expected: impl Into<String>) -> Self {
        Self { expected: expected.into(), remedy: None }
    }

    pub(super) fn or(expected: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { expected: expected.into(), remedy: Some(remedy.into()) }
    }

    fn in_words(self) -> String {
        match self.remedy {
            Some(remedy) => format!("expected {}; {remedy}", self.expected),
            None => format!("expected {}", self.expected),
        }
    }
}

pub(super) type Read<T> = Result<T, Expected>;

/// A whole number as YAML writes it, with `_` between digits allowed. None if it isn't one, or one
/// beyond 64 bits.
pub(super) fn whole(text: &str) -> Option<u64> {
    let (digits, radix) = match text.get(..2) {
        Some("0x") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        _ => (text, 10),
    };
    let separated = digits
        .split('_')
        .all(|part| !part.is_empty() && part.chars().all(|digit| digit.is_digit(radix)));
    if !separated {
        return None;
    }
    u64::from_str_radix(&digits.replace('_', ""), radix).ok()
}

/// A number with a fraction or an exponent, or a whole one. Never NaN; infinite only if written so.
pub(super) fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Rust takes "inf", "nan" and "infinity" too, which YAML writes otherwise.
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || "+-.eE_".contains(c));
    let separated = digits.split('_').all(|part| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        !digits.contains('_') || (edge(part.chars().next()) && edge(part.chars().next_back()))
    });
    if !(numeric && separated) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// Whether a text would be a number, true or false if it stood without quotes.
pub(super) fn is_no_text(text: &str) -> bool {
    switch(text).is_ok() || whole(text).is_some() || float(text).is_some()
}

/// A count within bounds.
pub(super) fn count<T>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Read<T>
where
    T: TryFrom<u64>,
{
    move |text| {
        let (least, most) = (*range.start(), *range.end());
        let number = whole(text).filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            Expected::new(match most {
                u64::MAX => format!("a whole number, at least {least}"),
                _ => format!("a whole number, {least} to {most}"),
            })
        })
    }
}

/// A finite number.
pub(super) fn number(text: &str) -> Read<f64> {
    float(text)
        .or_else(|| whole(text).map(|number| number as f64))
        .filter(|number| number.is_finite())
        .ok_or_else(|| Expected::new("a finite number"))
}

pub(super) fn switch(text: &str) -> Read<bool> {
    match text {
        "true" | "True" | "TRUE" => Ok(true),
        "false" | "False" | "FALSE" => Ok(false),
        _ => Err(Expected::new("true or false")),
    }
}

/// One of a few words.
pub(super) fn word<T: Copy + 'static>(
    words: &'static [(&'static str, T)],
) -> impl Fn(&str) -> Read<T> {
    move |text| {
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let (last, first) = names.split_last().unwrap_or((&"", &[]));
            Expected::new(format!("{} or {last}", first.join(", ")))
        })
    }
}

/// A time with its unit, within bounds.
pub(super) fn duration(range: RangeInclusive<Duration>) -> impl Fn(&str) -> Read<Duration> {
    move |text| {
        let bounds = || format!("{} to {}", show(*range.start()), show(*range.end()));
        let expected =
            || Expected::new(format!("a time with its unit (ms, s, m or h), {}", bounds()));
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '_')).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let number = whole(digits).ok_or_else(|| match text.contains('.') {
            true => Expected {
                remedy: Some("write a fraction in a smaller unit, as in 1500ms".into()),
                ..expected()
            },
            false => expected(),
        })?;
        let millis = match unit.trim_start() {
            "ms" => Some(number),
            "s" => number.checked_mul(1_000),
            "m" => number.checked_mul(60_000),
            "h" => number.checked_mul(3_600_000),
            "" => {
                let remedy = format!("add the unit, as in {number}ms or {number}s");
                return Err(Expected { remedy: Some(remedy), ..expected() });
            }
            _ => return Err(expected()),
        };
        let time = millis.map(Duration::from_millis).filter(|time| range.contains(time));
        time.ok_or_else(expected)
    }
}

/// A size in bytes, or with a unit, within bounds.
pub(super) fn size<T>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Read<T>
where
    T: TryFrom<u64>,
{
    move |text| {
        let expected = || {
            let (least, most) = (show_size(*range.start()), show_size(*range.end()));
            Expected::new(format!("a size in bytes, KiB, MiB or GiB, {least} to {most}"))
        };
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '_')).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let shift = match unit.trim_start() {
            "" | "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            "kB" | "KB" | "K" | "k" | "MB" | "M" | "GB" | "G" => {
                let remedy = "write KiB, MiB or GiB, which are powers of 1024";
                return Err(Expected { remedy: Some(remedy.into()), ..expected() });
            }
            _ => return Err(expected()),
        };
        let bytes = whole(digits).and_then(|number| number.checked_mul(1 << shift));
        let bytes = bytes.filter(|bytes| range.contains(bytes));
        bytes.and_then(|bytes| T::try_from(bytes).ok()).ok_or_else(expected)
    }
}

/// A size as the file writes it.
pub(super) fn show_size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit =
        units.into_iter().find(|(shift, _)| bytes >> shift > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| format!("{bytes}B"), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// An IP address and a port.
pub(super) fn address(text: &str) -> Read<SocketAddr> {
    text.parse().map_err(|_| {
        let expected = "an IP address and a port, as in 127.0.0.1:8080";
        if text.starts_with("localhost") {
            Expected::or(expected, "write localhost as 127.0.0.1")
        } else if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse::<u16>().ok())
        {
            Expected::or(expected, format!("write all addresses as 0.0.0.0:{port}"))
        } else {
            Expected::new(expected)
        }
    })
}

/// The longest name; names are copied into snapshots, metrics and headers.
const MOST_NAME: usize = 256;

/// A text of some length, on one line.
pub(super) fn name(text: &str) -> Read<String> {
    let good = (1..=MOST_NAME).contains(&text.len()) && !text.contains(char::is_control);
    good.then(|| text.to_owned()).ok_or_else(|| {
        Expected::new(format!("a text of 1 to {MOST_NAME} bytes without control characters"))
    })
}

/// A name that can stand in a header and in a metric's label.
pub(super) fn plain_name(text: &str) -> Read<String> {
    let good = (1..=MOST_NAME).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\');
    good.then(|| text.to_owned()).ok_or_else(|| {
        let expected = format!("1 to {MOST_NAME} ASCII characters without blanks and quotes");
        Expected::new(expected)
    })
}

/// The longest path, in bytes: what Linux takes.
const MOST_PATH: usize = 4_096;

/// A file or folder.
pub(super) fn path(text: &str) -> Read<std::path::PathBuf> {
    let good = (1..=MOST_PATH).contains(&text.len()) && !text.contains(char::is_control);
    let expected = "a path, absolute or relative to this file, without control characters";
    good.then(|| text.into()).ok_or_else(|| Expected::new(expected))
}

/// The path of a URL.
pub(super) fn url_path(text: &str) -> Read<String> {
    let good = text.starts_with('/')
        && text.len() <= MOST_NAME
        && text.chars().all(|c| c.is_ascii_graphic());
    good.then(|| text.to_owned())
        .ok_or_else(|| Expected::new("the path of a URL, which begins with `/` and has no blanks"))
}

/// What can go after `Bearer`.
pub(super) fn token(text: &str) -> Read<String> {
    let good = !text.is_empty() && text.len() <= 4096 && text.chars().all(|c| c.is_ascii_graphic());
    good.then(|| text.to_owned())
        .ok_or_else(|| Expected::new("a token of 1 to 4096 ASCII characters without blanks"))
}

/// A worker's `http://host:port`, without a path: paths come from requests.
pub(super) fn endpoint(text: &str) -> Read<String> {
    let remedies = [
        "workers are reached over http only in this version",
        "leave the path out: it comes from the request",
        "leave the credentials out: use proxy.worker_token",
    ];
    origin(text, remedies)
}

/// The `http://host:port` of a shared cache.
pub(super) fn cache_url(text: &str) -> Read<String> {
    let remedies = [
        "the cache is asked over http only in this version",
        "leave the path out: it is always /check_blocks",
        "leave the credentials out: the cache is asked without any",
    ];
    origin(text, remedies)
}

/// `http://host:port` and nothing else; with what to say to https, a path and credentials.
fn origin(text: &str, [https, path, credentials]: [&str; 3]) -> Read<String> {
    let expected = "http://host:port";
    let remedy = |remedy: &str| Expected::or(expected, remedy);
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(remedy("put http:// before it"));
    };
    if scheme == "https" {
        return Err(remedy(https));
    }
    if scheme != "http" {
        return Err(Expected::new(expected));
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        return Err(remedy(path));
    }
    if authority.contains('@') {
        return Err(remedy(credentials));
    }
    let bare = format!("http://{authority}");
    let uri: http::Uri = bare.parse().map_err(|_| Expected::new(expected))?;
    let host = uri.host().is_some_and(|host| !host.is_empty());
    match uri.port_u16() {
        Some(port) if port > 0 && host && bare.len() <= MOST_NAME => Ok(bare),
        // Behind the brackets of an IPv6 address there is no colon but the port's.
        None if host && !authority.rsplit(']').next().is_some_and(|rest| rest.contains(':')) => {
            Err(remedy("add the port"))
        }
        _ => Err(Expected::new(expected)),
    }
}

/// An endpoint in what isn't YAML; or what is wrong with it, in words.
pub(crate) fn worker_endpoint(text: &str) -> Result<String, String> {
    endpoint(text).map_err(Expected::in_words)
}

/// A time with its unit in what isn't YAML; or what is wrong with it, in words.
pub(crate) fn time_within(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    duration(range)(text).map_err(Expected::in_words)
}
