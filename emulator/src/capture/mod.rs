//! Captures: launches with the memory that they touched, as directories that can be run again. docs/capture.md has the
//! format.

mod folder;
mod pages;
mod replay;

pub use pages::{Pages, PAGE};
pub use replay::{Difference, Differences};

use crate::labels::{Extent, Labels};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The version of the format that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// The file that describes a capture.
pub const MANIFEST: &str = "capture.json";

/// A launch with what it needs and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    /// What was launched.
    pub launch: Recorded,
    /// The chip that it ran on.
    pub topology: Topology,
    /// The programs in its memory, for source lines and disassembly.
    pub images: Vec<ImageFile>,
    /// Names of commands and memory.
    pub labels: Labels,
    /// Memory whose contents after the launch may differ from run to run: stacks, times.
    pub volatile: Vec<Extent>,
    /// How it ended.
    pub outcome: Outcome,
    /// Every page that the launch read, wrote or executed, as it was before.
    pub before: Pages,
    /// Those of them that it changed, as they were after.
    pub after: Pages,
}

/// The launch message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Address of the first instruction.
    #[serde(with = "crate::hex")]
    pub entry: u64,
    /// The argument block.
    #[serde(with = "crate::hex::bytes")]
    pub arguments: Vec<u8>,
    /// Bit s selects shire s.
    #[serde(with = "crate::hex")]
    pub shire_mask: u64,
    /// The program reads floating-point exception flags.
    pub exact_flags: bool,
}

/// The size of a chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Compute shires.
    pub shires: u32,
    /// DRAM from 0x8000000000.
    pub dram_bytes: u64,
}

/// A program in device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// Name of the file inside the capture.
    pub file: String,
    /// Where its lowest link address was placed.
    pub address: u64,
    /// The ELF file, with debug information if there was any.
    pub data: Vec<u8>,
}

/// How a launch ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Outcome {
    /// All harts returned.
    Completed {
        /// Retired instructions of all harts.
        instructions: u64,
        /// The latest logical clock of any hart.
        cycles: u64,
    },
    /// It did not complete.
    Failed {
        /// Why, in one line.
        error: String,
    },
}

type Result<T, E = CaptureError> = std::result::Result<T, E>;

/// Why a capture cannot be written or read.
#[derive(Debug)]
pub enum CaptureError {
    /// The file system refused.
    Io {
        /// What was tried: "write", "read", ...
        verb: &'static str,
        /// On which file.
        path: PathBuf,
        /// Its answer.
        error: io::Error,
    },
    /// The directory's name is taken.
    Exists(PathBuf),
    /// There is no capture in the directory.
    Missing(PathBuf),
    /// The file is of a version that is not known yet.
    Newer {
        /// Its directory.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The file does not hold what it should.
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It is no JSON of the expected form; the parser's words.
    Json(String),
    /// It is JSON of something else.
    Format,
    /// A name leads out of the directory.
    Name(String),
    /// The index of pages is not in order at this address.
    Index(u64),
    /// The compressed pages from this address on cannot be unpacked.
    Stream(u64),
    /// It ends before the last page.
    Short,
    /// Something follows the last page.
    Long,
    /// It changes a page whose old contents it does not have.
    Unknown(u64),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Json(words) => f.write_str(words),
            Damage::Format => f.write_str("it is not the description of a capture"),
            Damage::Name(name) => write!(f, "'{name}' is not the name of a file in the capture"),
            Damage::Index(addr) => write!(f, "its index of pages is wrong at {addr:#x}"),
            Damage::Stream(addr) => write!(f, "the pages from {addr:#x} on can't be unpacked"),
            Damage::Short => f.write_str("its end is missing"),
            Damage::Long => f.write_str("something follows its last page"),
            Damage::Unknown(addr) => write!(f, "the page at {addr:#x} is only in one of the files"),
        }
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaptureError::Io { verb, path, error } => write!(f, "can't {verb} {}: {error}", path.display()),
            CaptureError::Exists(path) => {
                write!(f, "{} exists already: choose another directory, or remove it", path.display())
            }
            CaptureError::Missing(path) => write!(f, "{} holds no capture ({MANIFEST} is missing)", path.display()),
            CaptureError::Newer { path, version } => write!(
                f,
                "{} is of version {version} of the capture format, this program reads versions up to {VERSION}: use a newer one",
                path.display()
            ),
            CaptureError::Damaged { path, damage } => write!(f, "{} is damaged: {damage}", path.display()),
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CaptureError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
