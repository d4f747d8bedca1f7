//! Recording a launch: which pages it touches, what they held before, and what it made of them.

use super::entry::Entry;
use super::fast::Fast;
use super::launch::{Launch, LaunchError, Report};
use super::run::Run;
use super::scheduler::{self, Platforms};
use super::turn::Station;
use super::Machine;
use crate::capture::{Pages, PAGE};
use crate::hart::Hart;
use crate::memory::{region, Memory, Refusal, Region, OPEN_BASE, SCRATCHPAD_BASE, SCRATCHPAD_BYTES, SCRATCHPAD_STRIDE};
use crate::platform::{Atomic, Level, Outcome, Platform};
use crate::sync::WaitFor;
use crate::tensor::{CacheAction, Outside, Unit};
use crate::trap::Trap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The memory of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Every page that it read, wrote or executed, as it was before.
    pub before: Pages,
    /// Those that it changed, as they were after.
    pub after: Pages,
}

impl Machine {
    /// [`launch`](Self::launch) in fast mode, with the memory that it touched. Also what fails is recorded, up to there.
    pub fn record(&self, launch: &Launch<'_>) -> (Result<Report, LaunchError>, Recording) {
        let touched = Touched::new(&self.memory);
        let entry = |launch: &Launch<'_>| Entry::place(&self.memory, launch);
        let result = self.enter(launch, entry, |entry, workers| {
            // Code that is decoded already would not be fetched.
            workers.codes.iter_mut().for_each(|code| code.clear());
            scheduler::run(&self.memory, launch, entry, workers, &touched)
        });
        (result, touched.finish())
    }
}

/// The pages touched so far. DRAM's are counted first, then those of the scratchpads.
struct Touched<'a> {
    memory: &'a Memory,
    /// A bit for each page. Set when its contents are kept: whoever sees it set may write to the page.
    seen: Vec<AtomicU64>,
    dram_pages: u64,
    kept: Mutex<Kept>,
}

/// Numbers and contents.
#[derive(Default)]
struct Kept {
    pages: Vec<u64>,
    bytes: Vec<u8>,
}

impl<'a> Touched<'a> {
    fn new(memory: &'a Memory) -> Self {
        let pages = |bytes: usize| bytes.div_ceil(PAGE) as u64;
        let dram_pages = pages(memory.dram.len());
        let words = (dram_pages + pages(memory.scratchpads.len())).div_ceil(64);
        let seen = (0..words).map(|_| AtomicU64::new(0)).collect();
        Touched { memory, seen, dram_pages, kept: Mutex::default() }
    }

    /// An access of a hart of `shire` to `len` bytes.
    #[inline]
    fn touch(&self, shire: u32, addr: u64, len: u64) {
        self.byte(shire, addr);
        let last = addr.wrapping_add(len - 1);
        if last / PAGE as u64 != addr / PAGE as u64 {
            self.byte(shire, last);
        }
    }

    #[inline]
    fn byte(&self, shire: u32, addr: u64) {
        match self.memory.classify(shire, region::canonical(addr)) {
            Region::Dram(offset) => self.page(offset / PAGE as u64),
            Region::Scratchpad(offset) => self.scratchpad(offset),
            Region::Register(_) | Region::Missing | Region::Closed => {}
        }
    }

    fn scratchpad(&self, offset: u64) {
        self.page(self.dram_pages + offset / PAGE as u64);
    }

    #[inline]
    fn page(&self, page: u64) {
        if self.seen[(page / 64) as usize].load(Ordering::Acquire) >> (page % 64) & 1 == 0 {
            self.keep(page);
        }
    }

    #[cold]
    fn keep(&self, page: u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let word = &self.seen[(page / 64) as usize];
        if word.load(Ordering::Acquire) >> (page % 64) & 1 == 0 {
            let Kept { pages, bytes } = &mut *kept;
            pages.push(page);
            let at = bytes.len();
            bytes.resize(at + PAGE, 0);
            self.read(page, &mut bytes[at..]);
            word.fetch_or(1 << (page % 64), Ordering::Release);
        }
    }

    /// The present contents of a page.
    fn read(&self, page: u64, out: &mut [u8]) {
        let read = match page.checked_sub(self.dram_pages) {
            None => self.memory.dram.read(page * PAGE as u64, out),
            Some(page) => self.memory.scratchpads.read(page * PAGE as u64, out),
        };
        debug_assert!(read.is_some(), "memories are whole pages");
    }

