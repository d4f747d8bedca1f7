//! Disassembly with source lines.

use crate::{files, Verdict};
use anyhow::{bail, Context, Result};
use et_emulator::capture::MANIFEST;
use et_emulator::elf::{Image, Lines};
use et_emulator::LineTable;
use et_isa::{is_compressed, Insn};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use std::fmt::Write;
use std::path::Path;

pub fn disassemble(path: &Path, function: Option<&str>) -> Result<Verdict> {
    let (data, address) = if path.join(MANIFEST).exists() {
        let image = files::read(path)?.images.into_iter().next();
        let image = image.with_context(|| format!("{} has no image", path.display()))?;
        (image.data, Some(image.address))
    } else {
        (std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?, None)
    };
    print!("{}", text(&data, address, function).with_context(|| format!("{}", path.display()))?);
    Ok(Verdict::Good)
}

/// The code of an ELF file whose image lies at `address` (or where it was linked), whole or of one function.
fn text(data: &[u8], address: Option<u64>, function: Option<&str>) -> Result<String> {
    let base = Image::parse(data)?.base();
    let displacement = address.unwrap_or(base).wrapping_sub(base);
    let lines = Lines::parse(data, base).ok();
    let file = object::File::parse(data)?;
    let mut symbols: Vec<(u64, u64, &str)> = file
        .symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?)))
        .filter(|(_, _, name)| !name.is_empty() && !name.starts_with(['.', '$']))
        .collect();
    symbols.sort_unstable();
    let range = match function {
        None => 0..u64::MAX,
        Some(name) => match symbols.iter().find(|symbol| symbol.2 == name) {
            Some(&(start, size, _)) => start..start + size.max(4),
            None if symbols.is_empty() => bail!("there are no symbols in it, so no function '{name}'"),
            None => bail!("there is no function '{name}' in it"),
        },
    };
    let mut out = String::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let code = section.data()?;
        let mut place = None;
        let mut offset = 0;
        while offset + 2 <= code.len() {
            let pc = section.address() + offset as u64;
            let low = u16::from_le_bytes([code[offset], code[offset + 1]]);
            let (word, len) = match code.get(offset + 2..offset + 4) {
                Some(high) if !is_compressed(low) => {
                    (u32::from(u16::from_le_bytes([high[0], high[1]])) << 16 | u32::from(low), 4)
                }
                _ => (low.into(), 2),
            };
            offset += len;
            if !range.contains(&pc) {
                continue;
            }
            for (_, _, name) in symbols.iter().filter(|symbol| symbol.0 == pc) {
                writeln!(out, "\n{name}:")?;
            }
            let now = lines.as_ref().and_then(|lines| lines.locate(pc));
            if now.is_some() && now != place {
                writeln!(out, "  ; {}", now.as_deref().unwrap_or_default())?;
                place = now;
            }
            let pc = pc.wrapping_add(displacement);
            match (Insn::decode(word), len) {
                (Some(insn), 4) => writeln!(out, "{pc:>12x}: {word:08x}  {insn}")?,
                (Some(insn), _) => writeln!(out, "{pc:>12x}: {word:04x}      {insn}")?,
                (None, _) => writeln!(out, "{pc:>12x}: {word:08x}  (no instruction of the chip)")?,
            }
        }
    }
    Ok(out)
}
