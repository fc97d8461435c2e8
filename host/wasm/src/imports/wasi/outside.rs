//! What a guest learns of the world during one call: `wasmtime-wasi`'s context, whose clocks and
//! random numbers are the decision's own.
//!
//! Made when the guest first asks, so that a call that doesn't ask pays nothing for it.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use pointsman_core::clock::{Chance, Moment};
use rand_core::TryRng;
use wasmtime_wasi::cli::WasiCliCtxView;
use wasmtime_wasi::clocks::WasiClocksCtxView;
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::random::WasiRandomCtx;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, ResourceTable, WasiCtx, WasiCtxBuilder};

/// The most random bytes that one call gives.
const MOST_RANDOM_BYTES: u64 = 64 << 10;

/// Apart from the numbers that the policy itself draws from the same seed, and from each other.
const SECURE_STREAM: u64 = 0x5741_5349_0000_0002;
const INSECURE_STREAM: u64 = 0x5741_5349_0000_0003;
const SEED_STREAM: u64 = 0x5741_5349_0000_0004;

/// What there is outside of the guest.
pub(in crate::imports) struct Outside {
    moment: Moment,
    context: Option<WasiCtx>,
    /// Nothing that is linked puts anything here; the views ask for it.
    table: ResourceTable,
}

impl Outside {
    pub(in crate::imports) fn new() -> Self {
        let moment = Moment { now_ms: 0, seed: 0 };
        Self { moment, context: None, table: ResourceTable::new() }
    }

    /// A call begins: what the one before saw is gone.
    pub(in crate::imports) fn begin(&mut self, moment: Moment) {
        self.moment = moment;
        self.context = None;
    }

    fn parts(&mut self) -> (&mut WasiCtx, &mut ResourceTable) {
        let Self { moment, context, table } = self;
        (context.get_or_insert_with(|| context_of(*moment)), table)
    }

    pub(super) fn clocks(&mut self) -> WasiClocksCtxView<'_> {
        let (context, table) = self.parts();
        WasiClocksCtxView { ctx: context.clocks(), table }
    }

    pub(super) fn random(&mut self) -> &mut WasiRandomCtx {
        self.parts().0.random()
    }

    pub(super) fn cli(&mut self) -> WasiCliCtxView<'_> {
        let (context, table) = self.parts();
        WasiCliCtxView { ctx: context.cli(), table }
    }

    pub(super) fn filesystem(&mut self) -> WasiFilesystemCtxView<'_> {
        let (context, table) = self.parts();
        WasiFilesystemCtxView { ctx: context.filesystem(), table }
    }

    pub(super) fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").field("moment", &self.moment).finish_non_exhaustive()
    }
}

/// No arguments, variables, files or network, which is how a context begins; the time and the seed
/// of the decision in place of the machine's.
fn context_of(moment: Moment) -> WasiCtx {
    let stream = |number: u64| Chance::new(moment.seed ^ number);
    let mut seed = stream(SEED_STREAM);
    let clock = Standing { now_ms: moment.now_ms };
    WasiCtxBuilder::new()
        .wall_clock(clock)
        .monotonic_clock(clock)
        .secure_random(Numbers(stream(SECURE_STREAM)))
        .insecure_random(Numbers(stream(INSECURE_STREAM)))
        .insecure_random_seed(u128::from(seed.bits()) | u128::from(seed.bits()) << 64)
        .max_random_size(MOST_RANDOM_BYTES)
        .build()
}

/// A clock that stands still during a call. It has milliseconds, as the router's has.
#[derive(Clone, Copy)]
struct Standing {
    now_ms: u64,
}

impl HostWallClock for Standing {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.now_ms)
    }
}

impl HostMonotonicClock for Standing {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        self.now_ms.saturating_mul(1_000_000)
    }
}

/// A seed's numbers.
struct Numbers(Chance);

impl TryRng for Numbers {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.bits() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.bits())
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        for chunk in to.chunks_mut(8) {
            let drawn = self.0.bits().to_le_bytes();
            chunk.copy_from_slice(drawn.get(..chunk.len()).unwrap_or_default());
        }
        Ok(())
    }
}
