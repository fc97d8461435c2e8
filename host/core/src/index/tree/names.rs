//! Blocks by what engines call them.
//!
//! Owns the table from an engine's hash to the block that was first told of by it. Names are kept
//! by half of their bits and compared with the block's own, so that a name costs eight bytes. It
//! doesn't know names that one engine alone uses.
//!
//! The table grows by a page where one is full: a name that comes never waits for thousands to be
//! moved, and no memory is given up for larger one.

mod directory;
mod page;

use std::hint::black_box;

use hashbrown::HashMap;

use super::place::{Place, Reference};
use super::run::{LONGEST, Run};
use directory::Directory;
use page::Page;

/// Directories that tags are spread over, so that none takes long to grow.
const DIRECTORIES: usize = 64;

/// Pages that get their memory at once.
const CHUNK: usize = 64;

/// Chunks that are near as they are, in a cache of the core's own.
const MOST_NEAR: usize = 16;

/// The table.
#[derive(Debug)]
pub(super) struct Names {
    directories: Box<[Directory; DIRECTORIES]>,
    chunks: Vec<Vec<Page>>,
    /// Names by tags whose pages are full and can't be split: no honest engine's.
    crowd: HashMap<u32, Vec<Reference>>,
}

impl Names {
    pub(super) fn new() -> Self {
        Self {
            directories: Box::new(std::array::from_fn(|_| Directory::default())),
            chunks: Vec::new(),
            crowd: HashMap::new(),
        }
    }

    /// The block that an engine calls so, if it was the first to tell us of it.
    pub(super) fn find(&self, runs: &[Run], engine: u64) -> Option<Place> {
        let same = |block: Reference| block.engine(runs) == Some(engine);
        self.reference(tag_of(engine), same)?.resolve(runs)
    }

    /// Reads where names are or will be, so that all of that comes from memory at once: names that
    /// are entered or taken out one after another wait for each.
    pub(super) fn approach(&self, engines: impl Iterator<Item = u64>) {
        if self.chunks.len() <= MOST_NEAR {
            return;
        }
        // Which pages, then what is on them: what waits for nothing comes together.
        let mut pages = [0; LONGEST];
        let mut count = 0;
        for (page, engine) in pages.iter_mut().zip(engines) {
            let tag = tag_of(engine);
            *page = self.directories[tag as usize % DIRECTORIES].page(tag).unwrap_or(u32::MAX);
            count += 1;
        }
        let near = |&id: &u32| page(&self.chunks, id).map_or(0, Page::near);
        let pages = pages.get(..count).unwrap_or(&[]);
        black_box(pages.iter().map(near).fold(0, usize::wrapping_add));
    }

    /// Makes the block at a place known by its engine's hash. False if another one is.
    pub(super) fn enter(&mut self, runs: &[Run], engine: u64, place: Place) -> bool {
        let (tag, block) = (tag_of(engine), Reference::to(place));
        // Most are new, and find a page with room.
        if self.crowd.is_empty()
            && let Some(page) = self.page_mut(tag)
            && !page.may_have(tag)
            && page.add(tag, block)
        {
            return true;
        }
        self.enter_crowded(runs, engine, block)
    }

    /// Makes the block at a place unknown by its engine's hash, if it is the one that is known by it.
    pub(super) fn remove(&mut self, runs: &[Run], engine: u64, place: Place) {
        let tag = tag_of(engine);
        let wanted = |block: Reference| block.resolve(runs) == Some(place);
        let Some(page) = self.page_mut(tag) else { return };
        if let Some((at, _)) = page.find(tag, wanted) {
            page.remove(at);
        } else if let Some(crowd) = self.crowd.get_mut(&tag) {
            crowd.retain(|&block| !wanted(block));
            if crowd.is_empty() {
                self.crowd.remove(&tag);
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let directories: usize = self.directories.iter().map(Directory::bytes).sum();
        size_of_val(&*self.directories)
            + directories
            + self.chunks.capacity() * size_of::<Vec<Page>>()
            + self.chunks.len() * CHUNK * size_of::<Page>()
            + self.crowd.allocation_size()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let crowd: usize = self.crowd.values().map(Vec::len).sum();
        self.chunks.iter().flatten().map(Page::len).sum::<usize>() + crowd
    }

    /// The same where it isn't as simple: apart, so that what is simple stays small.
    #[inline(never)]
    fn enter_crowded(&mut self, runs: &[Run], engine: u64, block: Reference) -> bool {
        let tag = tag_of(engine);
        let same = |block: Reference| block.engine(runs) == Some(engine);
        if self.reference(tag, same).is_some() {
            return false;
        }
        loop {
            let Self { directories, chunks, crowd } = self;
            let directory = &mut directories[tag as usize % DIRECTORIES];
            let Some(id) = directory.page(tag) else {
                directory.begin(|| put(chunks, Page::EMPTY));
                continue;
            };
            let Some(page) = page_mut(chunks, id) else { return false };
            if page.add(tag, block) {
                return true;
            }
            let Some(split) = directory.split(tag) else {
                crowd.entry(tag).or_default().push(block);
                return true;
            };
            let split_off = page.split_off(split.bit);
            directory.lead(split, put(chunks, split_off));
        }
    }

    fn reference(&self, tag: u32, wanted: impl Fn(Reference) -> bool) -> Option<Reference> {
        if let Some((_, block)) = self.page(tag)?.find(tag, &wanted) {
            return Some(block);
        }
        self.crowd.get(&tag)?.iter().copied().find(|&block| wanted(block))
    }

    fn page(&self, tag: u32) -> Option<&Page> {
        page(&self.chunks, self.directories[tag as usize % DIRECTORIES].page(tag)?)
    }

    fn page_mut(&mut self, tag: u32) -> Option<&mut Page> {
        let id = self.directories[tag as usize % DIRECTORIES].page(tag)?;
        page_mut(&mut self.chunks, id)
    }
}

fn page(chunks: &[Vec<Page>], id: u32) -> Option<&Page> {
    chunks.get(id as usize / CHUNK)?.get(id as usize % CHUNK)
}

fn page_mut(chunks: &mut [Vec<Page>], id: u32) -> Option<&mut Page> {
    chunks.get_mut(id as usize / CHUNK)?.get_mut(id as usize % CHUNK)
}

/// Gives a page a number.
fn put(chunks: &mut Vec<Vec<Page>>, page: Page) -> u32 {
    if chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
        chunks.push(Vec::with_capacity(CHUNK));
    }
    let before = (chunks.len() - 1) * CHUNK;
    let last = chunks.last_mut().map_or(0, |chunk| {
        chunk.push(page);
        chunk.len() - 1
    });
    (before + last) as u32
}

/// Half of an engine's hash, spread: those may be anything, small numbers too.
fn tag_of(engine: u64) -> u32 {
    let spread = engine.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> 32) as u32 ^ spread as u32
}

#[cfg(test)]
mod tests;