    fn address(&self, page: u64) -> u64 {
        match page.checked_sub(self.dram_pages) {
            None => OPEN_BASE + page * PAGE as u64,
            Some(page) => {
                let offset = page * PAGE as u64;
                SCRATCHPAD_BASE + offset / SCRATCHPAD_BYTES * SCRATCHPAD_STRIDE + offset % SCRATCHPAD_BYTES
            }
        }
    }

    fn finish(self) -> Recording {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let contents = kept.bytes.chunks_exact(PAGE);
        let mut pages: Vec<_> =
            kept.pages.iter().zip(contents).map(|(&page, before)| (self.address(page), page, before)).collect();
        pages.sort_unstable_by_key(|&(addr, ..)| addr);
        let mut recording = Recording::default();
        let mut now = [0; PAGE];
        for (addr, page, before) in pages {
            recording.before.push(addr, before);
            self.read(page, &mut now);
            if now != before {
                recording.after.push(addr, &now);
            }
        }
        recording
    }
}

impl Platforms for Touched<'_> {
    type Station<'s>
        = Recorder<'s>
    where
        Self: 's;

    fn station<'s>(&'s self, run: &'s Run<'_>, unit: &'s mut Unit) -> Recorder<'s> {
        let flags = run.launch.exact_flags;
        Recorder { touched: self, fast: Fast::new(run.memory, self, &run.board, unit, flags) }
    }
}

/// The platform of fast mode, with every access noted first.
struct Recorder<'a> {
    touched: &'a Touched<'a>,
    fast: Fast<'a, &'a Touched<'a>>,
}

impl Platform for Recorder<'_> {
    fn load<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Trap> {
        self.touched.touch(shire(hart), addr, N as u64);
        self.fast.load(hart, level, addr)
    }

    fn store<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64, data: [u8; N]) -> Result<(), Trap> {
        self.touched.touch(shire(hart), addr, N as u64);
        self.fast.store(hart, level, addr, data)
    }

    fn atomic(
        &mut self,
        hart: &Hart,
        level: Level,
        addr: u64,
        wide: bool,
        op: Atomic,
        operand: u64,
    ) -> Result<u64, Trap> {
        self.touched.touch(shire(hart), addr, if wide { 8 } else { 4 });
        self.fast.atomic(hart, level, addr, wide, op, operand)
    }

    fn fetch(&mut self, addr: u64) -> Result<u16, Trap> {
        // Code is in DRAM, which looks the same from every shire.
        self.touched.touch(0, addr, 2);
        self.fast.fetch(addr)
    }

    fn csr_write(&mut self, hart: &mut Hart, csr: u16, value: u64) -> Result<Outcome, Trap> {
        self.fast.csr_write(hart, csr, value)
    }

    fn csr_read(&mut self, hart: &mut Hart, csr: u16) -> Result<Outcome, Trap> {
        self.fast.csr_read(hart, csr)
    }

    fn settle(&mut self, hart: &mut Hart) -> bool {
        self.fast.settle(hart)
    }
}

impl Station for Recorder<'_> {
    fn refresh(&mut self, hart: &mut Hart) {
        self.fast.refresh(hart);
    }

    fn waiting(&self) -> Option<WaitFor> {
        self.fast.waiting()
    }

    fn take_late(&mut self) -> Option<Trap> {
        self.fast.take_late()
    }
}

/// The tensor engine's accesses.
impl Outside for &Touched<'_> {
    fn classify(&self, shire: u32, addr: u64) -> Region {
        self.memory.classify(shire, addr)
    }

    fn read_block<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Refusal> {
        self.touch(shire(hart), addr, N as u64);
        Outside::read_block(&mut { self.memory }, hart, level, addr)
    }

    fn write_block<const N: usize>(&mut self, hart: &Hart, addr: u64, data: [u8; N]) -> Result<(), Refusal> {
        self.touch(shire(hart), addr, N as u64);
        Outside::write_block(&mut { self.memory }, hart, addr, data)
    }

    fn write_scratchpad(&mut self, hart: &Hart, offset: u64, line: [u8; 64]) {
        self.scratchpad(offset);
        Outside::write_scratchpad(&mut { self.memory }, hart, offset, line);
    }

    fn cache_line(&mut self, hart: &Hart, action: CacheAction, event: u64, level: u64, addr: u64) {
        if action == CacheAction::Lock {
            self.touch(shire(hart), addr, 64);
        }
        Outside::cache_line(&mut { self.memory }, hart, action, event, level, addr);
    }
}

fn shire(hart: &Hart) -> u32 {
    u32::from(hart.id >> 6)
}
