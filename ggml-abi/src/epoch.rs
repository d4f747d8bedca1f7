//! The epochs: spans of host versions that share one set of struct layouts.

use crate::face::{Registry, Tensor};
use crate::host::Host;
use std::ffi::c_void;

/// A host's version, `ggml_version()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

impl Version {
    /// Reads "0.26.0", "0.26.0-dirty", "0.26".
    pub fn parse(text: &str) -> Option<Version> {
        let mut numbers = text.split(['.', '-', '+']).map(str::parse);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return None;
        };
        Some(Version { major, minor })
    }
}

/// One epoch.
pub struct Epoch {
    /// Versions of ggml, for messages.
    pub name: &'static str,
    /// `GGML_BACKEND_API_VERSION`.
    pub api: u32,
    /// Its version.
    pub version: Version,
    /// A symbol of the host, and whether hosts of this epoch have it: tells apart builds between two releases.
    pub mark: (&'static str, bool),
    /// Size of a tensor struct.
    pub(crate) tensor_size: usize,
    /// Copies a tensor's fields out of this epoch's struct.
    pub(crate) read_tensor: unsafe fn(*const c_void, &'static Host) -> Tensor<'static>,
    /// Appends the words of a tensor that `TensorRef::fingerprint` tells of.
    pub(crate) fingerprint: unsafe fn(*const c_void, &mut Vec<u64>),
    /// Builds the registry object and everything that hangs on it.
    pub(crate) build: fn(&'static Host, &'static dyn Registry) -> *mut c_void,
}

impl Epoch {
    /// The epoch of a host that calls itself `version` and has the symbols that `has` finds, or one clause that says why
    /// there is none.
    pub fn choose(version: &str, has: impl Fn(&str) -> bool) -> Result<&'static Epoch, String> {
        let known = || EPOCHS.iter().map(|epoch| epoch.name).collect::<Vec<_>>().join(", ");
        let unknown = || format!("the host's ggml is {version}; this plugin knows {}", known());
        let parsed = Version::parse(version).ok_or_else(unknown)?;
        let epoch = EPOCHS.iter().find(|epoch| epoch.version == parsed).ok_or_else(unknown)?;
        let (symbol, expected) = epoch.mark;
        if has(symbol) != expected {
            let state = if expected { "lacks" } else { "has" };
            return Err(format!(
                "the host says it is ggml {version} but {state} the function {symbol}, so its layouts are not known"
            ));
        }
        Ok(epoch)
    }
}

/// A line per epoch: the module of its bindings, the ggml versions that have it, the symbol that marks it, and its graphs'
/// number, if they have any. The adapter is compiled once against each epoch's bindings.
macro_rules! epochs {
    ($($module:ident: $name:literal $major:literal $minor:literal, $symbol:literal $present:literal, $uid:expr;)*) => {
        $(
            mod $module {
                #[allow(non_camel_case_types, missing_docs, dead_code, clippy::all)]
                mod sys {
                    include!(concat!("generated/", stringify!($module), ".rs"));
                }
                include!("adapter/objects.rs");
                include!("adapter/memory.rs");

                /// See `Backend::compute`.
                fn uid(graph: &sys::ggml_cgraph) -> u64 {
                    let uid: fn(&sys::ggml_cgraph) -> u64 = $uid;
                    uid(graph)
                }
            }
        )*

        /// Every epoch that this build knows.
        pub static EPOCHS: &[Epoch] = &[$(Epoch {
            name: $name,
            api: $module::API,
            version: Version { major: $major, minor: $minor },
            mark: ($symbol, $present),
            tensor_size: $module::TENSOR_SIZE,
            read_tensor: $module::read_tensor,
            fingerprint: $module::fingerprint,
            build: $module::build,
        },)*];
    };
}

epochs! {
    api2: "0.25" 0 25, "ggml_backend_buft_alloc_buffer_n" false, |_| 0;
    api3: "0.26" 0 26, "ggml_backend_buft_alloc_buffer_n" true, |graph| graph.uid;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_with_and_without_a_suffix() {
        for text in ["0.26.0", "0.26", "0.26.3-dirty", "0.26-rc1"] {
            assert_eq!(Version::parse(text), Some(Version { major: 0, minor: 26 }), "{text}");
        }
        for text in ["", "0", "unknown", "0.x"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_epoch_follows_version_and_symbols() {
        assert_eq!(Epoch::choose("0.25.3", |_| false).map(|e| e.api), Ok(2));
        assert_eq!(Epoch::choose("0.26.0", |_| true).map(|e| e.api), Ok(3));
    }

    #[test]
    fn an_unknown_host_is_refused_in_one_line() {
        let newer = Epoch::choose("0.27.0", |_| true).map(|e| e.name).unwrap_err();
        assert_eq!(newer, "the host's ggml is 0.27.0; this plugin knows 0.25, 0.26");
        let between = Epoch::choose("0.25.9", |_| true).map(|e| e.name).unwrap_err();
        assert!(between.contains("ggml_backend_buft_alloc_buffer_n"), "{between}");
        assert!(!between.contains('\n'));
        assert!(Epoch::choose("unknown", |_| true).is_err());
    }
}
