//! Captures of launches (`GGML_ET_CAPTURE`).

use super::Launch;
use anyhow::{bail, Context, Result};
use et_emulator::capture::{Capture, ImageFile};
use et_emulator::{LaunchError, Machine, Report};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Which launches of a device are captured, and where to. It counts for as long as the plugin is loaded, however often
/// the device is opened.
#[derive(Debug)]
pub struct Captures {
    directory: PathBuf,
    wanted: RangeInclusive<u64>,
    /// Launches so far.
    count: AtomicU64,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The directory has not been looked at.
    New,
    Ready,
    /// Writing has failed once.
    Ended,
}

impl Captures {
    /// The launches number `wanted`, counted from 1, go to directories of their own in `directory`.
    pub fn new(directory: PathBuf, wanted: RangeInclusive<u64>) -> Captures {
        Captures { directory, wanted, count: AtomicU64::new(0), state: Mutex::new(State::New) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the directory, and makes sure that captures can be written there. Those of an earlier run stay as they are.
    pub fn check(&self) -> Result<()> {
        let mut state = self.state();
        if *state == State::New {
            let name = || format!("GGML_ET_CAPTURE: captures can't be written to {}", self.directory.display());
            fs::create_dir_all(&self.directory).with_context(name)?;
            let entries = fs::read_dir(&self.directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
            for entry in entries.with_context(name)? {
                if number(&entry.path()).is_some_and(|number| self.wanted.contains(&number)) {
                    bail!(
                        "GGML_ET_CAPTURE: {} exists already; choose another directory, or remove it",
                        entry.path().display()
                    );
                }
            }
            let probe = self.directory.join("launch.part");
            fs::write(&probe, []).and_then(|()| fs::remove_file(&probe)).with_context(name)?;
            *state = State::Ready;
        }
        Ok(())
    }

    /// Runs a launch, and captures it if it is one of those.
    pub fn launch(
        &self,
        machine: &Machine,
        asked: &et_emulator::Launch<'_>,
        launch: &Launch<'_>,
    ) -> Result<Report, LaunchError> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.wanted.contains(&number) || *self.state() == State::Ended {
            return machine.launch(asked);
        }
        let (data, address) = launch.lines.file();
        let image = ImageFile { file: "image.elf".to_owned(), address, data };
        let (result, capture) = Capture::take(machine, asked, vec![image], (launch.labels)());
        let path = self.directory.join(format!("launch-{number:05}"));
        // What was computed is right, whether or not there is room for the capture.
        match capture.write(&path) {
            Ok(()) => log::info!(
                "launch {number} ({} commands) is captured in {}",
                capture.labels.commands.len(),
                path.display()
            ),
            Err(error) => {
                log::error!("launch {number} and those after it are not captured: {error}");
                *self.state() = State::Ended;
            }
        }
        result
    }
}

/// The launch that a directory is for.
fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("launch-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_overwritten() {
        let folder = tempfile();
        let captures = |wanted| Captures::new(folder.join("new"), wanted);
        captures(1..=u64::MAX).check().unwrap();
        fs::create_dir(folder.join("new/launch-00007")).unwrap();
        fs::create_dir(folder.join("new/launch-x")).unwrap();
        captures(1..=6).check().unwrap();
        let refusal = format!("{:#}", captures(3..=7).check().unwrap_err());
        assert!(
            refusal.ends_with("new/launch-00007 exists already; choose another directory, or remove it"),
            "{refusal}"
        );
        let again = captures(8..=9);
        again.check().unwrap();
        fs::create_dir(folder.join("new/launch-00008")).unwrap();
        again.check().expect("its own captures do not stand in its way");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let folder = tempfile();
        fs::write(folder.join("file"), []).unwrap();
        let refusal = format!("{:#}", Captures::new(folder.join("file"), 1..=1).check().unwrap_err());
        assert!(refusal.starts_with("GGML_ET_CAPTURE: captures can't be written to "), "{refusal}");
        assert!(!refusal.contains('\n'));
        fs::remove_dir_all(folder).unwrap();
    }

    fn tempfile() -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("et-captures-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }
}
