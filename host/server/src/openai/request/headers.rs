//! Facts from headers.

use std::collections::hash_map::RandomState;
use std::fmt::Display;
use std::hash::{BuildHasher, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use uuid::{Builder, Uuid};

use super::value::bad;
use crate::openai::error::ApiError;

/// The longest request id that is taken over.
const MOST_ID: usize = 256;

/// The client's id for the request if it is fit for headers and logs, else a new one.
pub(in crate::openai) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get("x-request-id").and_then(|id| id.to_str().ok()).map(str::trim);
    let fits = |id: &&str| !id.is_empty() && id.len() <= MOST_ID && is_visible(id);
    match given.filter(fits) {
        Some(id) => id.into(),
        None => (&*unique_id().hyphenated().encode_lower(&mut Uuid::encode_buffer())).into(),
    }
}

/// An id that nobody has had. The standard library has random numbers for its hashers, which cost no
/// call of the system each.
fn unique_id() -> Uuid {
    let [first, second] = [(); 2].map(|()| RandomState::new().build_hasher().finish());
    Builder::from_random_bytes((u128::from(first) << 64 | u128::from(second)).to_le_bytes())
        .into_uuid()
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The text of a value, if it is printable: a tab in the middle is what nobody means, and what
/// tables and logs trip over.
fn printable(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim).filter(|text| !text.contains('\t'))
}

/// Whether a header may say something to a router: most requests have none that does, and aren't asked
/// for thirty.
fn may_be_asked_for(name: &str) -> bool {
    let others = ["x-forwarded-", "x-real-ip", "x-request-id", "x-stainless-"];
    let is_other = || others.iter().any(|other| name.starts_with(other));
    (name.starts_with("x-") && !is_other()) || name == "thread-id"
}

/// Headers as text, numbers and lists. One without a value counts as absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers<'a> {
    /// None if no header has a name that anybody here asks for.
    all: Option<&'a HeaderMap>,
}

impl<'a> Headers<'a> {
    /// A client's.
    pub(super) fn of(all: &'a HeaderMap) -> Self {
        let any = all.keys().any(|name| may_be_asked_for(name.as_str()));
        Self { all: any.then_some(all) }
    }

    fn get(&self, name: &'static str) -> Option<&'a HeaderValue> {
        debug_assert!(may_be_asked_for(name), "{name} would never be found");
        self.all?.get(name)
    }

    /// A header's text.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<&'a str>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = printable(value).ok_or_else(|| unprintable(name, value))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// The first header that has a text, with its name.
    pub(super) fn first_text(
        &self,
        names: &[&'static str],
    ) -> Result<Option<(&'static str, &'a str)>, ApiError> {
        for &name in names {
            if let Some(text) = self.text(name)? {
                return Ok(Some((name, text)));
            }
        }
        Ok(None)
    }

    /// A header's number.
    pub(super) fn number<T>(&self, name: &'static str) -> Result<Option<T>, ApiError>
    where
        T: FromStr + Bounded + Display,
    {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => {
                Err(bad(name, text, &format!("a whole number from {} to {}", T::LEAST, T::MOST)))
            }
        }
    }

    /// The first header that has a number, with its name.
    pub(super) fn first_number<T>(
        &self,
        what: &str,
        names: &[&'static str],
    ) -> Result<Option<(&'static str, T)>, ApiError>
    where
        T: FromStr + Bounded + Display,
    {
        let Some((name, text)) = self.first_text(names)? else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some((name, number))),
            Err(_) => Err(bad(name, text, &format!("{what}: a whole number up to {}", T::MOST))),
        }
    }

    /// A header that is a list with commas, once or several times.
    pub(super) fn list(&self, name: &'static str) -> Result<Vec<String>, ApiError> {
        let mut items = Vec::new();
        debug_assert!(may_be_asked_for(name), "{name} would never be found");
        let given = self.all.map(|all| all.get_all(name));
        for value in given.iter().flatten() {
            let text = value.to_str().map_err(|_| unprintable(name, value))?;
            for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
                if item.contains('\t') {
                    return Err(unprintable(name, value));
                }
                items.push(item.to_owned());
            }
        }
        Ok(items)
    }
}

fn unprintable(name: &'static str, value: &HeaderValue) -> ApiError {
    let given = String::from_utf8_lossy(value.as_bytes());
    bad(name, &given.escape_debug().to_string(), "visible ASCII characters")
}

/// A whole number with a least and a most.
pub(super) trait Bounded {
    const LEAST: Self;
    const MOST: Self;
}

macro_rules! bounded {
    ($($number:ty),*) => { $(
        impl Bounded for $number {
            const LEAST: Self = <$number>::MIN;
            const MOST: Self = <$number>::MAX;
        }
    )* };
}

bounded!(i32, u32, u64);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_requests_have_the_same_id() {
        let ids: Vec<Uuid> = (0..10_000).map(|_| unique_id()).collect();
        assert!(ids.iter().all(|id| id.get_version_num() == 4));
        // Either half alone differs, too.
        let halves =
            ids.iter().flat_map(|id| [id.as_u128() as u64 >> 2, (id.as_u128() >> 80) as u64]);
        let distinct: BTreeSet<_> = halves.collect();
        assert!(distinct.len() > 19_000, "{}", distinct.len());
    }
}
