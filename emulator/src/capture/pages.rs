//! Sets of memory pages, and the files that hold them.

use super::{Damage, Result};
use crate::hex;
use miniz_oxide::{deflate, inflate};
use serde::{Deserialize, Serialize};

/// Bytes in a page.
pub const PAGE: usize = 4096;

/// Pages in one compressed piece of a file, at most.
const RUN_PAGES: usize = 256;

/// zlib's fastest: most of what kernels read are weights, which hardly shrink.
const LEVEL: u8 = 1;

/// Contents of pages, by ascending address. An address is a physical one: of DRAM, or of a shire's L2 scratchpad in the
/// format 0x80000000 | shire << 23.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    addresses: Vec<u64>,
    bytes: Vec<u8>,
}

impl Pages {
    /// Adds a page behind those that are there.
    ///
    /// # Panics
    /// If it is not above them, or not a page's address and size.
    pub fn push(&mut self, addr: u64, bytes: &[u8]) {
        assert!(self.addresses.last().is_none_or(|&last| last < addr), "pages come in ascending order");
        assert!(addr.is_multiple_of(PAGE as u64) && bytes.len() == PAGE);
        self.addresses.push(addr);
        self.bytes.extend_from_slice(bytes);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Address and contents of each.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.addresses.iter().copied().zip(self.bytes.chunks_exact(PAGE))
    }

    /// The contents of the page at `addr`.
    pub fn get(&self, addr: u64) -> Option<&[u8]> {
        let place = self.addresses.binary_search(&addr).ok()?;
        self.bytes.get(place * PAGE..(place + 1) * PAGE)
    }

    /// Takes them to a file's contents and its index.
    pub(super) fn pack(&self, file: &str) -> (Vec<u8>, PageFile) {
        let mut packed = Vec::new();
        let mut runs = Vec::new();
        let mut first = 0;
        while first < self.len() {
            let start = self.addresses[first];
            let follows = |&(i, &addr): &(usize, &u64)| i < RUN_PAGES && addr == start + (i * PAGE) as u64;
            let pages = self.addresses[first..].iter().enumerate().take_while(follows).count();
            let stream = deflate::compress_to_vec_zlib(&self.bytes[first * PAGE..(first + pages) * PAGE], LEVEL);
            runs.push(Run(start, pages as u32, stream.len() as u64));
            packed.extend(stream);
            first += pages;
        }
        (packed, PageFile { file: file.to_owned(), runs })
    }
}

/// Where pages are in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageFile {
    pub file: String,
    runs: Vec<Run>,
}

/// Neighbouring pages as one zlib stream: first address, pages, compressed bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run(#[serde(with = "hex")] u64, u32, u64);

impl PageFile {
    /// Takes the pages out of the file's contents.
    pub fn unpack(&self, packed: &[u8]) -> Result<Pages, Damage> {
        let mut pages = Pages::default();
        let mut rest = packed;
        for &Run(start, count, len) in &self.runs {
            let size = count as usize * PAGE;
            let ascends = pages.addresses.last().is_none_or(|&last| last < start);
            let ends = start.checked_add(size as u64).is_some();
            if !start.is_multiple_of(PAGE as u64) || !(1..=RUN_PAGES).contains(&(count as usize)) || !ascends || !ends {
                return Err(Damage::Index(start));
            }
            let stream = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
            let (stream, behind) = stream.ok_or(Damage::Short)?;
            rest = behind;
            let bytes = inflate::decompress_to_vec_zlib_with_limit(stream, size).map_err(|_| Damage::Stream(start))?;
            if bytes.len() != size {
                return Err(Damage::Stream(start));
            }
            pages.addresses.extend((0..u64::from(count)).map(|i| start + i * PAGE as u64));
            pages.bytes.extend(bytes);
        }
        if rest.is_empty() {
            Ok(pages)
        } else {
            Err(Damage::Long)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Pages {
        let mut pages = Pages::default();
        for i in 0..300u64 {
            pages.push(0x80_0600_0000 + i * 4096, &[i as u8; PAGE]);
        }
        let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 13) as u8).collect();
        pages.push(0x80_0700_0000, &noise);
        pages
    }

    #[test]
    fn pages_come_back() {
        let (packed, index) = pages().pack("x");
        assert_eq!(index.runs.iter().map(|run| run.1).collect::<Vec<_>>(), [256, 44, 1]);
        assert_eq!(index.unpack(&packed), Ok(pages()));
        let (nothing, index) = Pages::default().pack("x");
        assert_eq!((nothing.len(), index.unpack(&[])), (0, Ok(Pages::default())));
        assert_eq!(pages().get(0x80_0600_1000).map(|page| page[7]), Some(1));
        assert_eq!(pages().get(0x80_0500_0000), None);
    }

    #[test]
    fn no_damage_passes() {
        let (packed, index) = pages().pack("x");
        for at in (0..packed.len()).step_by(13) {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x20;
            let unpacked = index.unpack(&damaged);
            assert!(unpacked.is_err() || unpacked == Ok(pages()), "byte {at}");
        }
        assert_eq!(index.unpack(&packed[..packed.len() - 1]), Err(Damage::Short));
        assert_eq!(index.unpack(&[&packed[..], &[0]].concat()), Err(Damage::Long));
        for wrong in [Run(1, 1, 5), Run(0, 0, 5), Run(0, 257, 5), Run(u64::MAX - 4095, 1, 5)] {
            let index = PageFile { runs: vec![wrong.clone()], ..index.clone() };
            assert_eq!(index.unpack(&packed), Err(Damage::Index(wrong.0)));
        }
        let twice = PageFile { runs: vec![index.runs[0].clone(), index.runs[0].clone()], ..index.clone() };
        assert_eq!(twice.unpack(&packed), Err(Damage::Index(0x80_0600_0000)));
    }
}
