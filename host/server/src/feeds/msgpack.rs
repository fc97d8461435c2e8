//! A reader of msgpack that trusts nothing: where we are in the bytes, and what comes next.
//!
//! Owns how a value is read or skipped. What an engine declares is never believed: an array of
//! four billion elements in ten bytes costs nothing, and nesting costs no stack. It doesn't know
//! what the values mean; [`super::wire`] does.

use std::fmt;

/// What text or bytes are cut to where they are shown.
const SHOWN: usize = 32;

/// How many bytes a value takes, by its first; 0 for those whose size isn't told by that alone.
const SIZES: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut marker = 0;
    while marker < sizes.len() {
        sizes[marker] = match marker {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => 1,
            0xa0..=0xbf => 1 + (marker as u8 & 0x1f),
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 => 3,
            0xca | 0xce | 0xd2 => 5,
            0xcb | 0xcf | 0xd3 => 9,
            _ => 0,
        };
        marker += 1;
    }
    sizes
};

/// Why a value can't be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The byte at which the value begins.
    pub at: usize,
    /// What was looked for.
    pub expected: &'static str,
    /// What is there.
    pub found: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {} at byte {}", self.expected, self.found, self.at)
    }
}

/// The beginning of a value: all of it, unless it is an array or a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    /// Never negative.
    Unsigned(u64),
    /// Always negative.
    Negative(i64),
    Float(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// So many values follow.
    Array(u32),
    /// So many pairs of values follow.
    Map(u32),
    Extension,
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Negative(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) => {
                let shown = text.get(..SHOWN).unwrap_or(text);
                write!(f, "the text {:?}", String::from_utf8_lossy(shown))
            }
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Array(length) => write!(f, "an array of {length}"),
            Self::Map(length) => write!(f, "a map of {length}"),
            Self::Extension => f.write_str("an extension value"),
        }
    }
}

