//! `GGML_ET_PROFILE`: a timeline of all commands in Chrome's trace format, which Perfetto opens too.

use crate::device::session::{Span, CYCLES_PER_US};
use crate::graph::plan::Origin;
use crate::graph::Node;
use anyhow::{Context, Result};
use serde_json::{json, Map, Value};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The timeline's file.
const TRACE: &str = "et_runtime_trace.json";
/// The numbers of kernels.
const KERNELS: &str = "kernel_id.json";

/// The files of one process. They are whole after every launch, however the process ends.
#[derive(Debug)]
pub struct Profile {
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    trace: Option<File>,
    /// Devices opened so far: each has a time line of its own.
    sessions: u64,
    events: u64,
    /// The number of each kernel by its name in logs.
    kernels: Map<String, Value>,
    /// Writing has failed once.
    ended: bool,
}

impl Profile {
    /// Files in `directory`, which is made with the first device that is opened.
    pub fn new(directory: PathBuf) -> Profile {
        Profile { directory, state: Mutex::default() }
    }

    /// A device is opened: makes the files with the first one. Gives the device's number.
    fn open(&self) -> Result<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.trace.is_none() {
            let failed = |path: &Path| format!("GGML_ET_PROFILE: {} can't be written", path.display());
            fs::create_dir_all(&self.directory).with_context(|| failed(&self.directory))?;
            let path = self.directory.join(TRACE);
            let mut file = File::create(&path).with_context(|| failed(&path))?;
            file.write_all(b"[").and_then(|()| file.write_all(END)).with_context(|| failed(&path))?;
            state.trace = Some(file);
        }
        state.sessions += 1;
        Ok(state.sessions)
    }

    /// The commands of a launch on device `session`: the node, what computed it, and when.
    fn launch<'n>(&self, session: u64, commands: impl Iterator<Item = (&'n Node, Origin, Span)>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.ended {
            return;
        }
        let mut text = String::new();
        let known = state.kernels.len();
        for (node, origin, span) in commands {
            text.push_str(if state.events == 0 { "" } else { ",\n" });
            text.push_str(&event(session, node, origin, span).to_string());
            state.events += 1;
            state.kernels.entry(origin.kernel).or_insert(origin.number.into());
        }
        if let Err(error) = self.write(&mut state, &text, known) {
            state.ended = true;
            log::error!("GGML_ET_PROFILE: the timeline ends here: {error:#}");
        }
    }

    /// Puts events before the end of the timeline, and all kernels into their file if there are more than the `known` ones.
    fn write(&self, state: &mut State, events: &str, known: usize) -> Result<()> {
        if let Some(file) = &mut state.trace {
            file.seek(SeekFrom::End(-(END.len() as i64)))?;
            file.write_all(events.as_bytes())?;
            file.write_all(END)?;
        }
        if state.kernels.len() > known {
            fs::write(self.directory.join(KERNELS), format!("{:#}\n", Value::from(state.kernels.clone())))?;
        }
        Ok(())
    }
}

/// One opened device's part of the timeline.
#[derive(Debug)]
pub struct Timeline {
    profile: Arc<Profile>,
    session: u64,
}

impl Timeline {
    /// Begins a part. The error says which file can't be written.
    pub fn open(profile: &Arc<Profile>) -> Result<Timeline> {
        Ok(Timeline { profile: profile.clone(), session: profile.open()? })
    }

    /// Adds the commands of a launch: the node, what computed it, and when.
    pub fn launch<'n>(&self, commands: impl Iterator<Item = (&'n Node, Origin, Span)>) {
        self.profile.launch(self.session, commands);
    }
}

/// The end of the timeline.
const END: &[u8] = b"\n]\n";

/// One command as a complete event; times are in microseconds.
fn event(session: u64, node: &Node, origin: Origin, span: Span) -> Value {
    let time = |cycles: u64| cycles as f64 / CYCLES_PER_US as f64;
    json!({
        "name": format!("{} {}", node.label(), node.name),
        "cat": node.op.name(),
        "ph": "X",
        "ts": time(span.start),
        "dur": time(span.end - span.start),
        "pid": session,
        "tid": 0,
        "args": {
            "kernel": origin.kernel,
            "kernel_id": origin.number,
            "shape": node.dst.ne,
            "fused": origin.also,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Operand;
    use ggml_abi::{Op, Type};

    #[test]
    fn the_files_are_whole_after_every_launch() {
        let folder = tempfile::tempdir().unwrap();
        let profile = Profile::new(folder.path().join("new/one"));
        let read = |name: &str| fs::read_to_string(folder.path().join("new/one").join(name)).unwrap();
        let session = profile.open().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&read(TRACE)).unwrap(), json!([]));
        let operand = Operand { addr: 0, ty: Type::F32, ne: [8, 1, 1, 1], nb: [4, 32, 32, 32], view: false };
        let src = [const { None }; 10];
        let node = Node { op: Op::Add, sub: None, name: "a\"b".into(), dst: operand, src, params: [0; 16] };
        let origin = Origin { index: 0, kernel: "add_f32", number: 7, also: 1 };
        for i in 0..2 {
            let span = Span { start: 650 * i, end: 650 * i + 325 };
            profile.launch(session, std::iter::once((&node, origin, span)));
            let trace: Vec<Value> = serde_json::from_str(&read(TRACE)).unwrap();
            assert_eq!(trace.len() as u64, i + 1);
            let last = &trace[i as usize];
            assert_eq!((&last["ts"], &last["dur"], &last["name"]), (&json!(i as f64), &json!(0.5), &json!("ADD a\"b")));
        }
        assert_eq!(serde_json::from_str::<Value>(&read(KERNELS)).unwrap(), json!({ "add_f32": 7 }));
        assert_eq!(profile.open().unwrap(), session + 1);
    }

    #[test]
    fn a_bad_path_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Profile::new(file.path().join("below")).open().unwrap_err();
        assert!(format!("{error:#}").starts_with("GGML_ET_PROFILE: "), "{error:#}");
    }
}
