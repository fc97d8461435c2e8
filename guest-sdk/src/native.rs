//! A policy in the same process, without wasm: for authors' tests, for parity tests between builds,
//! and as the baseline of benches.
//!
//! [`Instance`] has the calls of the contract; the component's exports go through it too. It holds
//! no lock and is `Send`; like a component's instance it is called serially. A warm call allocates
//! nothing of its own.
//!
//! ```
//! use pointsman_sdk::native::{Decision, Instance, Lists};
//! use pointsman_sdk::prelude::*;
//! use pointsman_sdk::testing;
//!
//! export_policy! {
//!     /// The policy of this example.
//!     policy FirstComeFirst {
//!         picker: First,
//!     }
//! }
//!
//! struct First;
//!
//! impl WorkerPicker for First {
//!     fn pick(&mut self, _: &Context<'_>, _: &Candidates<'_>, _: &[f64]) -> Result<usize> {
//!         Ok(0)
//!     }
//! }
//!
//! # fn main() -> Result {
//! let mut instance = Instance::configure::<FirstComeFirst>(testing::environment("{}"))?;
//! let lists = Lists { rows: 3, ..Lists::default() };
//! let mut decision = Decision::default();
//! instance.decide(&testing::request(), lists, &mut decision)?;
//! assert_eq!(decision.row, 0);
//! # Ok(())
//! # }
//! ```

pub use crate::declaration::{Declaration, Stage};
pub use crate::instance::{Decision, Instance};
pub use crate::lists::Lists;

#[cfg(test)]
mod tests {
    use super::Instance;

    #[test]
    fn an_instance_may_move_between_threads() {
        fn moves<T: Send>() {}
        moves::<Instance>();
    }
}
