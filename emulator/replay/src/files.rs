//! Captures by the names that people give.

use anyhow::{Context, Result};
use et_emulator::capture::{Capture, MANIFEST};
use std::path::{Path, PathBuf};

/// The captures that `paths` name: a directory may be a capture or hold several.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if path.join(MANIFEST).exists() {
            all.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("can't read {}", path.display()))?;
        let mut inside: Vec<_> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.join(MANIFEST).exists()).collect();
        inside.sort();
        if inside.is_empty() {
            // The library's words for a directory without a capture.
            read(path)?;
        }
        all.extend(inside);
    }
    Ok(all)
}

pub fn read(path: &Path) -> Result<Capture> {
    Ok(Capture::read(path)?)
}

/// 1234567 as "1,234,567".
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 shire", "2 shires".
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((counted(1, "page"), counted(2000, "page")), ("1 page".into(), "2,000 pages".into()));
    }
}
