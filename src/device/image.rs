//! The device image: the program that every launch runs.

use crate::command::ET_IMAGE_ABI;
use anyhow::{anyhow, bail, Context, Result};
use object::elf::{FileHeader64, EM_RISCV, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::LittleEndian;
use std::path::Path;

/// The image that was built with the plugin.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/et_kernels.elf"));

/// A file of this name in `GGML_ET_KERNELS_PATH` replaces the embedded image.
pub const FILE_NAME: &str = "et-kernels.elf";

/// A checked image, ready to be copied to the device. Its code is position-independent.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    /// The bytes of all segments, from the lowest address on.
    pub bytes: Vec<u8>,
    /// Offset of the first instruction.
    pub entry: u64,
    /// Link address of `bytes[0]`, for line tables.
    pub base: u64,
    /// The linker's fingerprint of the image; finds its line table.
    pub build_id: Vec<u8>,
}

impl Image {
    /// The image in use: from the directory that the user named, else the embedded one.
    pub fn select(directory: Option<&Path>) -> Result<Image> {
        if let Some(directory) = directory {
            let path = directory.join(FILE_NAME);
            match std::fs::read(&path) {
                Ok(data) => {
                    return Image::parse(&data).with_context(|| format!("{} is refused", path.display()));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    log::warn!("{} does not exist: the embedded device image is used", path.display());
                }
                Err(error) => return Err(anyhow!("can't read {}: {error}", path.display())),
            }
        }
        Image::parse(EMBEDDED).context("the embedded device image is damaged")
    }

    /// Checks an ELF file and takes its segments.
    pub fn parse(data: &[u8]) -> Result<Image> {
        let header = FileHeader64::<LittleEndian>::parse(data).map_err(|_| anyhow!("it is no 64-bit ELF file"))?;
        let endian = LittleEndian;
        if header.e_machine(endian) != EM_RISCV {
            bail!("it is not for RISC-V");
        }
        let damaged = |_| anyhow!("it is damaged");
        let segments = header.program_headers(endian, data).map_err(damaged)?;
        let loads = || segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD);
        let base = loads().map(|segment| segment.p_vaddr(endian)).min().ok_or_else(|| anyhow!("it holds no code"))?;
        let end = loads()
            .map(|segment| segment.p_vaddr(endian).saturating_add(segment.p_memsz(endian)))
            .max()
            .unwrap_or(base);
        let size = usize::try_from(end - base).ok().filter(|&size| size <= 64 << 20).context("it is damaged")?;
        let mut bytes = vec![0; size];
        for segment in loads() {
            let content = segment.data(endian, data).map_err(|()| anyhow!("it is truncated"))?;
            let at = (segment.p_vaddr(endian) - base) as usize;
            bytes.get_mut(at..at + content.len()).context("it is damaged")?.copy_from_slice(content);
        }
        let (mut abi, mut build_id) = (None, Vec::new());
        for segment in segments {
            let Some(mut notes) = segment.notes(endian, data).map_err(|_| anyhow!("it is truncated"))? else {
                continue;
            };
            while let Some(note) = notes.next().map_err(damaged)? {
                match (note.name(), note.n_type(endian)) {
                    (b"ET", 1) => abi = note.desc().try_into().ok().map(u32::from_le_bytes),
                    (b"GNU", object::elf::NT_GNU_BUILD_ID) => build_id = note.desc().to_vec(),
                    _ => {}
                }
            }
        }
        match abi {
            Some(ET_IMAGE_ABI) => {}
            Some(other) => bail!("it speaks version {other} of the command format, this plugin version {ET_IMAGE_ABI}"),
            None => bail!("it is not an image of this plugin's kernels"),
        }
        let entry = header.e_entry(endian).wrapping_sub(base);
        if entry >= size as u64 {
            bail!("it is damaged");
        }
        Ok(Image { bytes, entry, base, build_id })
    }
}

/// Source lines of the image, from the file with debug information that the build leaves beside the plugin.
pub struct Lines {}

impl Lines {
    /// The line table of `image`, which was loaded at device address `loaded`; `None` when there is none.
    pub fn find(_image: &Image, _loaded: u64) -> Option<Lines> {
        None
    }

    /// The place of the instruction at device address `pc`.
    pub fn locate(&self, _pc: u64) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_image_is_accepted() {
        let image = Image::select(None).unwrap();
        assert!(!image.bytes.is_empty() && !image.build_id.is_empty());
    }

    #[test]
    fn no_truncation_passes_or_panics() {
        for len in (0..EMBEDDED.len()).step_by(997) {
            // Section headers, at the end of the file, are not needed: what parses must be the whole image.
            if let Ok(image) = Image::parse(&EMBEDDED[..len]) {
                assert_eq!(image, Image::parse(EMBEDDED).unwrap());
            }
        }
    }

    #[test]
    fn foreign_files_are_named() {
        assert_eq!(Image::parse(b"MZ").unwrap_err().to_string(), "it is no 64-bit ELF file");
        let mut other = EMBEDDED.to_vec();
        other[18] = 62; // e_machine: x86-64
        assert_eq!(Image::parse(&other).unwrap_err().to_string(), "it is not for RISC-V");
    }
}
