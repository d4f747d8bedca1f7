//! The only raw memory access of the emulator: bytes shared by host threads that run guest code.
//!
//! Guest programs may race, and a race must not harm the host. Nothing here ever forms a Rust reference to guest
//! memory that outlives an access, every access is bounds-checked, and no value read is trusted. Aligned accesses
//! of up to 8 bytes are host atomics. Wider and misaligned ones are plain copies: no host atomic exists for them,
//! and a torn value is what the chip gives, too.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};

/// A zeroed anonymous mapping. Pages take host memory when first written; huge ones where the host has them, since a model's
/// weights are far more pages than its translation buffers hold.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain bytes, valid until drop, which takes `&mut self`; shared access goes through the methods below.
unsafe impl Send for Mapping {}
// SAFETY: as above; concurrent accesses are the subject of the module comment.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes (above 0).
    pub fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: advice about the mapping just made, which changes no contents. Hosts that can't follow it refuse.
        unsafe { libc::madvise(base, len, libc::MADV_HUGEPAGE) };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    /// Size in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of `N` bytes at `offset`, if they are inside.
    #[inline(always)]
    fn at<const N: usize>(&self, offset: u64) -> Option<*mut u8> {
        if offset <= (self.len as u64).wrapping_sub(N as u64) && N <= self.len {
            // SAFETY: offset + N <= len, so the address is inside the mapping.
            Some(unsafe { self.base.as_ptr().add(offset as usize) })
        } else {
            None
        }
    }

    /// Reads `N` bytes; `None` when they are not all inside.
    #[inline(always)]
    pub fn load<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let at = self.at::<N>(offset)?;
        let mut bytes = [0; N];
        // SAFETY: `at` points to N bytes of the mapping (its base is page aligned, so an aligned offset is an aligned
        // pointer); atomics and copies of plain bytes have no other requirement.
        unsafe {
            match N {
                2 if offset.is_multiple_of(2) => {
                    bytes.copy_from_slice(&AtomicU16::from_ptr(at.cast()).load(Ordering::Relaxed).to_ne_bytes());
                }
                4 if offset.is_multiple_of(4) => {
                    bytes.copy_from_slice(&AtomicU32::from_ptr(at.cast()).load(Ordering::Relaxed).to_ne_bytes());
                }
                8 if offset.is_multiple_of(8) => {
                    bytes.copy_from_slice(&AtomicU64::from_ptr(at.cast()).load(Ordering::Relaxed).to_ne_bytes());
                }
                _ => ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), N),
            }
        }
        Some(bytes)
    }

    /// Writes `N` bytes; `None` when they are not all inside.
    #[inline(always)]
    pub fn store<const N: usize>(&self, offset: u64, data: [u8; N]) -> Option<()> {
        let at = self.at::<N>(offset)?;
        // SAFETY: as in `load`.
        unsafe {
            match N {
                1 => AtomicU8::from_ptr(at).store(data[0], Ordering::Relaxed),
                2 if offset.is_multiple_of(2) => {
                    let value = u16::from_ne_bytes([data[0], data[1 % N]]);
                    AtomicU16::from_ptr(at.cast()).store(value, Ordering::Relaxed);
                }
                4 if offset.is_multiple_of(4) => {
                    let value = u32::from_ne_bytes(std::array::from_fn(|i| data[i % N]));
                    AtomicU32::from_ptr(at.cast()).store(value, Ordering::Relaxed);
                }
                8 if offset.is_multiple_of(8) => {
                    let value = u64::from_ne_bytes(std::array::from_fn(|i| data[i % N]));
                    AtomicU64::from_ptr(at.cast()).store(value, Ordering::Relaxed);
                }
                _ => ptr::copy_nonoverlapping(data.as_ptr(), at, N),
            }
        }
        Some(())
    }

    /// The aligned 32-bit word at `offset` as an atomic; `None` when misaligned or outside.
    #[inline]
    pub fn word(&self, offset: u64) -> Option<&AtomicU32> {
        let at = self.at::<4>(offset).filter(|_| offset.is_multiple_of(4))?;
        // SAFETY: inside the mapping, aligned, and valid as long as `self` is borrowed.
        Some(unsafe { AtomicU32::from_ptr(at.cast()) })
    }

    /// The aligned 64-bit word at `offset` as an atomic; `None` when misaligned or outside.
    #[inline]
    pub fn double(&self, offset: u64) -> Option<&AtomicU64> {
        let at = self.at::<8>(offset).filter(|_| offset.is_multiple_of(8))?;
        // SAFETY: inside the mapping, aligned, and valid as long as `self` is borrowed.
        Some(unsafe { AtomicU64::from_ptr(at.cast()) })
    }

    /// The start of `len` bytes at `offset`, if they are inside.
    fn span(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let end = usize::try_from(offset).ok()?.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: offset + len <= self.len.
        Some(unsafe { self.base.as_ptr().add(offset as usize) })
    }

    /// Reads `out.len()` bytes for the host.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Option<()> {
        let at = self.span(offset, out.len())?;
        // SAFETY: the span is inside the mapping and `out` is not guest memory.
        unsafe { ptr::copy_nonoverlapping(at, out.as_mut_ptr(), out.len()) };
        Some(())
    }

    /// Writes `data` for the host.
    pub fn write(&self, offset: u64, data: &[u8]) -> Option<()> {
        let at = self.span(offset, data.len())?;
        // SAFETY: the span is inside the mapping and `data` is not guest memory.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), at, data.len()) };
        Some(())
    }

    /// The start of `rows` pieces of `len` bytes, `stride` apart from `offset` on, if they are all inside.
    #[inline(always)]
    fn pieces(&self, offset: u64, stride: u64, rows: usize, len: u64) -> Option<*mut u8> {
        let last = stride.checked_mul((rows as u64).checked_sub(1)?)?;
        let end = offset.checked_add(last)?.checked_add(len)?;
        // SAFETY: offset < end <= self.len.
        (end <= self.len as u64).then(|| unsafe { self.base.as_ptr().add(offset as usize) })
    }

    /// Reads pieces of `N` words, `stride` bytes apart from `offset` on, one for each row; `None`, with nothing read, when
    /// they are not all inside.
    #[inline(always)]
    pub fn load_rows<T, const N: usize>(
        &self,
        offset: u64,
        stride: u64,
        rows: &mut [T],
        words: impl Fn(&mut T) -> &mut [u32; N],
    ) -> Option<()> {
        let mut piece = self.pieces(offset, stride, rows.len(), 4 * N as u64)?;
        for row in rows {
            let row = words(row);
            // SAFETY: there is a piece inside the mapping for each row, and a row is as long and not guest memory.
            unsafe { ptr::copy_nonoverlapping(piece, row.as_mut_ptr().cast(), 4 * N) };
            *row = row.map(u32::from_le);
            piece = piece.wrapping_add(stride as usize);
        }
        Some(())
    }

    /// Writes pieces of two times `N` words likewise.
    #[inline(always)]
    pub fn store_rows<T, const N: usize>(
        &self,
        offset: u64,
        stride: u64,
        rows: &[[T; 2]],
        words: impl Fn(&T) -> &[u32; N],
    ) -> Option<()> {
        let mut piece = self.pieces(offset, stride, rows.len(), 8 * N as u64)?;
        for [first, second] in rows {
            let (first, second) = (words(first).map(u32::to_le), words(second).map(u32::to_le));
            // SAFETY: there is a piece inside the mapping for each row; it has two halves of N words.
            unsafe {
                ptr::copy_nonoverlapping(first.as_ptr().cast(), piece, 4 * N);
                ptr::copy_nonoverlapping(second.as_ptr().cast(), piece.add(4 * N), 4 * N);
            }
            piece = piece.wrapping_add(stride as usize);
        }
        Some(())
    }

    /// Moves bytes inside the mapping; the ranges may overlap.
    pub fn copy(&self, to: u64, from: u64, len: usize) -> Option<()> {
        let source = self.span(from, len)?;
        let target = self.span(to, len)?;
        // SAFETY: both spans are inside the mapping; `copy` allows overlap.
        unsafe { ptr::copy(source, target, len) };
        Some(())
    }

    /// Sets `len` bytes to `byte`. Whole pages set to 0 go back to the host.
    pub fn fill(&self, offset: u64, len: usize, byte: u8) -> Option<()> {
        const PAGE: usize = 4096;
        let at = self.span(offset, len)?;
        let head = at.align_offset(PAGE).min(len);
        let pages = (len - head) / PAGE * PAGE;
        // SAFETY: all three pieces are inside the span. The middle one is whole pages (PAGE divides every host page size
        // that `madvise` could complain about, in which case it is written instead), and a private anonymous page reads
        // as zero after MADV_DONTNEED.
        unsafe {
            if byte != 0 || pages == 0 || libc::madvise(at.add(head).cast(), pages, libc::MADV_DONTNEED) != 0 {
                ptr::write_bytes(at, byte, len);
            } else {
                ptr::write_bytes(at, 0, head);
                ptr::write_bytes(at.add(head + pages), 0, len - head - pages);
            }
        }
        Some(())
    }
}

