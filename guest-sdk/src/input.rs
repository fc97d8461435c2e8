//! The inputs that a stage may declare, by name.
//!
//! A stage gets the inputs that it declared and no others; what no stage declares isn't even
//! computed by the host. Names are the contract; the enum spares authors the typing.

/// One input of a stage.
///
/// Counts are exact in `f64` (below 2^53). Blocks and tokens are of the partition's block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Input {
    /// Worker ids and ranks, for [`Row::worker`](crate::Row::worker). Not a column.
    Identity,
    /// Leading blocks of the prompt that the worker holds in device memory. Zero without data.
    DeviceOverlapBlocks,
    /// Blocks that continue the device overlap in host memory. Zero without data.
    HostOverlapBlocks,
    /// Blocks that continue it further on disk or in external stores. Zero without data.
    DiskOverlapBlocks,
    /// Blocks at and past the device overlap that a shared cache holds. Zero without data.
    SharedBeyondDeviceBlocks,
    /// The host's estimate of the overlap over all tiers, each with its weight. Zero without data.
    EffectiveOverlapBlocks,
    /// That estimate in tokens, rounded. Zero without data.
    CachedTokens,
    /// Tokens that are booked for prefill on the worker and not done. Zero on an idle worker.
    ActivePrefillTokens,
    /// Blocks that decode would hold on the worker with this request there too.
    DecodeCostBlocks,
    /// Requests that are booked on the worker and not finished.
    ActiveRequests,
    /// Factor for the request's preferred taints, in [1/e, e]; 1 where the request states no
    /// preference.
    PreferredTaintMultiplier,
    /// A column that this version of the SDK has no name for.
    Column(&'static str),
    /// A fact about the request that isn't a field of [`Request`](crate::Request), by name.
    Fact(&'static str),
}

impl Input {
    /// How many columns have a variant of their own.
    pub(crate) const NAMED_COLUMNS: usize = 10;

    /// Every input that has a variant of its own.
    pub const ALL: [Self; Self::NAMED_COLUMNS + 1] = [
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

    /// The name in the contract.
    pub const fn name(self) -> &'static str {
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
            Self::Column(name) | Self::Fact(name) => name,
        }
    }

    /// For an input that is spelled out although it has a variant: its name, and that variant. One
    /// spelling per input lets layouts compare inputs without looking at text.
    pub(crate) fn misspelled(self) -> Option<(&'static str, Self)> {
        let (Self::Column(name) | Self::Fact(name)) = self else { return None };
        Some((name, Self::ALL.into_iter().find(|input| input.name() == name)?))
    }

    /// The place of a column that has a variant, among those that have.
    #[inline(always)]
    pub(crate) const fn named_column(self) -> Option<usize> {
        Some(match self {
            Self::DeviceOverlapBlocks => 0,
            Self::HostOverlapBlocks => 1,
            Self::DiskOverlapBlocks => 2,
            Self::SharedBeyondDeviceBlocks => 3,
            Self::EffectiveOverlapBlocks => 4,
            Self::CachedTokens => 5,
            Self::ActivePrefillTokens => 6,
            Self::DecodeCostBlocks => 7,
            Self::ActiveRequests => 8,
            Self::PreferredTaintMultiplier => 9,
            Self::Identity | Self::Column(_) | Self::Fact(_) => return None,
        })
    }
}
