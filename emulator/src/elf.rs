//! ELF files: kernel images to load, and the line tables of their debug versions.

use crate::machine::{AccessError, LineTable, Machine};
use addr2line::Context;
use gimli::{EndianArcSlice, LittleEndian, SectionId};
use object::elf::{FileHeader64, EM_RISCV, NT_GNU_BUILD_ID, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSection};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A kernel image: a static RV64 ELF file, taken apart. Position-independent images may be placed anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What is to be loaded, in file order.
    pub segments: Vec<Segment>,
    /// Link address of the first instruction.
    pub entry: u64,
    /// The linker's fingerprint, if it left one.
    pub build_id: Option<Vec<u8>>,
}

/// A loadable piece of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Link address.
    pub addr: u64,
    /// Contents from the file.
    pub data: Vec<u8>,
    /// Bytes in memory, at least `data.len()`; the rest is zero.
    pub size: u64,
}

/// Why a file is not a usable image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// No 64-bit little-endian ELF file.
    NotElf,
    /// For another processor.
    NotRiscv,
    /// Truncated or inconsistent.
    Damaged,
    /// Nothing to load.
    Empty,
    /// No debug information.
    NoLines,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageError::NotElf => "the file is no 64-bit ELF file",
            ImageError::NotRiscv => "the ELF file is not for RISC-V",
            ImageError::Damaged => "the ELF file is damaged",
            ImageError::Empty => "the ELF file holds nothing to load",
            ImageError::NoLines => "the ELF file holds no debug information",
        })
    }
}

impl std::error::Error for ImageError {}

impl Image {
    /// Takes an ELF file apart.
    pub fn parse(data: &[u8]) -> Result<Image, ImageError> {
        let header = FileHeader64::<object::LittleEndian>::parse(data).map_err(|_| ImageError::NotElf)?;
        let endian = header.endian().map_err(|_| ImageError::NotElf)?;
        if header.e_machine(endian) != EM_RISCV {
            return Err(ImageError::NotRiscv);
        }
        let headers = header.program_headers(endian, data).map_err(|_| ImageError::Damaged)?;
        // Linkers put this table at the end: a file that was cut short may have all its segments and not this.
        header.section_headers(endian, data).map_err(|_| ImageError::Damaged)?;
        let mut image = Image { segments: Vec::new(), entry: header.e_entry(endian), build_id: None };
        for header in headers {
            if header.p_type(endian) == PT_LOAD {
                let content = header.data(endian, data).map_err(|()| ImageError::Damaged)?;
                let (addr, size) = (header.p_vaddr(endian), header.p_memsz(endian));
                if size < content.len() as u64 || addr.checked_add(size).is_none() {
                    return Err(ImageError::Damaged);
                }
                image.segments.push(Segment { addr, data: content.to_vec(), size });
            }
            if let Some(mut notes) = header.notes(endian, data).map_err(|_| ImageError::Damaged)? {
                while let Some(note) = notes.next().map_err(|_| ImageError::Damaged)? {
                    if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
                        image.build_id = Some(note.desc().to_vec());
                    }
                }
            }
        }
        if image.segments.iter().all(|segment| segment.size == 0) {
            return Err(ImageError::Empty);
        }
        Ok(image)
    }

    /// The lowest link address.
    pub fn base(&self) -> u64 {
        self.segments.iter().map(|segment| segment.addr).min().unwrap_or(0)
    }

    /// Bytes from [`base`](Self::base) to the end of the last segment.
    pub fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.addr + segment.size).max().unwrap_or(0) - self.base()
    }

    /// Copies the image to device memory, its base at `addr`, and gives the address of the first instruction.
    pub fn place(&self, machine: &Machine, addr: u64) -> Result<u64, AccessError> {
        let displacement = addr.wrapping_sub(self.base());
        for segment in &self.segments {
            let at = segment.addr.wrapping_add(displacement);
            let len = segment.data.len() as u64;
            machine.write(at, &segment.data)?;
            machine.fill(at.wrapping_add(len), segment.size - len, 0)?;
        }
        Ok(self.entry.wrapping_add(displacement))
    }

    /// Whether code of the image reads floating-point flags, so that a launch needs them exact.
    pub fn reads_flags(&self) -> bool {
        self.segments.iter().any(|segment| crate::exec::code_reads_flags(&segment.data))
    }
}

type Reader = EndianArcSlice<LittleEndian>;

/// The line table of an image with debug information.
pub struct Lines {
    /// The context caches what it has parsed, in cells.
    context: Mutex<Context<Reader>>,
    displacement: u64,
}

