//! The macro that turns a classifier into a component.

/// Makes a classifier type of an expression, and exports it when the crate is built as a component.
///
/// ```
/// use pointsman_sdk::classifier::prelude::*;
/// # struct Everyone;
/// # impl RequestClassifier for Everyone {
/// #     fn most_held(&self) -> u32 { 0 }
/// #     fn classify(&mut self, _: &ClassifyRequest) -> Result<Verdict> { Ok(Verdict::admit()) }
/// #     fn on_event(&mut self, _: &LifecycleEvent, _: u64, _: &mut Releases) -> Result { Ok(()) }
/// # }
///
/// export_classifier! {
///     /// What the classifier is for.
///     pub classifier AdmitsEveryone(_settings: NoParameters, _environment) {
///         Everyone
///     }
/// }
/// ```
///
/// The expression may use the parameters and the
/// [`ClassifierEnvironment`](crate::classifier::ClassifierEnvironment) under the names that stand in
/// the parentheses, and `?`. A classifier without parentheses takes no parameters.
///
/// Where building needs more, implement [`Classifier`](crate::classifier::Classifier) by hand, and
/// export it with the short form, `export_classifier!(MyClassifier)`. A crate exports one classifier.
/// One that exports a policy too says `export_classifier!(MyClassifier, beside a policy)`, since the
/// policy describes the crate.
///
/// The exports exist only under `target_arch = "wasm32"`: a native build has the type and nothing
/// else.
#[macro_export]
macro_rules! export_classifier {
    ($(#[$meta:meta])* $vis:vis classifier $name:ident { $build:expr }) => {
        $crate::export_classifier! {
            $(#[$meta])* $vis classifier $name(_: $crate::NoParameters, _) { $build }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis classifier $name:ident ($parameters:tt : $type:ty $(,)?) { $build:expr }
    ) => {
        $crate::export_classifier! {
            $(#[$meta])* $vis classifier $name($parameters: $type, _) { $build }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis classifier $name:ident ($parameters:tt : $type:ty, $environment:tt $(,)?) {
            $build:expr
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        $vis struct $name;

        impl $crate::classifier::Classifier for $name {
            type Parameters = $type;

            fn about() -> $crate::About {
                $crate::about!()
            }

            fn build(
                $parameters: Self::Parameters,
                $environment: &$crate::classifier::ClassifierEnvironment,
            ) -> $crate::Result<::std::boxed::Box<dyn $crate::classifier::RequestClassifier>> {
                ::core::result::Result::Ok(::std::boxed::Box::new($build))
            }
        }

        $crate::export_classifier!($name);
    };
    ($name:ident) => {
        $crate::export_classifier!($name, beside a policy);

        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "entry points are raw exports, which count as unsafe")]
        mod pointsman_description {
            type Component = $crate::component::Described<super::$name>;
            $crate::bindings::description::export!(
                Component with_types_in $crate::bindings::description
            );
        }
    };
    ($name:ident, beside a policy) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "entry points are raw exports, which count as unsafe")]
        mod pointsman_classifier {
            type Component = $crate::component::ClassifierComponent<super::$name>;
            $crate::bindings::classifier::export!(
                Component with_types_in $crate::bindings::classifier
            );
        }
    };
}
