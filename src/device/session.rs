//! An open device: its memory, its image, and launches of command lists.

use super::arena::Arena;
use super::image::{Image, Lines};
use super::{Driver, Launch};
use crate::command::{self, et_command, et_launch, et_status, ET_LINE};
use anyhow::{bail, Context, Result};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Alignment of every allocation; tensors in buffers have it too, so two of them never share a cache line.
pub const ALIGNMENT: u64 = 256;

/// Commands that one launch carries at most; longer lists take several launches.
pub const COMMANDS_MAX: usize = 2048;

/// No launch may hang for ever. The emulator finds deadlocks itself, at once; this is for endless loops, and far above
/// what the longest list on one host core takes.
const DEADLINE: Duration = Duration::from_secs(2 * 3600);

/// Device cycles per microsecond (650 MHz).
pub const CYCLES_PER_US: u64 = 650;

/// An open device. It closes when the last user drops it.
pub struct Session {
    driver: Box<dyn Driver>,
    arena: Mutex<Arena>,
    shires: u64,
    entry: u64,
    lines: Lines,
    /// Where launches are prepared; held for the length of a launch.
    desk: Mutex<Desk>,
    /// A transfer that failed, until a computation has reported it.
    lost: Mutex<Option<String>>,
}

/// The part of device memory that launches use.
struct Desk {
    commands: u64,
    status: u64,
    barrier: u64,
    timestamps: u64,
    workspace: u64,
    workspace_size: u64,
    /// Cycles of all launches so far: where the next one starts on the device's time line.
    elapsed: u64,
}

/// When a command ran, in cycles on the device's time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its start.
    pub start: u64,
    /// Its end, after the barrier.
    pub end: u64,
}

