//! Hand-written launches: the JSON file, and its way into a machine's memory.

use crate::options::Options;
use anyhow::{bail, ensure, Context, Result};
use et_emulator::elf::Image;
use et_emulator::labels::{Extent, Labels};
use et_emulator::{hex, Config, Machine};
use object::{Object, ObjectSymbol};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchFile {
    format: String,
    version: u32,
    elf: PathBuf,
    #[serde(default, with = "hex::optional")]
    address: Option<u64>,
    entry: Option<String>,
    #[serde(default = "one")]
    shires: u32,
    #[serde(default, with = "hex::optional")]
    shire_mask: Option<u64>,
    #[serde(default, with = "hex::optional")]
    dram_bytes: Option<u64>,
    #[serde(default)]
    arguments: Vec<Argument>,
    #[serde(default)]
    pub buffers: Vec<Buffer>,
}

fn one() -> u32 {
    1
}

/// A value of a C struct, at its type's alignment.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Argument {
    U8(u8),
    U16(u16),
    U32(#[serde(with = "hex")] u64),
    U64(#[serde(with = "hex")] u64),
    I32(i32),
    I64(i64),
    F32(f32),
    Bytes(#[serde(with = "hex::bytes")] Vec<u8>),
    /// A buffer's name, or "name+offset".
    AddressOf(String),
    /// Zeros up to a multiple of this.
    Align(usize),
}

/// Device memory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    pub name: String,
    bytes: Option<u64>,
    #[serde(default = "alignment")]
    align: u64,
    #[serde(default)]
    fill: Fill,
    pub expect: Option<Expectation>,
    /// Its contents after the launch are written to this file.
    pub dump: Option<PathBuf>,
    /// Elements to print after the launch.
    pub show: Option<Show>,
}

fn alignment() -> u64 {
    256
}

/// What a buffer holds before the launch.
#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum Fill {
    #[default]
    Zeros,
    Byte(u8),
    F32(f32),
    Random(Random),
    File(PathBuf),
    Values(Vec<Argument>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Random {
    #[serde(rename = "type")]
    kind: RandomKind,
    #[serde(default)]
    seed: u64,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum RandomKind {
    Bytes,
    F16,
    F32,
}

/// What a buffer should hold after the launch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    pub file: PathBuf,
    /// The contents are floats, and may be off by this much of the expected value, or of 1 if that is smaller.
    pub tolerance: Option<f32>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields)]
pub struct Show {
    #[serde(rename = "type")]
    pub kind: Element,
    #[serde(default = "sixteen")]
    pub count: usize,
}

fn sixteen() -> usize {
    16
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub enum Element {
    F32,
    I32,
    U8,
    U32,
    U64,
}

/// A launch that is ready in its machine.
pub struct Prepared {
    pub machine: Machine,
    pub elf: Vec<u8>,
    pub image_address: u64,
    pub entry: u64,
    pub exact_flags: bool,
    pub shire_mask: u64,
    pub arguments: Vec<u8>,
    /// The image and the buffers.
    pub labels: Labels,
    /// Address and contents of each buffer.
    pub buffers: Vec<(u64, Vec<u8>)>,
}

impl LaunchFile {
    /// Reads the file. Paths in it are relative to its directory.
    pub fn read(path: &Path) -> Result<LaunchFile> {
        let text = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
        let mut file: LaunchFile =
            serde_json::from_slice(&text).with_context(|| format!("{} is no launch file", path.display()))?;
        ensure!(file.format == "et-launch", "{} is no launch file: its format is '{}'", path.display(), file.format);
        if file.version > VERSION {
            bail!(
                "{} is of version {}, this program reads versions up to {VERSION}: use a newer one",
                path.display(),
                file.version
            );
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        file.elf = folder.join(&file.elf);
        for buffer in &mut file.buffers {
            if let Fill::File(source) = &mut buffer.fill {
                *source = folder.join(&source);
            }
            if let Some(expect) = &mut buffer.expect {
                expect.file = folder.join(&expect.file);
            }
            if let Some(dump) = &mut buffer.dump {
                *dump = folder.join(&dump);
            }
        }
        Ok(file)
    }

    /// Makes the machine and everything in it.
    pub fn prepare(&self, options: &Options) -> Result<Prepared> {
        let config = Config { shires: self.shires, threads: options.threads, mode: options.mode, ..Config::default() };
        let config = Config { dram_bytes: self.dram_bytes.unwrap_or(config.dram_bytes), ..config };
        let machine = Machine::new(config)?;
        let elf = std::fs::read(&self.elf).with_context(|| format!("can't read {}", self.elf.display()))?;
        let image = Image::parse(&elf).with_context(|| format!("{} can't be loaded", self.elf.display()))?;
        let dram = machine.dram();
        let linked = dram.contains(&image.base()).then(|| image.base());
        let image_address = self.address.or(linked).unwrap_or(dram.start);
        let displacement = image_address.wrapping_sub(image.base());
        image.place(&machine, image_address)?;
        let mut labels = Labels::default();
        let name = self.elf.file_name().unwrap_or_default().to_string_lossy().into_owned();
        labels.buffers.push(Extent { address: image_address, bytes: image.size(), name });
        // Behind the image, a line apart from one another.
        let mut next = image_address + image.size();
        let mut contents = Vec::new();
        for buffer in &self.buffers {
            let bytes = buffer.size()?;
            ensure!(buffer.align.is_power_of_two(), "buffer '{}': align is no power of two", buffer.name);
            let twice = labels.buffers.iter().any(|other| other.name == buffer.name);
            ensure!(!twice, "there are two things named '{}'", buffer.name);
            let address = (next + 64).checked_next_multiple_of(buffer.align).context("no room for the buffers")?;
            next = address.checked_add(bytes).context("no room for the buffers")?;
            labels.buffers.push(Extent { address, bytes, name: buffer.name.clone() });
        }
        // Their contents may be addresses of others.
        for (buffer, extent) in self.buffers.iter().zip(&labels.buffers[1..]) {
            let data = buffer.contents(extent.bytes, &labels)?;
            machine.write(extent.address, &data).with_context(|| format!("buffer '{}'", buffer.name))?;
            contents.push((extent.address, data));
        }
        let entry = match &self.entry {
            None => image.entry,
            Some(text) => match hex::parse(text) {
                Some(address) => address.wrapping_sub(displacement),
                None => symbol(&elf, text)?,
            },
        };
        Ok(Prepared {
            exact_flags: image.reads_flags(),
            entry: entry.wrapping_add(displacement),
            image_address,
            shire_mask: self.shire_mask.unwrap_or(u64::MAX >> (64 - self.shires)),
            arguments: layout(&self.arguments, &labels).context("arguments")?,
            machine,
            elf,
            labels,
            buffers: contents,
        })
    }
}

/// The link address of a function.
fn symbol(elf: &[u8], name: &str) -> Result<u64> {
    let file = object::File::parse(elf)?;
    let found = file.symbols().find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address());
    found.with_context(|| format!("the ELF file has no symbol '{name}'"))
}

impl Buffer {
    fn size(&self) -> Result<u64> {
        let own = match &self.fill {
            Fill::File(path) => {
                Some(std::fs::metadata(path).with_context(|| format!("can't read {}", path.display()))?.len())
            }
            Fill::Values(values) => Some(layout(values, &Labels::default()).map(|bytes| bytes.len() as u64)?),
            _ => None,
        };
        match (self.bytes, own) {
            (Some(bytes), Some(own)) if own > bytes => {
                bail!("buffer '{}': {own} bytes don't fit into its {bytes}", self.name)
            }
            (bytes, own) => {
                bytes.or(own).with_context(|| format!("buffer '{}': its size in bytes is missing", self.name))
            }
        }
    }

    fn contents(&self, bytes: u64, labels: &Labels) -> Result<Vec<u8>> {
        let size = bytes as usize;
        let mut data = match &self.fill {
            Fill::Zeros => Vec::new(),
            Fill::Byte(byte) => vec![*byte; size],
            Fill::F32(value) => value.to_le_bytes().repeat(size.div_ceil(4)),
            Fill::Random(random) => random.bytes(size),
            Fill::File(path) => std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?,
            Fill::Values(values) => layout(values, labels).with_context(|| format!("buffer '{}'", self.name))?,
        };
        data.resize(size, 0);
        Ok(data)
    }
}

impl Random {
    /// SplitMix64 from the seed on: one output per element. Bytes take its low 8 bits; floats are uniform in -1..1, in
    /// steps of 2^-23 (its upper 24 bits) or 2^-9 (its upper 10 bits).
    fn bytes(&self, size: usize) -> Vec<u8> {
        let mut state = self.seed;
        let mut next = move || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ z >> 31
        };
        match self.kind {
            RandomKind::Bytes => (0..size).map(|_| next() as u8).collect(),
            RandomKind::F32 => {
                let mut value = || ((next() >> 40) as f32 / 8_388_608.0 - 1.0).to_le_bytes();
                (0..size.div_ceil(4)).flat_map(|_| value()).collect()
            }
            RandomKind::F16 => {
                let mut value = || half::f16::from_f32((next() >> 54) as f32 / 512.0 - 1.0).to_le_bytes();
                (0..size.div_ceil(2)).flat_map(|_| value()).collect()
            }
        }
    }
}

/// Values as a C compiler lays out the members of a struct. Without the buffer's label an address is 0.
fn layout(values: &[Argument], labels: &Labels) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut put = |align: usize, value: &[u8]| {
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        bytes.extend_from_slice(value);
    };
    for value in values {
        match value {
            Argument::U8(value) => put(1, &[*value]),
            Argument::U16(value) => put(2, &value.to_le_bytes()),
            Argument::U32(value) => {
                let value = u32::try_from(*value).ok().with_context(|| format!("{value:#x} is no u32"))?;
                put(4, &value.to_le_bytes());
            }
            Argument::U64(value) => put(8, &value.to_le_bytes()),
            Argument::I32(value) => put(4, &value.to_le_bytes()),
            Argument::I64(value) => put(8, &value.to_le_bytes()),
            Argument::F32(value) => put(4, &value.to_le_bytes()),
            Argument::Bytes(value) => put(1, value),
            Argument::AddressOf(what) => put(8, &address(what, labels)?.to_le_bytes()),
            Argument::Align(align) => {
                ensure!(align.is_power_of_two(), "align {align} is no power of two");
                put(*align, &[]);
            }
        }
    }
    Ok(bytes)
}

