//! The device image: the program that every launch runs.

use crate::command::ET_IMAGE_ABI;
use anyhow::{anyhow, bail, Context, Result};
use et_emulator::{elf, LineTable};
use object::elf::{FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader};
use object::LittleEndian;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The image that was built with the plugin.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/et_kernels.elf"));

/// A file of this name in `GGML_ET_KERNELS_PATH` replaces the embedded image.
pub const FILE_NAME: &str = "et-kernels.elf";

/// The same image with debug information: beside its image, or beside the plugin.
pub const DEBUG_NAME: &str = "et-kernels.debug";

/// No image is larger: what says so is damaged.
const SIZE_MAX: u64 = 64 << 20;

/// An image that this plugin can talk to.
#[derive(Debug)]
pub struct Image {
    /// Segments and entry.
    pub elf: elf::Image,
    /// The file.
    file: Arc<[u8]>,
    /// The directory that it came from, unless it is the embedded one.
    directory: Option<PathBuf>,
}

impl Image {
    /// The image in use: from the directory that the user named, else the embedded one. A file that is there but
    /// unfit is an error, not a reason to use another.
    pub fn select(directory: Option<&Path>) -> Result<Image> {
        if let Some(directory) = directory {
            let path = directory.join(FILE_NAME);
            match std::fs::read(&path) {
                Ok(data) => {
                    let image = Image::parse(&data).with_context(|| format!("{} is refused", path.display()))?;
                    return Ok(Image { directory: Some(directory.to_owned()), ..image });
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    // At every opening: hosts mute the log while they try how much of a model fits.
                    log::warn!("{} does not exist: the embedded device image is used", path.display());
                }
                Err(error) => return Err(anyhow!("can't read {}: {error}", path.display())),
            }
        }
        Image::parse(EMBEDDED).context("the embedded device image is damaged")
    }

    /// Takes an ELF file apart and checks that it is an image of this plugin's kernels, of this version.
    pub fn parse(data: &[u8]) -> Result<Image> {
        let elf = elf::Image::parse(data)?;
        match abi(data) {
            Some(ET_IMAGE_ABI) => {}
            Some(other) => bail!("it speaks version {other} of the command format, this plugin version {ET_IMAGE_ABI}"),
            None => bail!("it is not an image of this plugin's kernels"),
        }
        let entry = elf.entry.checked_sub(elf.base());
        if elf.size() > SIZE_MAX || entry.is_none_or(|entry| entry >= elf.size()) {
            bail!(elf::ImageError::Damaged);
        }
        Ok(Image { elf, file: data.into(), directory: None })
    }

    /// What device memory holds once the image is loaded: its segments, with zeros between them.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.elf.size() as usize];
        for segment in &self.elf.segments {
            let at = (segment.addr - self.elf.base()) as usize;
            bytes[at..at + segment.data.len()].copy_from_slice(&segment.data);
        }
        bytes
    }

    /// The line table for this image once loaded at device address `addr`.
    pub fn lines(&self, addr: u64) -> Lines {
        let plugin = ggml_abi::library_path().and_then(|path| path.parent().map(Path::to_owned));
        Lines {
            directories: self.directory.clone().into_iter().chain(plugin).collect(),
            image: self.file.clone(),
            build_id: self.elf.build_id.clone(),
            addr,
            table: OnceLock::new(),
        }
    }
}

/// The version of the command format that an image's note states (`kernels/src/entry.S`).
fn abi(data: &[u8]) -> Option<u32> {
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    for segment in header.program_headers(LittleEndian, data).ok()? {
        let mut notes = segment.notes(LittleEndian, data).ok().flatten();
        while let Some(note) = notes.as_mut().and_then(|notes| notes.next().ok().flatten()) {
            if note.name() == b"ET" && note.n_type(LittleEndian) == NoteType(1) {
                return note.desc().try_into().ok().map(u32::from_le_bytes);
            }
        }
    }
    None
}

/// Source lines of a loaded image. Debug information is looked for when the first fault asks for it.
pub struct Lines {
    directories: Vec<PathBuf>,
    image: Arc<[u8]>,
    build_id: Option<Vec<u8>>,
    addr: u64,
    table: OnceLock<Option<elf::Lines>>,
}

impl Lines {
    /// The image with debug information.
    fn debug(&self) -> Option<Vec<u8>> {
        self.directories.iter().find_map(|directory| {
            let data = std::fs::read(directory.join(DEBUG_NAME)).ok()?;
            let same = self.build_id.is_some() && elf::Image::parse(&data).ok()?.build_id == self.build_id;
            same.then_some(data)
        })
    }

    /// The image as an ELF file, with debug information if it is found, and where it is loaded.
    pub fn file(&self) -> (Vec<u8>, u64) {
        (self.debug().unwrap_or_else(|| self.image.to_vec()), self.addr)
    }
}

impl LineTable for Lines {
    fn locate(&self, pc: u64) -> Option<String> {
        self.table.get_or_init(|| elf::Lines::parse(&self.debug()?, self.addr).ok()).as_ref()?.locate(pc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_image_is_accepted() {
        let image = Image::select(None).unwrap();
        assert!(!image.bytes().is_empty() && image.elf.build_id.is_some());
    }

    #[test]
    fn no_truncation_passes_or_panics() {
        let whole = Image::parse(EMBEDDED).unwrap();
        for len in (0..EMBEDDED.len()).step_by(997) {
            // Section headers, at the end of the file, are not needed: what parses must be the whole image.
            if let Ok(image) = Image::parse(&EMBEDDED[..len]) {
                assert_eq!(image.elf, whole.elf);
            }
        }
    }

    #[test]
    fn foreign_files_are_named() {
        let refusal = |data: &[u8]| Image::parse(data).unwrap_err().to_string();
        assert_eq!(refusal(b"MZ"), "the file is no 64-bit ELF file");
        let mut other = EMBEDDED.to_vec();
        other[18] = 62; // e_machine: x86-64
        assert_eq!(refusal(&other), "the ELF file is not for RISC-V");
        let text = [*b"ET\0\0", ET_IMAGE_ABI.to_le_bytes()].concat();
        let note = EMBEDDED.windows(8).position(|bytes| bytes == text).unwrap();
        other = EMBEDDED.to_vec();
        other[note + 4] = 99;
        assert!(refusal(&other).starts_with("it speaks version 99 of the command format"));
        other[note] = b'X';
        assert_eq!(refusal(&other), "it is not an image of this plugin's kernels");
    }
}
