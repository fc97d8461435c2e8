//! Fields at the top of a JSON object, taken out and put in; every other byte stays as it came.
//!
//! Works on text that has been found to be one JSON object. It knows no field, and reads no value: it
//! only finds where each begins and ends.

use axum::body::Bytes;
use memchr::memchr2;

/// A body, and where in it some fields are. A field that stands there twice is there twice.
#[derive(Debug)]
pub(super) struct Members {
    body: Bytes,
    found: Vec<Found>,
    /// Where the object's closing brace is.
    close: usize,
}

/// One field.
#[derive(Debug)]
struct Found {
    name: &'static str,
    /// Where its name begins.
    start: usize,
    /// Behind its value, and behind the comma that follows it.
    end: usize,
}

impl Members {
    /// Finds these fields. None if the body isn't one JSON object.
    pub(super) fn find(body: Bytes, names: &[&'static str]) -> Option<Self> {
        let mut scan = Scan { bytes: &body, at: 0 };
        let mut found = Vec::new();
        scan.skip_space();
        scan.take(b'{')?;
        let close = loop {
            scan.skip_space();
            if scan.next() == Some(b'}') {
                break scan.at;
            }
            let start = scan.at;
            scan.skip_string()?;
            let name = name_of(body.get(start..scan.at)?, names);
            scan.skip_space();
            scan.take(b':')?;
            scan.skip_space();
            scan.skip_value()?;
            let mut end = scan.at;
            scan.skip_space();
            if scan.next() == Some(b',') {
                scan.at += 1;
                end = scan.at;
            }
            found.extend(name.map(|name| Found { name, start, end }));
        };
        Some(Self { body, found, close })
    }

    /// As it came.
    pub(super) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether a field is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.found.iter().any(|found| found.name == name)
    }

    /// The body without some of the fields that were found, and with others, whose values are JSON.
    pub(super) fn spliced(&self, without: &[&str], with: &[(&str, &str)]) -> Bytes {
        let taken = || self.found.iter().filter(|found| without.contains(&found.name));
        if with.is_empty() && taken().next().is_none() {
            return self.body.clone();
        }
        let added: usize = with.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut spliced = Vec::with_capacity(self.body.len() + added);
        let copy = |from: usize, to: usize, spliced: &mut Vec<u8>| {
            spliced.extend_from_slice(self.body.get(from..to).unwrap_or_default());
        };
        let mut at = 0;
        for found in taken() {
            copy(at, found.start, &mut spliced);
            at = found.end;
        }
        copy(at, self.close, &mut spliced);
        // What was the last field may be gone, and leave its comma.
        let kept = spliced.trim_ascii_end().len();
        let mut comma = match kept.checked_sub(1).and_then(|last| spliced.get(last)) {
            Some(b',') => {
                spliced.truncate(kept - 1);
                true
            }
            last => last != Some(&b'{'),
        };
        for (name, value) in with {
            if comma {
                spliced.push(b',');
            }
            comma = true;
            for part in ["\"", name, "\":", value] {
                spliced.extend_from_slice(part.as_bytes());
            }
        }
        copy(self.close, self.body.len(), &mut spliced);
        spliced.into()
    }
}

