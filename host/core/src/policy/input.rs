//! The inputs that a stage may declare, by name.
//!
//! Owns the list of names that this host knows. The names are the contract's (wit/README.md); a
//! host that knows more of them stays compatible with every older component.

use std::fmt;

use thiserror::Error;

/// A declared input: one column, or the rows' identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Input {
    /// Worker ids and ranks; not a number column.
    Identity,
    /// Leading blocks of the prompt in the row's device memory.
    DeviceOverlapBlocks,
    /// Blocks that follow in its host memory.
    HostOverlapBlocks,
    /// Blocks that follow on its disk or external store.
    DiskOverlapBlocks,
    /// Blocks in a shared cache beyond the row's device overlap.
    SharedBeyondDeviceBlocks,
    /// The host's weighted estimate over the tiers.
    EffectiveOverlapBlocks,
    /// The same estimate in tokens, rounded.
    CachedTokens,
    /// Prompt tokens of requests without a first token, net of what was cached; where their duration is
    /// modelled, what is thought to be left of them at the moment of the decision.
    ActivePrefillTokens,
    /// Active KV blocks, those that several requests share on the row counted once, and those of this
    /// request that aren't among them. What a request has to itself may weigh less near its guessed end.
    DecodeCostBlocks,
    /// Requests booked and not yet released.
    ActiveRequests,
    /// The factor of the request's preferred taints; 1 where it states none.
    PreferredTaintMultiplier,
}

impl Input {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Identity,
        Self::DeviceOverlapBlocks,
        Self::HostOverlapBlocks,
        Self::DiskOverlapBlocks,
        Self::SharedBeyondDeviceBlocks,
        Self::EffectiveOverlapBlocks,
        Self::CachedTokens,
        Self::ActivePrefillTokens,
        Self::DecodeCostBlocks,
        Self::ActiveRequests,
        Self::PreferredTaintMultiplier,
    ];

    /// Its name in the contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::DeviceOverlapBlocks => "device-overlap-blocks",
            Self::HostOverlapBlocks => "host-overlap-blocks",
            Self::DiskOverlapBlocks => "disk-overlap-blocks",
            Self::SharedBeyondDeviceBlocks => "shared-beyond-device-blocks",
            Self::EffectiveOverlapBlocks => "effective-overlap-blocks",
            Self::CachedTokens => "cached-tokens",
            Self::ActivePrefillTokens => "active-prefill-tokens",
            Self::DecodeCostBlocks => "decode-cost-blocks",
            Self::ActiveRequests => "active-requests",
            Self::PreferredTaintMultiplier => "preferred-taint-multiplier",
        }
    }

    /// The input of a name.
    pub fn from_name(name: &str) -> Result<Self, UnknownInput> {
        let found = Self::ALL.into_iter().find(|input| input.name() == name);
        found.ok_or_else(|| UnknownInput(name.chars().take(80).collect()))
    }

    /// Whether it says what caches hold.
    #[must_use]
    pub fn is_of_caches(self) -> bool {
        match self {
            Self::DeviceOverlapBlocks
            | Self::HostOverlapBlocks
            | Self::DiskOverlapBlocks
            | Self::SharedBeyondDeviceBlocks
            | Self::EffectiveOverlapBlocks
            | Self::CachedTokens => true,
            Self::Identity
            | Self::ActivePrefillTokens
            | Self::DecodeCostBlocks
            | Self::ActiveRequests
            | Self::PreferredTaintMultiplier => false,
        }
    }

    /// The number of a row of which there is nothing to say. A column that has it in every row needn't
    /// be written out.
    #[must_use]
    pub fn neutral(self) -> f64 {
        if self == Self::PreferredTaintMultiplier { 1.0 } else { 0.0 }
    }

    /// Whether it is a column of numbers.
    #[must_use]
    pub fn is_column(self) -> bool {
        self != Self::Identity
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that this host doesn't know.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown input {0:?}; this host knows: {known}", known = Input::ALL.map(Input::name).join(", "))]
pub struct UnknownInput(pub String);

/// A set of inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSet(u32);

impl InputSet {
    /// Adds one; false if it was there.
    pub fn insert(&mut self, input: Input) -> bool {
        let bit = 1 << input as u32;
        let new = self.0 & bit == 0;
        self.0 |= bit;
        new
    }

    /// Whether it is there.
    #[must_use]
    pub fn contains(self, input: Input) -> bool {
        self.0 & (1 << input as u32) != 0
    }

    /// Whether none is there.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that aren't in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Those that are there, in the order of [`Input::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Input> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let &input = Input::ALL.get(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(input)
        })
    }
}

impl FromIterator<Input> for InputSet {
    fn from_iter<I: IntoIterator<Item = Input>>(inputs: I) -> Self {
        let mut set = Self::default();
        inputs.into_iter().for_each(|input| {
            set.insert(input);
        });
        set
    }
}