/// A range of guest addresses that is plain bytes of a mapping, for code that accesses them itself.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    guest: u64,
    host: *mut u8,
    len: u64,
}

impl Window {
    /// The `len` bytes at `offset` of a mapping, seen at address `guest`; `None` when they are not all inside.
    pub fn new(guest: u64, mapping: &Mapping, offset: u64, len: u64) -> Option<Window> {
        let host = mapping.span(offset, usize::try_from(len).ok()?)?;
        Some(Window { guest, host, len })
    }

    /// Its first address.
    pub fn guest(&self) -> u64 {
        self.guest
    }

    /// Where its first byte is.
    pub fn host(&self) -> *mut u8 {
        self.host
    }

    /// Its size in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and len describe the mapping made in `new`, and nothing can use it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_bounded() {
        let memory = Mapping::new(4096).unwrap();
        assert_eq!(memory.store(4088, [1u8; 8]), Some(()));
        assert_eq!(memory.store(4089, [1u8; 8]), None);
        assert_eq!(memory.load::<4>(4092), Some([1; 4]));
        assert_eq!(memory.load::<4>(4093), None);
        assert_eq!(memory.load::<1>(u64::MAX), None);
        assert_eq!(memory.read(4090, &mut [0; 7]), None);
        assert!(memory.word(2).is_none() && memory.double(4092).is_none());
    }

    #[test]
    fn sizes_and_alignments_agree() {
        let memory = Mapping::new(4096).unwrap();
        for offset in 0..9 {
            memory.store(offset, [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
            assert_eq!(memory.load::<2>(offset + 1), Some([2, 3]));
            assert_eq!(memory.load::<4>(offset + 3), Some([4, 5, 6, 7]));
            memory.store(offset + 1, [9u8]).unwrap();
            memory.store(offset + 2, [10u8, 11]).unwrap();
            memory.store(offset + 4, [12u8, 13, 14, 15]).unwrap();
            assert_eq!(memory.load::<8>(offset), Some([1, 9, 10, 11, 12, 13, 14, 15]));
        }
    }

    #[test]
    fn fill_covers_exactly_its_range() {
        let memory = Mapping::new(5 * 4096).unwrap();
        memory.fill(0, 5 * 4096, 7).unwrap();
        memory.fill(100, 4 * 4096, 0).unwrap();
        let mut all = vec![0; 5 * 4096];
        memory.read(0, &mut all).unwrap();
        for (i, &byte) in all.iter().enumerate() {
            let inside = (100..100 + 4 * 4096).contains(&i);
            assert_eq!(byte, if inside { 0 } else { 7 }, "byte {i}");
        }
        memory.copy(90, 95, 20).unwrap();
        assert_eq!(memory.load::<8>(92), Some([7, 7, 7, 0, 0, 0, 0, 0]));
    }
}
