//! How many connections there is room for: the process's limit on open files, shared out.
//!
//! A connection that nothing can be opened for is worth nothing: each request of a client needs one
//! more to a worker, and an operator must find the door open just when clients have taken what they
//! could. So each listener gets a share, and the rest is for files, probes and what else there is.

/// Assumed where the limit can't be told: what most systems give a process.
const USUAL: usize = 1_024;

/// As many as anybody needs; also stands for no limit at all.
const PLENTY: usize = 1 << 20;

/// The most connections that each listener holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Clients; as many descriptors again are left for connections to workers.
    pub(super) public: usize,
    /// Operators.
    pub(super) admin: usize,
    /// Those who have workers selected; 0 where that isn't served.
    pub(super) select: usize,
    /// Gateways; 0 where they aren't served.
    pub(super) epp: usize,
}

impl Shares {
    /// Of the limit that this process has now.
    pub(super) fn of_this_process(selects: bool, picks: bool) -> Self {
        let limits = std::fs::read_to_string("/proc/self/limits").ok();
        Self::of(limits.and_then(|limits| soft_limit(&limits)).unwrap_or(USUAL), selects, picks)
    }

    fn of(limit: usize, selects: bool, picks: bool) -> Self {
        let limit = limit.min(PLENTY);
        let own = (limit / 8).clamp(16, 1_024);
        let admin = (limit / 16).clamp(4, 128);
        // Nothing is opened for these; whoever asks often keeps a few open.
        let select = if selects { (limit / 4).clamp(4, 16_384) } else { 0 };
        // A gateway has a few for all of its requests.
        let epp = if picks { (limit / 16).clamp(4, 1_024) } else { 0 };
        let public = limit.saturating_sub(own + admin + select + epp) / 2;
        Self { public: public.max(1), admin, select, epp }
    }
}

/// Reads the soft limit on open files out of what Linux shows of a process's limits.
fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(PLENTY),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_share_fits_into_the_limit_and_leaves_room_for_workers() {
        for limit in [64, 200, 256, 1_024, 20_000, 1 << 20] {
            let Shares { public, admin, select, epp } = Shares::of(limit, false, false);
            assert!(2 * public + admin + 16 <= limit, "{limit}: {public}, {admin}");
            assert!(admin >= 4 && public >= limit / 4, "{limit}: {public}, {admin}");
            assert_eq!((select, epp), (0, 0));
            let Shares { public, admin, select, epp } = Shares::of(limit, true, true);
            assert!(2 * public + admin + select + epp + 16 <= limit, "{limit}: {public}, {select}");
            assert!(select >= 4 && epp >= 4 && public >= limit / 8, "{limit}: {public}, {select}");
        }
        assert_eq!(Shares::of(0, true, true).public, 1);
        assert_eq!(Shares::of(usize::MAX, true, true), Shares::of(PLENTY, true, true));
    }

    #[test]
    fn the_limit_is_read_as_linux_shows_it() {
        let shown = "Limit   Soft Limit   Hard Limit   Units\n\
                     Max open files            1024                 524288               files\n";
        assert_eq!(soft_limit(shown), Some(1_024));
        assert_eq!(soft_limit(&shown.replace("1024  ", "unlimited")), Some(PLENTY));
        assert_eq!(soft_limit("nothing of the kind"), None);
    }
}
