//! Memory that code is written to and then run from, never both at once.

use std::io;
use std::ptr::{self, NonNull};

/// A mapping of executable pages, filled from the bottom.
#[derive(Debug)]
pub(super) struct Buffer {
    base: NonNull<u8>,
    used: usize,
}

// SAFETY: the mapping belongs to this value alone, and neither knows threads.
unsafe impl Send for Buffer {}

const PAGE: usize = 4096;

impl Buffer {
    /// Bytes of code that fit; host memory is taken as they are used.
    pub const SIZE: usize = 4 << 20;

    /// An empty buffer. Fails where the host allows no such memory.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                Self::SIZE,
                libc::PROT_READ | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Buffer { base, used: 0 })
    }

    /// Where the next code will be.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Forgets all code but the first `keep` bytes.
    pub fn truncate(&mut self, keep: usize) {
        self.used = self.used.min(keep);
    }

    /// The address of the code at `offset`.
    pub fn address(&self, offset: usize) -> *const u8 {
        assert!(offset <= Self::SIZE);
        // SAFETY: inside the mapping, or at its end.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Appends code; the next will be aligned. `None` when it is full or the host refuses.
    pub fn append(&mut self, code: &[u8]) -> Option<usize> {
        let start = self.used;
        let end = start.checked_add(code.len()).filter(|&end| end <= Self::SIZE)?;
        let (first, last) = (start / PAGE * PAGE, end.next_multiple_of(PAGE));
        let protect = |access| {
            // SAFETY: the pages are part of this mapping, and no code in them is running: whoever runs it borrows `self`.
            unsafe { libc::mprotect(self.base.as_ptr().add(first).cast(), last - first, access) == 0 }
        };
        if !protect(libc::PROT_READ | libc::PROT_WRITE) {
            return None;
        }
        // SAFETY: start..end is inside the mapping and writable now; `code` lies elsewhere.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), self.base.as_ptr().add(start), code.len()) };
        if !protect(libc::PROT_READ | libc::PROT_EXEC) {
            return None;
        }
        self.used = end.next_multiple_of(16).min(Self::SIZE);
        Some(start)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new`, and nothing can use it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), Self::SIZE) };
    }
}