/// Locks even after a panic elsewhere: the state is kept consistent statement by statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Opens a device: loads the image and sets up the launch area. `shires` are the ones to use.
    pub fn open(driver: Box<dyn Driver>, shires: u64, kernels: Option<&Path>) -> Result<Session> {
        let missing = shires & !driver.shires();
        if missing != 0 || shires == 0 {
            bail!("the device has no shires {missing:#x}; it has {:#x}", driver.shires());
        }
        let image = Image::select(kernels)?;
        let mut arena = Arena::new(driver.memory(), ALIGNMENT);
        let mut take =
            |size: usize| arena.take(size as u64).context("the device's memory is too small for the kernels");
        let bytes = image.bytes();
        let base = take(bytes.len())?;
        let desk = Desk {
            commands: take(COMMANDS_MAX * size_of::<et_command>())?,
            status: take(size_of::<et_status>())?,
            barrier: take(ET_LINE as usize)?,
            timestamps: take((COMMANDS_MAX + 1) * size_of::<u64>())?,
            workspace: 0,
            workspace_size: 0,
            elapsed: 0,
        };
        driver.write(base, &bytes)?;
        Ok(Session {
            lines: image.lines(base),
            driver,
            arena: Mutex::new(arena),
            shires,
            entry: base + (image.elf.entry - image.elf.base()),
            desk: Mutex::new(desk),
            lost: Mutex::new(None),
        })
    }

    /// Free and total bytes for buffers.
    pub fn memory(&self) -> (u64, u64) {
        let arena = lock(&self.arena);
        (arena.free_bytes(), arena.total())
    }

    /// Takes device memory, aligned to `ALIGNMENT`. One line more than asked for, so that whole lines may be read past
    /// the end.
    pub fn take(&self, size: u64) -> Result<u64> {
        let mut arena = lock(&self.arena);
        let addr = size.checked_add(u64::from(ET_LINE)).and_then(|size| arena.take(size));
        addr.with_context(|| {
            format!(
                "{} MiB of device memory were asked for; {} MiB are free, {} MiB in one piece",
                size.div_ceil(1 << 20),
                arena.free_bytes() >> 20,
                arena.largest() >> 20
            )
        })
    }

    /// Gives memory back.
    pub fn give(&self, addr: u64) {
        lock(&self.arena).give(addr);
    }

    /// The device, for transfers.
    pub fn driver(&self) -> &dyn Driver {
        self.driver.as_ref()
    }

    /// Remembers that a transfer failed: the host's transfer functions return nothing, so the next computation says it.
    pub fn lose(&self, what: String) {
        lock(&self.lost).get_or_insert(what);
    }

    /// The transfer that failed since the last call, if any.
    pub fn take_lost(&self) -> Option<String> {
        lock(&self.lost).take()
    }

    /// Runs up to `COMMANDS_MAX` commands, one after the other, in one launch. `workspace` is the scratch memory that the
    /// neediest of them takes. With `timed`, returns when each ran.
    pub fn run(&self, commands: &mut [et_command], workspace: u64, timed: bool) -> Result<Vec<Span>, Failure> {
        let mut desk = lock(&self.desk);
        self.launch(&mut desk, commands, workspace, timed)
    }

    fn launch(
        &self,
        desk: &mut Desk,
        commands: &mut [et_command],
        workspace: u64,
        timed: bool,
    ) -> Result<Vec<Span>, Failure> {
        assert!(commands.len() <= COMMANDS_MAX, "the caller splits longer lists");
        self.grow_workspace(desk, workspace)?;
        let mut bytes = Vec::with_capacity(size_of_val(commands));
        for command in commands.iter_mut() {
            if command.workspace_size != 0 {
                command.workspace = desk.workspace;
            }
            bytes.extend_from_slice(command::bytes(command));
        }
        self.driver.write(desk.commands, &bytes)?;
        self.driver.fill(desk.status, size_of::<et_status>() as u64, 0)?;
        self.driver.fill(desk.barrier, ET_LINE.into(), 0)?;
        let arguments = et_launch {
            commands: desk.commands,
            count: commands.len() as u64,
            status: desk.status,
            barrier: desk.barrier,
            timestamps: if timed { desk.timestamps } else { 0 },
            ..Default::default()
        };
        self.driver.launch(&Launch {
            entry: self.entry,
            args: command::bytes(&arguments),
            shires: self.shires,
            deadline: DEADLINE,
            lines: &self.lines,
        })?;
        let status = self.read_words::<2>(desk.status)?;
        let (failed, code) = (status[0] as u32, (status[0] >> 32) as u32);
        if failed != 0 {
            return Err(Failure::Kernel { index: failed as usize - 1, code });
        }
        if !timed {
            return Ok(Vec::new());
        }
        let mut stamps = vec![0; (commands.len() + 1) * 8];
        self.driver.read(desk.timestamps, &mut stamps)?;
        let stamps: Vec<u64> = stamps.chunks_exact(8).map(word).collect();
        let origin = desk.elapsed.wrapping_sub(stamps[0]);
        let spans: Vec<Span> = stamps
            .windows(2)
            .map(|pair| Span { start: origin.wrapping_add(pair[0]), end: origin.wrapping_add(pair[1]) })
            .collect();
        desk.elapsed = spans.last().map_or(desk.elapsed, |span| span.end);
        Ok(spans)
    }

    fn grow_workspace(&self, desk: &mut Desk, size: u64) -> Result<()> {
        if size <= desk.workspace_size {
            return Ok(());
        }
        if desk.workspace != 0 {
            self.give(desk.workspace);
            (desk.workspace, desk.workspace_size) = (0, 0);
        }
        desk.workspace = self.take(size).context("no scratch memory for the graph")?;
        desk.workspace_size = size;
        Ok(())
    }

    fn read_words<const N: usize>(&self, addr: u64) -> Result<[u64; N]> {
        let mut bytes = vec![0; N * 8];
        self.driver.read(addr, &mut bytes)?;
        let mut words = bytes.chunks_exact(8).map(word);
        Ok(std::array::from_fn(|_| words.next().unwrap_or_default()))
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Why a command list did not complete.
#[derive(Debug)]
pub enum Failure {
    /// Command `index` returned `code` (`et_kernel.h`).
    Kernel {
        /// Place in the list.
        index: usize,
        /// What its kernel returned.
        code: u32,
    },
    /// The launch itself failed.
    Device(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Device(error)
    }
}
