//! The macros that turn stages into a policy, and a policy into a component.

/// Makes a policy of stages, and exports it when the crate is built as a component.
///
/// The long form names everything that a policy may have; all but one stage can be left out, and
/// the order of the entries is free:
///
/// ```
/// use pointsman_sdk::prelude::*;
/// # #[derive(Deserialize)]
/// # #[serde(deny_unknown_fields)]
/// # pub struct Settings { share: f64 }
/// # impl Parameters for Settings {}
/// # struct Busy(f64);
/// # impl WorkerScorer for Busy {
/// #     fn inputs(&self) -> Vec<Input> { vec![Input::ActiveRequests] }
/// #     fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
/// #         rows.score(costs, |row| row.active_requests() * self.0);
/// #         Ok(())
/// #     }
/// # }
///
/// export_policy! {
///     /// What the policy is for.
///     pub policy Busiest(settings: Settings, environment) {
///         properties: [stateless, replicable],
///         prefix_hash_blocks: 0,
///         filters: [],
///         scorers: [Busy(-settings.share), Busy(f64::from(environment.partition.block_size))],
///     }
/// }
/// ```
///
/// Entries: `filters`, `scorers` (lists of expressions), `picker`, `observer`, `fleet_follower`,
/// `handover` (an expression each), `prefix_hash_blocks` (a number), `properties` (a list of
/// `stateless` and `replicable`). The expressions may use the parameters and the
/// [`Environment`](crate::Environment) under the names that stand in the parentheses. A policy
/// without parentheses takes no parameters.
///
/// Where building needs more than expressions, implement [`Policy`](crate::Policy) by hand, and
/// export it with the short form, `export_policy!(MyPolicy)`. A crate exports one policy.
///
/// A misspelled entry is a compile error that lists the entries:
///
/// ```compile_fail
/// pointsman_sdk::export_policy! {
///     policy Odd { scorer: [] }
/// }
/// ```
///
/// The exports exist only under `target_arch = "wasm32"`: a native build has the type and nothing
/// else.
#[macro_export]
macro_rules! export_policy {
    ($(#[$meta:meta])* $vis:vis policy $name:ident { $($entries:tt)* }) => {
        $crate::export_policy! {
            $(#[$meta])* $vis policy $name(_: $crate::NoParameters, _) { $($entries)* }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis policy $name:ident ($parameters:tt : $type:ty $(,)?) { $($entries:tt)* }
    ) => {
        $crate::export_policy! {
            $(#[$meta])* $vis policy $name($parameters: $type, _) { $($entries)* }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis policy $name:ident ($parameters:tt : $type:ty, $environment:tt $(,)?) {
            $($entries:tt)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        $vis struct $name;

        impl $crate::Policy for $name {
            type Parameters = $type;

            fn about() -> $crate::About {
                $crate::about!()
            }

            fn build(
                $parameters: Self::Parameters,
                $environment: &$crate::Environment,
            ) -> $crate::Result<$crate::Stages> {
                let stages = $crate::Stages::new();
                $crate::__stages!(stages $($entries)*)
            }
        }

        $crate::export_policy!($name);
    };
    ($name:ident) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "entry points are raw exports, which count as unsafe")]
        mod pointsman_component {
            type Component = $crate::component::Component<super::$name>;
            $crate::bindings::export!(Component with_types_in $crate::bindings);
            $crate::bindings::description::export!(
                Component with_types_in $crate::bindings::description
            );

            $crate::bindings::fused::export!(Component with_types_in $crate::bindings::fused);

            #[unsafe(export_name = "pointsman:policy/fused@0.1.0#decide")]
            unsafe extern "C" fn decide(
                decision_id: i64,
                prompt_tokens: i64,
                expected_output_tokens: i32,
                trigger: i32,
                traits: i32,
                now_ms: i64,
                seed: i64,
                has_details: i32,
                details: *mut u8,
                details_length: usize,
                rows: i32,
                uniform: i64,
                numbers: *mut u8,
                numbers_length: usize,
            ) -> *mut u8 {
                unsafe {
                    $crate::component::decide::<super::$name>(
                        decision_id,
                        prompt_tokens,
                        expected_output_tokens,
                        trigger,
                        traits,
                        now_ms,
                        seed,
                        has_details,
                        details,
                        details_length,
                        rows,
                        uniform,
                        numbers,
                        numbers_length,
                    )
                }
            }
        }
    };
}

/// The entries of [`export_policy!`], one at a time.
#[doc(hidden)]
#[macro_export]
macro_rules! __stages {
    ($stages:ident) => {
        ::core::result::Result::Ok($stages)
    };
    ($stages:ident filters: [$($filter:expr),* $(,)?] $(, $($rest:tt)*)?) => {{
        $(let $stages = $stages.filter($filter);)*
        $crate::__stages!($stages $($($rest)*)?)
    }};
    ($stages:ident scorers: [$($scorer:expr),* $(,)?] $(, $($rest:tt)*)?) => {{
        $(let $stages = $stages.scorer($scorer);)*
        $crate::__stages!($stages $($($rest)*)?)
    }};
    ($stages:ident properties: [$($property:ident),* $(,)?] $(, $($rest:tt)*)?) => {{
        $(let $stages = $stages.$property();)*
        $crate::__stages!($stages $($($rest)*)?)
    }};
    ($stages:ident picker: $picker:expr $(, $($rest:tt)*)?) => {{
        let $stages = $stages.picker($picker);
        $crate::__stages!($stages $($($rest)*)?)
    }};
    ($stages:ident observer: $observer:expr $(, $($rest:tt)*)?) => {{
        let $stages = $stages.observer($observer);
        $crate::__stages!($stages $($($rest)*)?)
    }};
    ($stages:ident fleet_follower: $follower:expr $(, $($rest:tt)*)?) => {{
        let $stages = $stages.fleet_follower($follower);
        $crate::__stages!($stages $($($rest)*)?)
    }};
    ($stages:ident handover: $handover:expr $(, $($rest:tt)*)?) => {{
        let $stages = $stages.handover($handover);
        $crate::__stages!($stages $($($rest)*)?)
    }};
    ($stages:ident prefix_hash_blocks: $blocks:expr $(, $($rest:tt)*)?) => {{
        let $stages = $stages.prefix_hash_blocks($blocks);
        $crate::__stages!($stages $($($rest)*)?)
    }};
    ($stages:ident $other:ident : $($rest:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "a policy has no entry `",
            ::core::stringify!($other),
            "` of this shape; entries are filters: [..], scorers: [..], picker, observer, ",
            "fleet_follower, handover, prefix_hash_blocks, properties: [..]"
        ))
    };
}

/// An [`About`](crate::About) of the crate's name, version and description in its `Cargo.toml`.
#[macro_export]
macro_rules! about {
    () => {
        $crate::About {
            name: ::core::env!("CARGO_PKG_NAME"),
            version: ::core::env!("CARGO_PKG_VERSION"),
            summary: ::core::env!("CARGO_PKG_DESCRIPTION"),
        }
    };
}