impl Lines {
    /// Reads the debug information of an ELF file whose image was placed with its base at `addr`.
    pub fn parse(data: &[u8], addr: u64) -> Result<Lines, ImageError> {
        let base = Image::parse(data)?.base();
        let file = object::File::parse(data).map_err(|_| ImageError::Damaged)?;
        if file.section_by_name(SectionId::DebugInfo.name()).is_none() {
            return Err(ImageError::NoLines);
        }
        let section = |id: SectionId| -> Result<Reader, ImageError> {
            let content = match file.section_by_name(id.name()) {
                Some(section) => section.uncompressed_data().map_err(|_| ImageError::Damaged)?,
                None => Default::default(),
            };
            Ok(Reader::new(Arc::from(&*content), LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section)?;
        let context = Context::from_dwarf(dwarf).map_err(|_| ImageError::Damaged)?;
        Ok(Lines { context: Mutex::new(context), displacement: addr.wrapping_sub(base) })
    }
}

impl LineTable for Lines {
    /// Innermost function first; callers into which it was inlined follow, like
    /// `dot at math.h:9, inlined into norm_row at rms_norm.c:41`.
    fn locate(&self, pc: u64) -> Option<String> {
        let context = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        let mut frames = context.find_frames(pc.wrapping_sub(self.displacement)).skip_all_loads().ok()?;
        let mut text = String::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|name| Some(name.raw_name().ok()?.into_owned()));
            let place = frame.location.and_then(|place| {
                let file = place.file?.rsplit('/').next()?.to_owned();
                Some(match place.line {
                    Some(line) => format!("{file}:{line}"),
                    None => file,
                })
            });
            let words = match (name, place) {
                (Some(name), Some(place)) => format!("{name} at {place}"),
                (Some(word), None) | (None, Some(word)) => word,
                (None, None) => continue,
            };
            if !text.is_empty() {
                text.push_str(", inlined into ");
            }
            text.push_str(&words);
        }
        (!text.is_empty()).then_some(text)
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("displacement", &self.displacement).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one segment of code at 0x1000 (4 of 16 bytes from the file) and a build id.
    fn file() -> Vec<u8> {
        let mut data = Vec::new();
        let half = |data: &mut Vec<u8>, value: u16| data.extend(value.to_le_bytes());
        let word = |data: &mut Vec<u8>, value: u32| data.extend(value.to_le_bytes());
        let long = |data: &mut Vec<u8>, value: u64| data.extend(value.to_le_bytes());
        data.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        [2, EM_RISCV.0].into_iter().for_each(|value| half(&mut data, value));
        word(&mut data, 1);
        [0x1004, 64, 0].into_iter().for_each(|value| long(&mut data, value));
        word(&mut data, 0);
        [64, 56, 2, 64, 0, 0].into_iter().for_each(|value| half(&mut data, value));
        for (kind, offset, addr, in_file, in_memory) in [(1, 200, 0x1000, 4, 16), (4, 176, 0, 20, 20)] {
            word(&mut data, kind);
            word(&mut data, 5);
            [offset, addr, addr, in_file, in_memory, 4].into_iter().for_each(|value| long(&mut data, value));
        }
        [4, 4, 3].into_iter().for_each(|value| word(&mut data, value));
        data.extend(b"GNU\0\x01\x02\x03\x04\0\0\0\0\x11\x22\x33\x44");
        data
    }

    #[test]
    fn a_file_is_taken_apart() {
        let image = Image::parse(&file()).unwrap();
        assert_eq!((image.entry, image.base(), image.size()), (0x1004, 0x1000, 16));
        assert_eq!(image.segments, [Segment { addr: 0x1000, data: vec![0x11, 0x22, 0x33, 0x44], size: 16 }]);
        assert_eq!(image.build_id.as_deref(), Some(&[1, 2, 3, 4][..]));
        assert!(matches!(Lines::parse(&file(), 0), Err(ImageError::NoLines | ImageError::Damaged)));
    }

    #[test]
    fn an_image_is_placed_with_zeros_behind_it() {
        let machine = Machine::new(crate::Config { dram_bytes: 256 << 20, ..crate::Config::default() }).unwrap();
        let base = machine.dram().start + 4096;
        machine.fill(base, 32, 0xFF).unwrap();
        assert_eq!(Image::parse(&file()).unwrap().place(&machine, base), Ok(base + 4));
        let mut bytes = [0; 17];
        machine.read(base, &mut bytes).unwrap();
        assert_eq!(bytes, [0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF]);
        assert!(Image::parse(&file()).unwrap().place(&machine, 0).is_err());
    }

    #[test]
    fn bad_files_are_refused() {
        let file = file();
        assert_eq!(Image::parse(b"hello"), Err(ImageError::NotElf));
        for len in 0..file.len() {
            assert!(Image::parse(&file[..len]).is_err(), "{len} bytes");
        }
        let mut other = file.clone();
        other[18] = 62;
        assert_eq!(Image::parse(&other), Err(ImageError::NotRiscv));
        let mut shrunk = file.clone();
        shrunk[64 + 40] = 3; // less memory than file contents
        assert_eq!(Image::parse(&shrunk), Err(ImageError::Damaged));
        let mut nothing = file;
        nothing[64] = 6;
        assert_eq!(Image::parse(&nothing), Err(ImageError::Empty));
    }
}
