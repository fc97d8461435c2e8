//! Gathers what is wrong with a file, and keeps the first of it.
//!
//! Owns how many mistakes are told: a file that went wrong as a whole, such as another program's,
//! would fill the log and whoever reads it. What is beyond is counted, and costs nothing else. It
//! doesn't know the file's name.

use super::document::Mark;
use super::error::Problem;

/// The most mistakes that are told of one file. Nobody reads further before mending some.
pub(super) const MOST: usize = 50;

/// What is wrong at a place.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) mark: Mark,
    /// The keys that lead there.
    pub(super) path: String,
    pub(super) problem: Problem,
}

/// The first mistakes in the order of their places, and how many there are beside them.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    kept: Vec<Mistake>,
    more: usize,
}

impl Mistakes {
    /// Adds one. `make` gives its path and problem, and isn't asked if it will not be told.
    pub(super) fn add(&mut self, mark: Mark, make: impl FnOnce() -> (String, Problem)) {
        // Behind those of the same place, which were found before.
        let at = self.kept.partition_point(|kept| kept.mark <= mark);
        if at >= MOST {
            self.more += 1;
            return;
        }
        let (path, problem) = make();
        self.kept.insert(at, Mistake { mark, path, problem });
        if self.kept.len() > MOST {
            self.kept.truncate(MOST);
            self.more += 1;
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether something is wrong with a key that begins so, as far as that can be told.
    pub(super) fn may_concern(&self, path: &str) -> bool {
        self.more > 0 || self.kept.iter().any(|kept| kept.path.starts_with(path))
    }

    /// The mistakes, and how many were left out.
    pub(super) fn finish(self) -> (Vec<Mistake>, usize) {
        (self.kept, self.more)
    }
}
