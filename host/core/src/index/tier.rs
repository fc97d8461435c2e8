//! The kinds of memory that an engine keeps blocks in.

use serde::{Deserialize, Serialize};

/// A kind of memory, from the fastest to the slowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The accelerator's own memory, in which a block is used.
    #[default]
    Device,
    /// The host's memory.
    Host,
    /// A disk of the host's.
    Disk,
    /// A store outside of the host.
    External,
}

impl Tier {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// All of them, the fastest first.
    pub const ALL: [Self; Self::COUNT] = [Self::Device, Self::Host, Self::Disk, Self::External];

    /// Which one an engine means by a medium's name, in any case; none for a name that we don't
    /// know.
    #[must_use]
    pub fn of_medium(medium: &str) -> Option<Self> {
        const NAMES: [(&str, Tier); 13] = [
            ("GPU", Tier::Device),
            ("DEVICE", Tier::Device),
            ("CPU", Tier::Host),
            ("CPU_PINNED", Tier::Host),
            ("CPU_TIER1", Tier::Host),
            ("CPU_TIER2", Tier::Disk),
            ("DISK", Tier::Disk),
            ("NVME", Tier::Disk),
            ("STORAGE", Tier::Disk),
            ("EXTERNAL", Tier::External),
            ("NETWORK", Tier::External),
            ("REMOTE", Tier::External),
            ("SHARED", Tier::External),
        ];
        NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(medium)).map(|&(_, tier)| tier)
    }

    /// Its place among those below the device's.
    pub(super) fn lower(self) -> Option<usize> {
        match self {
            Self::Device => None,
            Self::Host => Some(0),
            Self::Disk => Some(1),
            Self::External => Some(2),
        }
    }
}
