//! From a core module to a component, in process.
//!
//! A guest's bindings leave the contract in custom sections named `component-type…`; the encoder reads them and wraps the module. A module
//! without them can't become a component, whatever it exports.

use sha2::{Digest as _, Sha256};
use wasmparser::{Parser, Payload, Validator, WasmFeatures};
use wit_component::ComponentEncoder;

/// How the names of the sections that carry a guest's contract begin; each bindings crate adds its own ending.
const COMPONENT_TYPE: &str = "component-type";

/// Why bytes did not become a component.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// They aren't WebAssembly at all, or are cut short.
    #[error(
        "not a WebAssembly module ({reason}): give the `.wasm` file that cargo built for a wasm32 target"
    )]
    NotWasm {
        /// What the parser said.
        reason: String,
    },
    /// The module says nothing of its contract.
    #[error(
        "the module carries no `{COMPONENT_TYPE}` section, so its contract is unknown: export the policy with the SDK's macro \
         (or wit-bindgen's `generate!` and `export!`), and check that the export isn't left out by a feature or `cfg`"
    )]
    NoComponentType,
    /// The module and its contract don't fit.
    #[error(
        "the module does not fit its contract ({reason}): build it with the bindings of the contract that it exports"
    )]
    Encode {
        /// What the encoder said, causes included.
        reason: String,
    },
    /// A finished component that doesn't hold together.
    #[error("the component is not valid ({reason}): build it again with current tools")]
    Invalid {
        /// What the validator said.
        reason: String,
    },
}

/// Makes a component of a core module that carries its contract. A component (as `wasm32-wasip2` builds give) is checked and returned as it is.
pub fn componentize(core: &[u8]) -> Result<Vec<u8>, ComponentError> {
    if Parser::is_component(core) {
        Validator::new_with_features(WasmFeatures::all())
            .validate_all(core)
            .map_err(|error| ComponentError::Invalid { reason: error.to_string() })?;
        return Ok(core.to_vec());
    }
    if !has_component_type(core)? {
        return Err(ComponentError::NoComponentType);
    }
    let encode = || ComponentEncoder::default().validate(true).module(core)?.encode();
    encode().map_err(|error| ComponentError::Encode { reason: format!("{error:#}") })
}

/// A component's identity everywhere: SHA-256 in lower-case hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn has_component_type(core: &[u8]) -> Result<bool, ComponentError> {
    for payload in Parser::new(0).parse_all(core) {
        match payload {
            Ok(Payload::CustomSection(section)) if section.name().starts_with(COMPONENT_TYPE) => {
                return Ok(true);
            }
            Ok(_) => {}
            Err(error) => {
                return Err(ComponentError::NotWasm { reason: error.to_string() });
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_a_contract_is_refused_with_what_to_do() {
        let core = wat::parse_str(r#"(module (func (export "score")))"#).unwrap();
        let error = componentize(&core).unwrap_err();
        assert!(matches!(error, ComponentError::NoComponentType), "{error}");
        assert!(error.to_string().contains("SDK's macro"));
    }

    #[test]
    fn bytes_that_are_no_module_are_refused() {
        for bytes in [&b""[..], b"hello", b"\0asm\x01\0\0", b"\0asm\x01\0\0\0\x05"] {
            let error = componentize(bytes).unwrap_err();
            assert!(matches!(error, ComponentError::NotWasm { .. }), "{error}");
        }
    }

    #[test]
    fn a_component_is_accepted_as_it_is_but_checked() {
        let component = wat::parse_str("(component)").unwrap();
        assert_eq!(componentize(&component).unwrap(), component);

        let mut broken = component;
        broken.extend([0x0b, 0x01, 0x01]);
        assert!(matches!(componentize(&broken), Err(ComponentError::Invalid { .. })));
    }

    #[test]
    fn a_digest_is_sha256_in_lower_case_hexadecimal() {
        assert_eq!(
            digest(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