/// Where we are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` begin in the whole, for the places in errors.
    base: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, base: 0 }
    }

    /// The byte that is read next.
    pub(super) fn place(&self) -> usize {
        self.base + self.at
    }

    /// An upper bound of how many values can follow: each takes a byte or more.
    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// All bytes that are left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn length(&mut self, bytes: usize) -> Option<u32> {
        let taken = self.take(bytes)?;
        Some(taken.iter().fold(0, |length, &byte| length << 8 | u32::from(byte)))
    }

    fn signed(value: i64) -> Value<'a> {
        u64::try_from(value).map_or(Value::Negative(value), Value::Unsigned)
    }

    fn try_value(&mut self) -> Option<Value<'a>> {
        let [marker] = self.number()?;
        Some(match marker {
            0x00..=0x7f => Value::Unsigned(u64::from(marker)),
            0x80..=0x8f => Value::Map(u32::from(marker & 0x0f)),
            0x90..=0x9f => Value::Array(u32::from(marker & 0x0f)),
            0xa0..=0xbf => Value::Text(self.take(usize::from(marker & 0x1f))?),
            0xc0 => Value::Nil,
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4..=0xc6 => {
                let length = self.length(1 << (marker - 0xc4))?;
                Value::Bytes(self.take(length as usize)?)
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (marker - 0xc7))?;
                self.take(1)?;
                self.take(length as usize)?;
                Value::Extension
            }
            0xca => Value::Float(f64::from(f32::from_be_bytes(self.number()?))),
            0xcb => Value::Float(f64::from_be_bytes(self.number()?)),
            0xcc => Value::Unsigned(u64::from(u8::from_be_bytes(self.number()?))),
            0xcd => Value::Unsigned(u64::from(u16::from_be_bytes(self.number()?))),
            0xce => Value::Unsigned(u64::from(u32::from_be_bytes(self.number()?))),
            0xcf => Value::Unsigned(u64::from_be_bytes(self.number()?)),
            0xd0 => Self::signed(i64::from(i8::from_be_bytes(self.number()?))),
            0xd1 => Self::signed(i64::from(i16::from_be_bytes(self.number()?))),
            0xd2 => Self::signed(i64::from(i32::from_be_bytes(self.number()?))),
            0xd3 => Self::signed(i64::from_be_bytes(self.number()?)),
            0xd4..=0xd8 => {
                self.take(1 + (1 << (marker - 0xd4)))?;
                Value::Extension
            }
            0xd9..=0xdb => {
                let length = self.length(1 << (marker - 0xd9))?;
                Value::Text(self.take(length as usize)?)
            }
            0xdc | 0xdd => Value::Array(self.length(2 << (marker - 0xdc))?),
            0xde | 0xdf => Value::Map(self.length(2 << (marker - 0xde))?),
            0xe0..=0xff => Self::signed(i64::from(marker.cast_signed())),
            // Reserved, and never used.
            0xc1 => return None,
        })
    }

    /// The next value, or the beginning of it. `expected` is for the error if there is none.
    pub(super) fn value(&mut self, expected: &'static str) -> Result<Value<'a>, Unreadable> {
        let at = self.place();
        let marker = self.bytes.get(self.at).copied();
        self.try_value().ok_or_else(|| {
            let found = match marker {
                None => "the end".to_owned(),
                Some(0xc1) => "the byte c1, which begins no value".to_owned(),
                Some(_) => "a value that is cut off".to_owned(),
            };
            Unreadable { at, expected, found }
        })
    }

    /// A number that isn't negative, if that is what comes next; else nothing is read.
    ///
    /// Most of what engines write are such: this way is quicker than [`Reader::value`].
    #[inline]
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        let rest = self.bytes.get(self.at..)?;
        let (&marker, rest) = rest.split_first()?;
        let (number, size) = match marker {
            0x00..=0x7f => (u64::from(marker), 1),
            0xcc => (u64::from(*rest.first()?), 2),
            0xcd => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 3),
            0xce => (u64::from(u32::from_be_bytes(*rest.first_chunk()?)), 5),
            0xcf => (u64::from_be_bytes(*rest.first_chunk()?), 9),
            _ => return None,
        };
        self.at += size;
        Some(number)
    }

    /// Skips a value with all that is in it, and returns the bytes that it takes.
    pub(super) fn skip(&mut self) -> Result<Self, Unreadable> {
        let (start, base) = (self.at, self.place());
        let mut due = 1_u64;
        while due > 0 {
            due -= 1;
            let marker = self.bytes.get(self.at).copied().unwrap_or_default();
            let size = usize::from(SIZES[usize::from(marker)]);
            if size != 0 && size <= self.left() {
                self.at += size;
                continue;
            }
            match self.value("a value")? {
                Value::Array(length) => due += u64::from(length),
                Value::Map(length) => due += 2 * u64::from(length),
                _ => {}
            }
        }
        let bytes = self.bytes.get(start..self.at).unwrap_or_default();
        Ok(Self { bytes, at: 0, base })
    }

    /// An array's length.
    pub(super) fn array(&mut self, expected: &'static str) -> Result<u32, Unreadable> {
        let at = self.place();
        match self.value(expected)? {
            Value::Array(length) => Ok(length),
            other => Err(Unreadable { at, expected, found: other.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_every_width() {
        let cases: [(&[u8], Value<'_>); 12] = [
            (&[0x7f], Value::Unsigned(127)),
            (&[0xcc, 0xff], Value::Unsigned(255)),
            (&[0xcd, 1, 0], Value::Unsigned(256)),
            (&[0xce, 1, 0, 0, 0], Value::Unsigned(1 << 24)),
            (&[0xcf, 255, 255, 255, 255, 255, 255, 255, 255], Value::Unsigned(u64::MAX)),
            (&[0xff], Value::Negative(-1)),
            (&[0xe0], Value::Negative(-32)),
            (&[0xd0, 0x80], Value::Negative(-128)),
            (&[0xd1, 0x80, 0], Value::Negative(-32_768)),
            (&[0xd2, 0, 0, 0, 5], Value::Unsigned(5)),
            (&[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0], Value::Negative(i64::MIN)),
            (&[0xca, 0x3f, 0x80, 0, 0], Value::Float(1.0)),
        ];
        for (bytes, expected) in cases {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.value("a number"), Ok(expected), "{bytes:?}");
            assert_eq!(reader.left(), 0);
            // The quick ways lead to the same.
            let mut reader = Reader::new(bytes);
            assert!(reader.skip().is_ok() && reader.left() == 0, "{bytes:?}");
            let mut reader = Reader::new(bytes);
            match (reader.unsigned(), expected) {
                (Some(number), expected) => assert_eq!(Value::Unsigned(number), expected),
                (None, _) => assert_eq!(reader.left(), bytes.len()),
            }
            for cut in 0..bytes.len() {
                assert!(Reader::new(&bytes[..cut]).skip().is_err());
                assert_eq!(Reader::new(&bytes[..cut]).unsigned(), None);
            }
        }
    }

    #[test]
    fn declared_lengths_are_not_believed() {
        for bytes in [
            &[0xdd, 255, 255, 255, 255][..],
            &[0xdf, 255, 255, 255, 255, 1],
            &[0xc6, 255, 255, 255, 255, 1],
            &[0xdb, 255, 255, 255, 255, 1],
            &[0xc9, 255, 255, 255, 255, 1],
        ] {
            assert!(Reader::new(bytes).skip().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn nesting_costs_no_stack() {
        let mut bytes = vec![0x91; 1_000_000];
        bytes.push(0xc0);
        let mut reader = Reader::new(&bytes);
        assert!(reader.skip().is_ok());
        assert_eq!(reader.left(), 0);
    }

    #[test]
    fn an_error_tells_the_place_and_what_is_there() {
        let mut reader = Reader::new(&[0xc0, 0xa3, b'a', b'b', b'c']);
        assert!(reader.skip().is_ok());
        let error = reader.array("an array of events").expect_err("it is text");
        assert_eq!(
            error.to_string(),
            "expected an array of events, found the text \"abc\" at byte 1"
        );
        assert!(Reader::new(&[0xc1]).skip().is_err());
        assert!(Reader::new(&[]).skip().is_err());
    }
}
