//! A device: what it is, what it can compute, and its session while somebody uses it.

use super::buffer::EtBuffer;
use super::settings::{Choice, Settings};
use super::stream::EtStream;
use crate::device::capture::Captures;
use crate::device::emulated::{self, Emulated};
use crate::device::null::{self, Null};
use crate::device::session::{Session, ALIGNMENT};
use crate::device::Driver;
use crate::graph::Node;
use crate::ops::{lower, Lowered, Refusal};
use crate::perf::profile::{Profile, Timeline};
use anyhow::Result;
use ggml_abi::face::{Backend, Buffer, Device, Memory, Tensor, TensorRef};
use ggml_abi::Op;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// From how many rows on an operation is worth bringing its weights over, as other backends have it.
const OFFLOAD_ROWS: i64 = 32;

/// Device ET0.
pub struct EtDevice {
    settings: Settings,
    description: CString,
    /// Shires to use.
    shires: u64,
    /// The session of the present users.
    session: Mutex<Weak<Session>>,
    captures: Option<Arc<Captures>>,
    profile: Option<Arc<Profile>>,
    /// Why opening failed last: hosts try again at once, and one line is enough.
    failure: Mutex<String>,
    /// Reasons that were explained already (`GGML_ET_EXPLAIN`).
    explained: Mutex<HashSet<String>>,
}

impl EtDevice {
    /// The device that the settings lead to, if there is one. The error is one line for a person.
    pub fn choose(settings: Settings) -> Result<Option<EtDevice>, String> {
        match settings.choice {
            Choice::Emulator | Choice::Null => EtDevice::emulator(settings).map(Some),
            Choice::Auto if boards().is_empty() => Ok(None),
            Choice::Auto | Choice::Pcie if !boards().is_empty() => {
                Err(format!("the board at {} can't be used: {NO_RUNTIME}", boards().join(", ")))
            }
            Choice::Auto | Choice::Pcie => Err("GGML_ET_DEVICE is 'pcie', but there is no board (/dev/et*_ops)".into()),
            Choice::Sysemu => Err(format!("GGML_ET_DEVICE is 'sysemu', but {NO_RUNTIME}")),
        }
    }

    fn emulator(settings: Settings) -> Result<EtDevice, String> {
        let all = emulated::shires(&settings.emulator);
        let shires = settings.shires.unwrap_or(all);
        if shires & !all != 0 {
            return Err(format!(
                "GGML_ET_SHIRE_MASK is {shires:#x}, but must be within {all:#x}: the emulator has {} shire{} \
                 (GGML_ET_EMU_SHIRES)",
                settings.emulator.shires,
                plural(settings.emulator.shires)
            ));
        }
        let used = shires.count_ones();
        let what = if settings.choice == Choice::Null { "that computes nothing" } else { "emulator" };
        let description = CString::new(format!("ET-SoC-1 {what} ({used} shire{})", plural(used))).unwrap_or_default();
        let session = Mutex::new(Weak::new());
        let profile = settings.profile.clone().map(|directory| Arc::new(Profile::new(directory)));
        let captures = settings.capture.clone().map(|(directory, wanted)| Arc::new(Captures::new(directory, wanted)));
        let (failure, explained) = (Mutex::default(), Mutex::default());
        Ok(EtDevice { settings, description, shires, session, captures, profile, failure, explained })
    }

    /// The session, opened if nobody uses the device yet. `None` after logging why not.
    fn open(&self) -> Option<Arc<Session>> {
        // Held while opening: a second user waits for the first one's session.
        let mut current = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = current.upgrade() {
            return Some(session);
        }
        let opened = self.driver().and_then(|driver| {
            let timeline = self.profile.as_ref().map(Timeline::open).transpose()?;
            Session::open(driver, self.shires, self.settings.kernels.as_deref(), timeline)
        });
        match opened {
            Ok(session) => {
                let session = Arc::new(session);
                *current = Arc::downgrade(&session);
                Some(session)
            }
            Err(error) => {
                let error = format!("{error:#}");
                let mut last = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                if *last != error {
                    log::error!("ET0 can't be opened: {error}");
                    *last = error;
                }
                None
            }
        }
    }