fn address(what: &str, labels: &Labels) -> Result<u64> {
    if labels.buffers.is_empty() {
        return Ok(0);
    }
    let (name, offset) = match what.rsplit_once('+') {
        Some((name, offset)) => {
            (name, hex::parse(offset).with_context(|| format!("'{what}' is no buffer and offset"))?)
        }
        None => (what, 0),
    };
    let found = labels.buffers.iter().find(|buffer| buffer.name == name);
    Ok(found.with_context(|| format!("there is no buffer '{name}'"))?.address.wrapping_add(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_laid_out_like_a_struct() {
        let text = r#"[{"u8": 1}, {"u32": "0x2"}, {"address_of": "b+0x10"}, {"f32": 1.0}, {"bytes": "0708"}, {"align": 4},
            {"i32": -1}, {"u16": 9}, {"i64": -2}, {"u64": 18446744073709551615}]"#;
        let values: Vec<Argument> = serde_json::from_str(text).unwrap();
        let labels =
            Labels { buffers: vec![Extent { address: 0x100, bytes: 32, name: "b".into() }], ..Labels::default() };
        let expected = [
            &[1, 0, 0, 0, 2, 0, 0, 0, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 7, 8, 0, 0][..],
            &[255, 255, 255, 255, 9, 0, 0, 0, 254, 255, 255, 255, 255, 255, 255, 255],
            &[255; 8],
        ];
        assert_eq!(layout(&values, &labels).unwrap(), expected.concat());
        let refusal = |text: &str| {
            let values: Vec<Argument> = serde_json::from_str(text).unwrap();
            layout(&values, &labels).unwrap_err().to_string()
        };
        assert_eq!(refusal(r#"[{"u32": 4294967296}]"#), "0x100000000 is no u32");
        assert_eq!(refusal(r#"[{"address_of": "c"}]"#), "there is no buffer 'c'");
        assert_eq!(refusal(r#"[{"align": 3}]"#), "align 3 is no power of two");
    }

    #[test]
    fn random_numbers_are_splitmix64() {
        let bytes = |kind, size| Random { kind, seed: 1234567 }.bytes(size);
        // The generator's published first outputs for this seed: 6457827717110365317, 3203168211198807973.
        assert_eq!(bytes(RandomKind::Bytes, 2), [6457827717110365317u64 as u8, 3203168211198807973u64 as u8]);
        let first = f32::from_le_bytes(bytes(RandomKind::F32, 4).try_into().unwrap());
        assert_eq!(first, (6457827717110365317u64 >> 40) as f32 / 8_388_608.0 - 1.0);
        assert_eq!(bytes(RandomKind::F16, 3).len(), 4);
    }
}