/// Which of the names a key is, quotes included. Few write a letter as its number, but they may.
fn name_of(key: &[u8], names: &[&'static str]) -> Option<&'static str> {
    let plain = key.get(1..key.len().checked_sub(1)?)?;
    if !plain.contains(&b'\\') {
        return names.iter().find(|name| name.as_bytes() == plain).copied();
    }
    let text: String = serde_json::from_slice(key).ok()?;
    names.iter().find(|name| **name == text).copied()
}

/// A place in a text.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn next(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.next() == Some(wanted)).then(|| self.at += 1)
    }

    fn skip_space(&mut self) {
        while matches!(self.next(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            self.at += memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            if self.next() == Some(b'"') {
                self.at += 1;
                return Some(());
            }
            self.at += 2;
        }
    }

    fn skip_value(&mut self) -> Option<()> {
        match self.next()? {
            b'"' => self.skip_string(),
            b'{' | b'[' => self.skip_nested(),
            _ => {
                let rest = self.bytes.get(self.at..)?;
                let ends =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                self.at += rest.iter().position(ends)?;
                Some(())
            }
        }
    }

    fn skip_nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.next()? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    const NAMES: &[&str] = &["a", "stream", "room"];

    fn find(text: &str) -> Option<Members> {
        Members::find(Bytes::copy_from_slice(text.as_bytes()), NAMES)
    }

    fn spliced(text: &str, without: &[&str], with: &[(&str, &str)]) -> String {
        let bytes = find(text).unwrap().spliced(without, with);
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn what_is_not_touched_stays_byte_for_byte() {
        let with = [("room", "7")];
        for (text, without, expected) in [
            ("{}", &[][..], r#"{"room":7}"#),
            (" { \n } ", &[], " { \n \"room\":7} "),
            (r#"{"b" : 1.50 , "c":"\u0041,}"}"#, &[], r#"{"b" : 1.50 , "c":"\u0041,}","room":7}"#),
            (r#"{"a":1}"#, &["a"], r#"{"room":7}"#),
            (r#"{"a":1,"b":2}"#, &["a"], r#"{"b":2,"room":7}"#),
            (r#"{"b":2, "a":1 }"#, &["a"], r#"{"b":2,"room":7}"#),
            (r#"{"a":[1,{"a":"}"}],"b":{"a":1},"a":null}"#, &["a"], r#"{"b":{"a":1},"room":7}"#),
            // A letter as its number is the letter.
            (r#"{"b":2,"\u0061":1}"#, &["a"], r#"{"b":2,"room":7}"#),
            (r#"{"a":1,"stream":true,"b":0}"#, &["a", "stream"], r#"{"b":0,"room":7}"#),
            (r#"{"a":1,"stream":true}"#, &["stream"], r#"{"a":1,"room":7}"#),
        ] {
            assert_eq!(spliced(text, without, &with), expected, "{text}");
        }
        assert_eq!(spliced(r#"{"b": 1}"#, &["a"], &[]), r#"{"b": 1}"#);
        assert_eq!(spliced(r#"{"b": 1,"a":2}"#, &["a"], &[]), r#"{"b": 1}"#);
        assert!(
            find(r#"{"a":1}"#).unwrap().has("a") && !find(r#"{"b":{"a":1}}"#).unwrap().has("a")
        );
    }

    #[test]
    fn what_is_no_object_is_none() {
        for text in ["", "[]", "7", "{", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":"x}"#, r#"{"a":[1}"#] {
            // What isn't JSON may be cut wherever; that it ends is all that is asked.
            let found = find(text);
            assert!(found.is_none() || serde_json::from_str::<Value>(text).is_err(), "{text}");
        }
        assert!(find("[]").is_none() && find("").is_none() && find(r#"{"a":"x"#).is_none());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no other", |n| n.is_finite()).prop_map(Value::from),
            r#"[ a,{}\[\]:"\\\n\u{e9}\u{1f600}]{0,8}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key(), inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn key() -> impl Strategy<Value = String> {
        prop_oneof![
            2 => prop::sample::select(NAMES).prop_map(str::to_owned),
            3 => r#"[ab,{}:"\\ ]{0,4}"#.prop_map(|key| key),
        ]
    }

    /// An object as somebody writes it: fields twice, blanks anywhere.
    fn written() -> impl Strategy<Value = (String, Vec<(String, Value)>)> {
        let blank = prop::sample::select(&["", " ", "\n", "\t \r\n"][..]);
        let field = (key(), value(), prop::collection::vec(blank, 4));
        prop::collection::vec(field, 0..6).prop_map(|fields| {
            let mut text = "{".to_owned();
            for (at, (key, value, blanks)) in fields.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let key = serde_json::to_string(key).unwrap();
                let [a, b, c, d] = [0, 1, 2, 3].map(|blank| blanks[blank]);
                text += &format!("{comma}{a}{key}{b}:{c}{value}{d}");
            }
            (text + "}", fields.into_iter().map(|(key, value, _)| (key, value)).collect())
        })
    }

    proptest! {
        #[test]
        fn any_object_stays_what_it_is_but_for_the_fields(
            (text, fields) in written(),
            without in prop::sample::subsequence(NAMES, 0..=NAMES.len()),
            added in value(),
        ) {
            let with = added.to_string();
            let mut without = without;
            without.push("room");
            let new = spliced(&text, &without, &[("room", &with)]);
            let parsed: Value = serde_json::from_str(&new).unwrap();
            let mut expected: Map<String, Value> = fields
                .into_iter()
                .filter(|(key, _)| !without.contains(&key.as_str()))
                .collect();
            expected.insert("room".to_owned(), added);
            // Floats as they are written, on both sides.
            let expected: Value = serde_json::from_str(&json!(expected).to_string()).unwrap();
            prop_assert_eq!(parsed, expected);
            // And nothing is there twice that was to be replaced.
            let rooms = find(&new).unwrap().found.into_iter().filter(|found| found.name == "room");
            prop_assert_eq!(rooms.count(), 1);
        }

        #[test]
        fn no_text_is_too_odd(text in r#"[ {}\[\]:,"\\a1]{0,40}"#) {
            if let Some(members) = find(&text) {
                members.spliced(NAMES, &[("room", "1")]);
            }
        }
    }
}