    fn driver(&self) -> Result<Box<dyn Driver>> {
        if self.settings.choice == Choice::Null {
            return Ok(Box::new(Null { shires: self.shires }));
        }
        let driver = Emulated::open(&self.settings.emulator)?;
        Ok(Box::new(match &self.captures {
            Some(captures) => driver.capturing(captures.clone())?,
            None => driver,
        }))
    }

    /// Logs, once for each reason, why a node is not computed here.
    fn explain(&self, node: &Node, refusal: &Refusal) {
        if !self.settings.explain {
            return;
        }
        let line = format!("{} stays on the CPU: {refusal}", node.label());
        let mut explained = self.explained.lock().unwrap_or_else(PoisonError::into_inner);
        if !explained.contains(&line) {
            log::info!("{line} (first met at '{}')", node.name);
            explained.insert(line);
        }
    }

    /// The user's filter sends a node to the CPU. Never one whose result has its place on the device already: nobody
    /// else could write it, and the host would abort.
    fn filtered(&self, node: &Node, placed: bool) -> bool {
        let matches = |filter: &regex_lite::Regex| filter.is_match(node.op.name()) || filter.is_match(node.label());
        !placed && self.settings.filter.as_ref().is_some_and(matches)
    }
}

/// Refuses to write into a tensor that is computed elsewhere: hosts bring an operation's sources to the device that
/// computes it, but not what its result is a view of.
fn in_reach(tensor: &Tensor<'_>) -> Result<(), Refusal> {
    let Some(base) = tensor.base.map(TensorRef::read).filter(|base| base.op != Op::None) else {
        return Ok(());
    };
    let base = Node::read(&base);
    match lower(&base) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(Refusal::new(format!("it writes into the result of {}: {refusal}", base.label()))),
    }
}

/// What is missing for anything but the emulator.
const NO_RUNTIME: &str = "this build has no vendor runtime; GGML_ET_DEVICE=emulator works without a board";

fn plural(count: u32) -> &'static str {
    if count == 1 {
        ""
    } else {
        "s"
    }
}

/// The boards' device nodes.
fn boards() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/dev") else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let number = |name: &str| name.strip_prefix("et")?.strip_suffix("_ops")?.parse::<u32>().ok();
    let mut boards: Vec<String> =
        names.filter(|name| number(name).is_some()).map(|name| format!("/dev/{name}")).collect();
    boards.sort();
    boards
}

impl Device for EtDevice {
    fn name(&self) -> &CStr {
        c"ET0"
    }

    fn description(&self) -> &CStr {
        &self.description
    }

    fn memory(&self) -> Memory {
        let current = self.session.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        match current {
            Some(session) => {
                let (free, total) = session.memory();
                Memory { free, total }
            }
            None => {
                let total = match self.settings.choice {
                    Choice::Null => null::memory(),
                    _ => emulated::memory(&self.settings.emulator),
                };
                Memory { free: total, total }
            }
        }
    }

    fn alignment(&self) -> usize {
        ALIGNMENT as usize
    }

    fn supports(&self, node: TensorRef<'_>) -> bool {
        let tensor = node.read();
        let node = Node::read(&tensor);
        let lowered = lower(&node).and_then(|lowered| match lowered {
            Lowered::Command(_) => in_reach(&tensor),
            Lowered::Nothing => Ok(()),
        });
        match lowered {
            Ok(()) => !self.filtered(&node, tensor.placed),
            Err(refusal) => {
                self.explain(&node, &refusal);
                false
            }
        }
    }

    fn offloads(&self, node: TensorRef<'_>) -> bool {
        let node = node.read();
        let rows = match node.op {
            Op::GetRows => 0,
            Op::MulMat => node.ne[1],
            Op::MulMatId | Op::Rope | Op::RopeBack => node.ne[2],
            _ => node.ne[1] * node.ne[2] * node.ne[3],
        };
        rows >= OFFLOAD_ROWS
    }

    fn allocate(&self, size: usize) -> Option<Box<dyn Buffer>> {
        let session = self.open()?;
        match EtBuffer::new(session, size as u64) {
            Ok(buffer) => Some(Box::new(buffer)),
            Err(error) => {
                log::error!("ET0 is out of memory: {error:#}");
                None
            }
        }
    }

    fn backend(&self) -> Option<Box<dyn Backend>> {
        Some(Box::new(EtStream::new(self.open()?, &self.settings)))
    }
}
