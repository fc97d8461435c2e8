//! Which names policies can have: those that a crate can have, and a type in the YAML.

use pointsman_core::policy::builtin;
use thiserror::Error;

/// The longest, in bytes: a type's name has no more.
const MOST_BYTES: usize = 64;

/// Names that compile to nothing: words of the language, and crates that are there already.
const TAKEN: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in \
    let loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof unsafe unsized use \
    virtual where while yield alloc core std test proc_macro proc-macro serde pointsman-sdk pointsman_sdk";

/// Why a name is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// No crate can have it.
    #[error(
        "{name:?} can't be a crate's name; take small letters, digits and '-', a letter first, at most {MOST_BYTES} in all, as in \"my-policy\"{}",
        meant.as_ref().map_or(String::new(), |meant| format!(" (or did you mean {meant:?}?)"))
    )]
    Letters {
        /// The name.
        name: String,
        /// What may have been meant.
        meant: Option<String>,
    },
    /// Something else has it.
    #[error(
        "{name:?} is taken, by a word of the language or a crate that every policy needs; take another name, as in \"my-{name}\""
    )]
    Taken {
        /// The name.
        name: String,
    },
    /// A built-in has it.
    #[error("{name:?} is a built-in policy's name; take another name, as in \"my-{name}\"")]
    Builtin {
        /// The name.
        name: String,
    },
}

pub(super) fn check(name: &str) -> Result<(), NameError> {
    let owned = || name.to_owned();
    if !is_plain(name) {
        let meant = plain(name);
        let meant = (is_plain(&meant) && check(&meant).is_ok()).then_some(meant);
        return Err(NameError::Letters { name: owned(), meant });
    }
    if TAKEN.split_whitespace().any(|taken| taken == name) {
        return Err(NameError::Taken { name: owned() });
    }
    if builtin::NAMES.contains(&name) {
        return Err(NameError::Builtin { name: owned() });
    }
    Ok(())
}

fn is_plain(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_'))
        && !name.ends_with(['-', '_'])
        && name.len() <= MOST_BYTES
}

/// The same in letters that can be a name's: `My Policy` as `my-policy`.
fn plain(name: &str) -> String {
    let letters = name.trim().chars().map(|c| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || c == '_' => c,
        _ => '-',
    });
    letters.collect::<String>().trim_matches(['-', '_']).to_owned()
}

/// As a type is called in Rust: `my-policy` as `MyPolicy`.
pub(super) fn in_camel_case(name: &str) -> String {
    let words = name.split(['-', '_']).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_none_are_refused_with_one_that_is() {
        for name in ["my-policy", "p2c", "a", "with_bars"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let told = |name: &str| check(name).map_err(|error| error.to_string());
        let told = |name: &str| told(name).err().unwrap_or_default();
        for (name, wanted) in [
            ("My Policy", "did you mean \"my-policy\"?"),
            ("../evil", "did you mean \"evil\"?"),
            ("2fast", "can't be a crate's name; take small letters"),
            ("", "can't be a crate's name"),
            ("größe", "can't be a crate's name"),
            ("trailing-", "did you mean \"trailing\"?"),
            (&"x".repeat(65), "at most 64"),
            ("match", "take another name, as in \"my-match\""),
            ("serde", "a crate that every policy needs"),
            ("default", "is a built-in policy's name; take another name, as in \"my-default\""),
        ] {
            assert!(told(name).contains(wanted), "{name}: {}", told(name));
        }
        assert!(!told("Self").contains("did you mean"), "{}", told("Self"));
    }

    #[test]
    fn a_policys_type_is_called_after_it() {
        assert_eq!(in_camel_case("my-first_policy2"), "MyFirstPolicy2");
    }
}
