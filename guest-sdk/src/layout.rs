//! Where a stage's declared inputs lie in the flat lists that the host sends.
//!
//! A layout is made once, when the instance is configured, and only read afterwards. The same stage
//! has two: one for calls of its own, and one for the fused call, whose lists hold the union of all
//! stages' inputs.

use crate::Input;

/// A stage's inputs, each with its slot.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// For each column sent, up to the last declared one: its place among those that have a variant;
    /// [`NOT_NAMED`] for the rest.
    named: Vec<u8>,
    others: Vec<(&'static str, u32)>,
    facts: Vec<(&'static str, u32)>,
    identity: bool,
    matrix: Matrix,
}

/// A column that the stage didn't declare, or that has no variant.
const NOT_NAMED: u8 = u8::MAX;

/// What the lists hold in all, which for a fused call is more than one stage may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// Columns before the facts, with those that come as one number.
    pub(crate) columns: usize,
    /// Facts after the columns.
    pub(crate) facts: usize,
    /// Whether ids and ranks are sent.
    pub(crate) identity: bool,
}

impl Layout {
    /// Where the inputs of `stage` lie in lists made for `sent`, which must contain them.
    pub(crate) fn of(stage: &[Input], sent: &[Input]) -> Self {
        let mut layout = Self {
            named: Vec::new(),
            others: Vec::new(),
            facts: Vec::new(),
            identity: stage.contains(&Input::Identity),
            matrix: Matrix { columns: 0, facts: 0, identity: false },
        };
        for &input in sent {
            let declared = stage.contains(&input);
            match input {
                Input::Identity => layout.matrix.identity = true,
                Input::Fact(name) => {
                    if declared {
                        layout.facts.push((name, layout.matrix.facts as u32));
                    }
                    layout.matrix.facts += 1;
                }
                column => {
                    let slot = layout.matrix.columns as u32;
                    match column.named_column() {
                        Some(named) if declared => {
                            layout.named.resize(slot as usize, NOT_NAMED);
                            layout.named.push(named as u8);
                        }
                        None if declared => layout.others.push((column.name(), slot)),
                        _ => {}
                    }
                    layout.matrix.columns += 1;
                }
            }
        }
        layout
    }

    /// For each column sent, up to the last declared one: its place among those that have a variant,
    /// past all of them for one that isn't declared.
    #[inline]
    pub(crate) fn named(&self) -> &[u8] {
        &self.named
    }

    /// The slot of a declared column that has no variant.
    pub(crate) fn other(&self, wanted: &str) -> Option<usize> {
        find(&self.others, wanted)
    }

    /// The place of a fact after the columns.
    pub(crate) fn fact(&self, wanted: &str) -> Option<usize> {
        find(&self.facts, wanted)
    }

    /// Whether the stage declared `identity`.
    #[inline]
    pub(crate) fn identity(&self) -> bool {
        self.identity
    }

    /// What the lists hold in all.
    #[inline]
    pub(crate) fn matrix(&self) -> Matrix {
        self.matrix
    }
}

fn find(slots: &[(&'static str, u32)], wanted: &str) -> Option<usize> {
    slots.iter().find(|(name, _)| *name == wanted).map(|(_, slot)| *slot as usize)
}

/// Each input once, in the order of first appearance.
pub(crate) fn union<'a>(stages: impl IntoIterator<Item = &'a [Input]>) -> Vec<Input> {
    let mut all = Vec::new();
    for &input in stages.into_iter().flatten() {
        if !all.contains(&input) {
            all.push(input);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_finds_its_columns_among_those_of_others() {
        let sent = union([
            &[Input::DeviceOverlapBlocks, Input::Fact("tenant")][..],
            &[Input::Identity, Input::Column("power"), Input::DeviceOverlapBlocks],
            &[Input::ActiveRequests, Input::Fact("hour")],
        ]);
        let layout = Layout::of(
            &[Input::ActiveRequests, Input::Column("power"), Input::Fact("hour")],
            &sent,
        );
        assert_eq!(layout.matrix(), Matrix { columns: 3, facts: 2, identity: true });
        assert_eq!(layout.other("power"), Some(1));
        let requests = Input::ActiveRequests.named_column().expect("it is one") as u8;
        assert_eq!(layout.named(), [NOT_NAMED, NOT_NAMED, requests]);
        assert_eq!(layout.fact("hour"), Some(1));
    }

    #[test]
    fn what_a_stage_did_not_declare_is_absent_even_when_it_was_sent() {
        let sent = [
            Input::Identity,
            Input::DeviceOverlapBlocks,
            Input::ActiveRequests,
            Input::Fact("hour"),
        ];
        let layout = Layout::of(&[Input::ActiveRequests], &sent);
        let requests = Input::ActiveRequests.named_column().expect("it is one") as u8;
        assert_eq!(layout.named(), [NOT_NAMED, requests]);
        assert_eq!(layout.other("power"), None);
        assert_eq!(layout.fact("hour"), None);
        assert!(!layout.identity());
    }
}
