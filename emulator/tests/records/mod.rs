//! Recorded states: where they are, how their values are written, and how states of a hart are set and compared.

#![allow(dead_code)] // No test program uses all of it.

pub mod state;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The files that a directory of records may hold.
const FILES: [&str; 6] =
    ["scalar.jsonl.xz", "vector.jsonl.xz", "trans.jsonl.xz", "trap.jsonl.xz", "tensor.jsonl.xz", "sync.jsonl.xz"];

/// The records of one file.
pub struct Source {
    pub path: PathBuf,
    pub records: Vec<Value>,
}

/// Where the records of `file` are: the committed ones, and those of the directory that the environment variable
/// ET_VECTORS names, if it has this file.
pub fn sources(file: &str) -> Vec<Source> {
    assert!(FILES.contains(&file));
    let mut sources = vec![Source::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(file))];
    if let Some(dir) = std::env::var_os("ET_VECTORS") {
        let path = other_directory(&dir).unwrap_or_else(|message| panic!("{message}")).join(file);
        if path.exists() {
            sources.push(Source::read(path));
        }
    }
    sources
}

/// The directory that ET_VECTORS names, absolute or seen from the project's root. It must have records.
pub fn other_directory(name: &std::ffi::OsStr) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's root");
    let dir = root.join(name);
    if !dir.is_dir() {
        return Err(format!("ET_VECTORS: there is no directory {}", dir.display()));
    }
    if !FILES.iter().any(|file| dir.join(file).exists()) {
        return Err(format!("ET_VECTORS: {} has none of the files {}", dir.display(), FILES.join(", ")));
    }
    Ok(dir)
}

impl Source {
    fn read(path: PathBuf) -> Source {
        let wrong = |what: &dyn std::fmt::Display| -> ! { panic!("{}: {what}", path.display()) };
        let packed = std::fs::read(&path).unwrap_or_else(|error| wrong(&error));
        let mut text = Vec::new();
        lzma_rs::xz_decompress(&mut packed.as_slice(), &mut text).unwrap_or_else(|error| wrong(&error));
        let text = String::from_utf8(text).unwrap_or_else(|error| wrong(&error));
        let parse = |(n, line)| {
            serde_json::from_str(line).unwrap_or_else(|error| wrong(&format_args!("line {}: {error}", n + 1)))
        };
        let records: Vec<Value> =
            text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect();
        if records.is_empty() {
            wrong(&"no records");
        }
        Source { path, records }
    }

    /// Runs `check` on each record; panics with what differs, if anything does.
    pub fn check(&self, how: &str, mut check: impl FnMut(&Value) -> Result<(), String>) {
        let mut wrong = Vec::new();
        for record in &self.records {
            if let Err(difference) = check(record) {
                let note = record.get("asm").or(record.get("note")).and_then(Value::as_str).unwrap_or("");
                wrong.push(format!("{} ({note}): {difference}", text(&record["id"])));
            }
        }
        let (bad, all) = (wrong.len(), self.records.len());
        wrong.truncate(20);
        assert!(bad == 0, "{}, {how}: {bad} of {all} differ:\n{}", self.path.display(), wrong.join("\n"));
    }
}

/// A hexadecimal number.
pub fn number(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("not a hexadecimal number: {text}"))
}

/// A string.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}

/// Hexadecimal bytes.
pub fn bytes(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "half a byte: {text}");
    (0..text.len() / 2).map(|i| number(&text[2 * i..2 * i + 2]) as u8).collect()
}

/// The words of a vector register, lane 0 first; there may be fewer than eight.
pub fn words(text: &str) -> impl Iterator<Item = u32> + '_ {
    assert!(text.len().is_multiple_of(8) && text.len() <= 64, "not a vector: {text}");
    (0..text.len() / 8).map(|e| number(&text[8 * e..8 * e + 8]) as u32)
}

/// The members of an object inside a state, if it has that object.
pub fn entries<'a>(state: &'a Value, group: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = state.get(group).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), text(value)))
}

/// The number of a register or line below `limit`.
pub fn index(text: &str, limit: usize) -> usize {
    text.parse().ok().filter(|&n| n < limit).unwrap_or_else(|| panic!("no register or line {text}"))
}
