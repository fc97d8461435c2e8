//! Which page has a tag's names.
//!
//! Owns the pages' numbers by the first bits of a tag: as many bits as tell the fullest apart. The
//! entries that lead to one page stand side by side, and are as many as a power of two. It doesn't
//! know what is on a page.

/// Pages that a directory begins with, as bits of a tag.
const BITS_AT_FIRST: u32 = 2;

/// The most bits: the others choose the directory.
const MOST_BITS: u32 = 24;

/// Entries for each page, at most. There are a few, as long as tags are spread.
const MOST_ENTRIES: usize = 64;

/// Pages by the first bits of a tag.
#[derive(Debug, Default)]
pub(super) struct Directory {
    entries: Vec<u32>,
    bits: u32,
    pages: usize,
}

/// How a full page is split: its names with the bit go to a new one, to which these entries lead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) bit: u32,
    from: usize,
    to: usize,
}

impl Directory {
    /// The page that a tag's names are on; none in an empty directory.
    pub(super) fn page(&self, tag: u32) -> Option<u32> {
        self.entries.get(self.at(tag)).copied()
    }

    /// Begins with the pages that `make` makes.
    pub(super) fn begin(&mut self, make: impl FnMut() -> u32) {
        self.bits = BITS_AT_FIRST;
        self.entries = std::iter::repeat_with(make).take(1 << BITS_AT_FIRST).collect();
        self.pages = self.entries.len();
    }

    /// How to split a tag's page; none if it would take too many entries to tell its names apart.
    pub(super) fn split(&mut self, tag: u32) -> Option<Split> {
        let page = self.page(tag)?;
        let leads_here = |entries: &[u32], at: usize| entries.get(at) == Some(&page);
        if !leads_here(&self.entries, self.at(tag) ^ 1) {
            if self.bits >= MOST_BITS || self.entries.len() >= self.pages * MOST_ENTRIES {
                return None;
            }
            self.entries = self.entries.iter().flat_map(|&page| [page, page]).collect();
            self.bits += 1;
        }
        let at = self.at(tag);
        let mut half = 1;
        // Twice as many lead here if the first of the other half does.
        while leads_here(&self.entries, (at ^ (2 * half)) & !(2 * half - 1)) {
            half *= 2;
        }
        let from = at & !(2 * half - 1) | half;
        Some(Split { bit: (half as u32) << (u32::BITS - self.bits), from, to: from + half })
    }

    /// What was split off is on a page of its own.
    pub(super) fn lead(&mut self, split: Split, page: u32) {
        if let Some(entries) = self.entries.get_mut(split.from..split.to) {
            entries.fill(page);
            self.pages += 1;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u32>()
    }

    fn at(&self, tag: u32) -> usize {
        (u64::from(tag) >> (u32::BITS - self.bits)) as usize
    }
}
