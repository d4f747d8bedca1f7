//! An open device: its memory, its image, and launches of command lists.

use super::arena::Arena;
use super::image::{Image, Lines};
use super::program::Program;
use super::queue::{Job, Queue};
use super::{Driver, Launch};
use crate::command::{self, et_launch, et_status, ET_LINE};
use crate::perf::profile::Timeline;
use anyhow::{bail, Context, Result};
use et_emulator::labels::{Command, Extent, Labels};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Alignment of every allocation; tensors in buffers have it too, so two of them never share a cache line.
pub const ALIGNMENT: u64 = 256;

/// Commands that one launch carries at most; longer lists take several launches.
pub const COMMANDS_MAX: usize = 2048;

/// No launch may hang for ever. The emulator finds deadlocks itself, at once; this is for endless loops, and far above
/// what the longest list on one host core takes.
const DEADLINE: Duration = Duration::from_secs(2 * 3600);

/// What a wait for a launch allows beyond the launch's own deadline.
const GRACE: Duration = Duration::from_secs(60);

/// Device cycles per microsecond (650 MHz).
pub const CYCLES_PER_US: u64 = 650;

/// An open device. It closes when the last user drops it.
pub struct Session {
    driver: Box<dyn Driver>,
    arena: Mutex<Arena>,
    /// Length and name of each block in use.
    blocks: Mutex<BTreeMap<u64, (u64, &'static str)>>,
    shires: u64,
    entry: u64,
    exact_flags: bool,
    lines: Lines,
    /// What streams have still to do. Its jobs may hold the session.
    queue: Queue,
    /// Where launches are prepared; held for the length of a launch.
    desk: Mutex<Desk>,
    /// How many blocks have been given back.
    given: AtomicU64,
    /// What has failed, until a computation has reported it.
    lost: Mutex<Option<String>>,
    timeline: Option<Timeline>,
}

/// The part of device memory that launches use.
struct Desk {
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
    pub fn open(
        driver: Box<dyn Driver>,
        shires: u64,
        kernels: Option<&Path>,
        timeline: Option<Timeline>,
    ) -> Result<Session> {
        let missing = shires & !driver.shires();
        if missing != 0 || shires == 0 {
            bail!("the device has no shires {missing:#x}; it has {:#x}", driver.shires());
        }
        let image = Image::select(kernels)?;
        let mut arena = Arena::new(driver.memory(), ALIGNMENT);
        let mut blocks = BTreeMap::new();
        let mut take = |size: usize, name| {
            let addr = arena.take(size as u64).context("the device's memory is too small for the kernels")?;
            blocks.insert(addr, (size as u64, name));
            anyhow::Ok(addr)
        };
        let bytes = image.bytes();
        let base = take(bytes.len(), "image")?;
        let desk = Desk {
            status: take(size_of::<et_status>(), "status")?,
            barrier: take(ET_LINE as usize, "barrier counter")?,
            timestamps: take((COMMANDS_MAX + 1) * size_of::<u64>(), "timestamps")?,
            workspace: 0,
            workspace_size: 0,
            elapsed: 0,
        };
        driver.write(base, &bytes)?;
        Ok(Session {
            exact_flags: image.elf.reads_flags(),
            lines: image.lines(base),
            queue: Queue::new().context("no thread for the device's work")?,
            driver,
            arena: Mutex::new(arena),
            blocks: Mutex::new(blocks),
            shires,
            entry: base + (image.elf.entry - image.elf.base()),
            desk: Mutex::new(desk),
            given: AtomicU64::new(0),
            lost: Mutex::new(None),
            timeline,
        })
    }

    /// Free and total bytes for buffers.
    pub fn memory(&self) -> (u64, u64) {
        let arena = lock(&self.arena);
        (arena.free_bytes(), arena.total())
    }

    /// Takes device memory, aligned to `ALIGNMENT`. One line more than asked for, so that whole lines may be read past
    /// the end. `name` is what captures call it.
    pub fn take(&self, size: u64, name: &'static str) -> Result<u64> {
        let mut arena = lock(&self.arena);
        let addr = size.checked_add(u64::from(ET_LINE)).and_then(|size| arena.take(size));
        if let Some(addr) = addr {
            lock(&self.blocks).insert(addr, (size, name));
            self.driver.discard(addr, size)?;
        }
        addr.with_context(|| {
            format!(
                "{} MiB of device memory were asked for; {} MiB are free, {} MiB in one piece",
                size.div_ceil(1 << 20),
                arena.free_bytes() >> 20,
                arena.largest() >> 20
            )
        })
    }

    /// How many buffers have been given back so far.
    pub fn given(&self) -> u64 {
        self.given.load(Ordering::Acquire)
    }

    /// The start and end of the block in use that `addr` lies in.
    pub fn block(&self, addr: u64) -> Option<Range<u64>> {
        let blocks = lock(&self.blocks);
        let (&start, &(size, _)) = blocks.range(..=addr).next_back()?;
        (addr - start < size.max(1)).then(|| start..start + size)
    }

    /// Gives a buffer's memory back: what was planned for it is to be forgotten.
    pub fn give_buffer(&self, addr: u64) {
        self.give(addr);
        self.given.fetch_add(1, Ordering::AcqRel);
    }

    /// Gives memory back.
    pub fn give(&self, addr: u64) {
        lock(&self.blocks).remove(&addr);
        lock(&self.arena).give(addr);
    }

    /// The device, for transfers.
    pub fn driver(&self) -> &dyn Driver {
        self.driver.as_ref()
    }

    /// Where a profile of its launches goes, if one is wanted.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// Adds a job to the device's work, and gives its number.
    pub fn add(&self, job: Job) -> u64 {
        self.queue.add(job)
    }

    /// The number of the last job.
    pub fn last(&self) -> u64 {
        self.queue.last()
    }

    /// Waits until job `number` and all before it are done.
    pub fn wait(&self, number: u64) {
        if !self.queue.wait(number, DEADLINE + GRACE) {
            self.lose(format!("the device's work did not end within {} s", DEADLINE.as_secs()));
        }
    }

    /// Waits until all work is done.
    pub fn settle(&self) {
        self.wait(self.last());
    }

    /// Copies from the device. After a failure that no computation has reported yet it gives ones, which floats read as NaN:
    /// nobody must take what is there for a result.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<()> {
        let lost = lock(&self.lost).is_some();
        let done = if lost { Ok(()) } else { self.driver.read(addr, out) };
        if lost || done.is_err() {
            out.fill(0xFF);
        }
        done
    }

    /// Logs a failure, and remembers it for the next computation: transfers return nothing to the host.
    pub fn lose(&self, failure: String) {
        log::error!("{failure}");
        lock(&self.lost).get_or_insert(failure);
    }

    /// What has failed since the last call, if anything has.
    pub fn take_lost(&self) -> Option<String> {
        lock(&self.lost).take()
    }

    /// Runs a program of at most `COMMANDS_MAX` commands in one launch. With `timed`, returns when each ran. `names` are asked
    /// for when the launch is captured.
    pub fn run(
        &self,
        program: &mut Program,
        timed: bool,
        names: &dyn Fn() -> Vec<Command>,
    ) -> Result<Vec<Span>, Failure> {
        let mut desk = lock(&self.desk);
        self.launch(&mut desk, program, timed, names)
    }

    fn launch(
        &self,
        desk: &mut Desk,
        program: &mut Program,
        timed: bool,
        names: &dyn Fn() -> Vec<Command>,
    ) -> Result<Vec<Span>, Failure> {
        let count = program.len();
        assert!(count <= COMMANDS_MAX, "the caller splits longer lists");
        self.grow_workspace(desk, program.workspace())?;
        program.place_workspace(desk.workspace)?;
        self.driver.fill(desk.status, size_of::<et_status>() as u64, 0)?;
        self.driver.fill(desk.barrier, ET_LINE.into(), 0)?;
        self.driver.fill(desk.timestamps, (count as u64 + 1) * 8, 0)?;
        let arguments = et_launch {
            commands: program.address(),
            count: count as u64,
            status: desk.status,
            barrier: desk.barrier,
            timestamps: desk.timestamps,
            ..Default::default()
        };
        let launched = self.driver.launch(&Launch {
            entry: self.entry,
            args: command::bytes(&arguments),
            shires: self.shires,
            deadline: DEADLINE,
            exact_flags: self.exact_flags,
            lines: &self.lines,
            labels: &|| Labels { commands: names(), buffers: self.extents(), timestamps: Some(desk.timestamps) },
        });
        if let Err(error) = launched {
            let passed = self.stamps(desk, count)?.iter().take_while(|&&stamp| stamp != 0).count();
            return Err(Failure::Device { index: passed.checked_sub(1), error });
        }
        let mut status = [0; 8];
        self.driver.read(desk.status, &mut status)?;
        let status = u64::from_le_bytes(status);
        let (failed, code) = (status as u32, (status >> 32) as u32);
        if failed != 0 {
            return Err(Failure::Kernel { index: failed as usize - 1, code });
        }
        if !timed {
            return Ok(Vec::new());
        }
        let stamps = self.stamps(desk, count)?;
        let origin = desk.elapsed.wrapping_sub(stamps[0]);
        let spans: Vec<Span> = stamps
            .windows(2)
            .map(|pair| Span { start: origin.wrapping_add(pair[0]), end: origin.wrapping_add(pair[1]) })
            .collect();
        desk.elapsed = spans.last().map_or(desk.elapsed, |span| span.end);
        Ok(spans)
    }

    /// The memory in use.
    fn extents(&self) -> Vec<Extent> {
        let extent =
            |(&address, &(bytes, name)): (&u64, &(u64, &str))| Extent { address, bytes, name: name.to_owned() };
        lock(&self.blocks).iter().map(extent).collect()
    }

    fn grow_workspace(&self, desk: &mut Desk, size: u64) -> Result<()> {
        if size <= desk.workspace_size {
            return Ok(());
        }
        if desk.workspace != 0 {
            self.give(desk.workspace);
            (desk.workspace, desk.workspace_size) = (0, 0);
        }
        desk.workspace = self.take(size, "workspace").context("no scratch memory for the graph")?;
        desk.workspace_size = size;
        Ok(())
    }

    /// Cycle counts at the start and after each of `count` commands; 0 for what was not reached.
    fn stamps(&self, desk: &Desk, count: usize) -> Result<Vec<u64>> {
        let mut bytes = vec![0; (count + 1) * 8];
        self.driver.read(desk.timestamps, &mut bytes)?;
        Ok(bytes.chunks_exact(8).map(word).collect())
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
    Device {
        /// The command that the first hart was in, if it got that far; other harts may have been in the next one.
        index: Option<usize>,
        /// What happened, in one line.
        error: anyhow::Error,
    },
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Device { index: None, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::et_command;
    use std::sync::Arc;

    const BASE: u64 = 0x80_1000_0000;

    /// Memory, and a "program" that runs instead of the kernels.
    struct Fake {
        memory: Mutex<Vec<u8>>,
        program: fn(&Fake, &[u64]) -> Result<()>,
    }

    impl Fake {
        fn session(program: fn(&Fake, &[u64]) -> Result<()>) -> Arc<Session> {
            let fake = Fake { memory: Mutex::new(vec![0xee; 8 << 20]), program };
            Arc::new(Session::open(Box::new(fake), 1, None, None).unwrap())
        }

        fn put(&self, addr: u64, words: &[u64]) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.write(addr, &bytes).unwrap();
        }

        fn word(&self, addr: u64) -> u64 {
            let mut bytes = [0; 8];
            self.read(addr, &mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        }
    }

    impl Driver for Fake {
        fn memory(&self) -> Range<u64> {
            BASE..BASE + lock(&self.memory).len() as u64
        }
        fn shires(&self) -> u64 {
            3
        }
        fn write(&self, addr: u64, data: &[u8]) -> Result<()> {
            let at = (addr - BASE) as usize;
            lock(&self.memory).get_mut(at..at + data.len()).context("outside")?.copy_from_slice(data);
            Ok(())
        }
        fn read(&self, addr: u64, out: &mut [u8]) -> Result<()> {
            let at = (addr - BASE) as usize;
            out.copy_from_slice(lock(&self.memory).get(at..at + out.len()).context("outside")?);
            Ok(())
        }
        fn fill(&self, addr: u64, len: u64, byte: u8) -> Result<()> {
            self.write(addr, &vec![byte; len as usize])
        }
        fn copy(&self, dst: u64, src: u64, len: u64) -> Result<()> {
            let mut bytes = vec![0; len as usize];
            self.read(src, &mut bytes)?;
            self.write(dst, &bytes)
        }
        fn launch(&self, launch: &Launch<'_>) -> Result<()> {
            let words: Vec<u64> = launch.args.chunks_exact(8).map(word).collect();
            (self.program)(self, &words)
        }
    }

    fn program(session: &Arc<Session>, commands: &[et_command], workspace: u64) -> Program {
        Program::new(session, commands.to_vec(), workspace, None).unwrap()
    }

    #[test]
    fn a_launch_finds_its_list_and_a_clean_desk() {
        let session = Fake::session(|fake, arguments| {
            let &[commands, count, status, barrier, timestamps, ..] = arguments else { panic!("{arguments:?}") };
            assert_eq!(count, 2);
            assert_eq!([0, 8, 16].map(|at| fake.word(timestamps + at)), [0; 3]);
            assert_eq!((fake.word(commands) as u32, fake.word(commands + 512) as u32), (7, 8));
            assert_eq!((fake.word(status), fake.word(barrier)), (0, 0));
            assert_eq!(fake.word(commands + 16), 0, "no workspace was asked for");
            assert_ne!(fake.word(commands + 512 + 16), 0);
            Ok(())
        });
        let mut list = [7, 8].map(|kernel| et_command { kernel, ..Default::default() });
        list[1].workspace_size = 1000;
        let mut program = program(&session, &list, 1000);
        assert!(session.run(&mut program, false, &Vec::new).unwrap().is_empty());
    }

    #[test]
    fn only_changed_words_are_sent() {
        let session = Fake::session(|fake, arguments| {
            assert_eq!(fake.word(arguments[0] + 512) as u32, 9);
            Ok(())
        });
        let mut list = [7, 8].map(|kernel| et_command { kernel, ..Default::default() });
        let mut first = program(&session, &list, 0);
        assert_eq!((first.take_sent(), first.take_sent()), (128, 0));
        list[1].kernel = 9;
        list[1].dst.nb = [4, 8, 12, 16];
        let mut second = Program::new(&session, list.to_vec(), 0, Some(&first)).unwrap();
        assert_eq!(second.take_sent(), 5);
        session.run(&mut second, false, &Vec::new).unwrap();
        assert_eq!(second.take_sent(), 0);
        let mut longer = Program::new(&session, vec![list[0]; 3], 0, Some(&first)).unwrap();
        assert_eq!(longer.take_sent(), 192);
    }

    #[test]
    fn commands_learn_that_their_workspace_has_moved() {
        let session = Fake::session(|fake, arguments| {
            let place = fake.word(arguments[0] + 16);
            fake.put(arguments[4], &[place]);
            Ok(())
        });
        let command = |size| et_command { workspace_size: size, ..Default::default() };
        let mut small = program(&session, &[command(1000)], 1000);
        session.run(&mut small, false, &Vec::new).unwrap();
        assert_eq!(small.take_sent(), 64 + 1);
        let mut large = program(&session, &[command(100_000)], 100_000);
        session.run(&mut large, false, &Vec::new).unwrap();
        session.run(&mut small, false, &Vec::new).unwrap();
        assert_eq!(small.take_sent(), 1);
        session.run(&mut small, false, &Vec::new).unwrap();
        assert_eq!(small.take_sent(), 0);
    }

    #[test]
    fn a_failing_kernel_is_told_from_a_failing_device() {
        let list = [et_command::default(); 3];
        let run = |session: &Arc<Session>| session.run(&mut program(session, &list, 0), false, &Vec::new);
        let session = Fake::session(|fake, arguments| {
            fake.put(arguments[2], &[5 << 32 | 2]);
            Ok(())
        });
        assert!(matches!(run(&session), Err(Failure::Kernel { index: 1, code: 5 })));
        let session = Fake::session(|fake, arguments| {
            fake.put(arguments[4], &[10, 20]);
            bail!("hart 3 hit something")
        });
        assert!(matches!(run(&session), Err(Failure::Device { index: Some(1), .. })));
        let session = Fake::session(|_, _| bail!("nobody started"));
        assert!(matches!(run(&session), Err(Failure::Device { index: None, .. })));
    }

    #[test]
    fn the_time_line_goes_on_from_launch_to_launch() {
        let session = Fake::session(|fake, arguments| {
            fake.put(arguments[4], &[100, 750, 1400]);
            Ok(())
        });
        let mut list = program(&session, &[et_command::default(); 2], 0);
        let first = session.run(&mut list, true, &Vec::new).unwrap();
        assert_eq!(first, [Span { start: 0, end: 650 }, Span { start: 650, end: 1300 }]);
        let second = session.run(&mut list, true, &Vec::new).unwrap();
        assert_eq!(second[0], Span { start: 1300, end: 1950 });
    }

    #[test]
    fn memory_comes_back_when_the_last_user_goes() {
        let session = Fake::session(|_, _| Ok(()));
        let (free, total) = session.memory();
        assert!(free < total);
        let block = session.take(1000, "block").unwrap();
        assert_eq!(block % ALIGNMENT, 0);
        assert_eq!(session.memory().0, free - 1280);
        session.give(block);
        assert_eq!(session.memory(), (free, total));
        let refusal = session.take(1 << 40, "block").unwrap_err().to_string();
        assert_eq!(refusal, "1048576 MiB of device memory were asked for; 7 MiB are free, 7 MiB in one piece");
    }

    #[test]
    fn shires_that_do_not_exist_are_refused() {
        let fake = Fake { memory: Mutex::new(vec![0; 8 << 20]), program: |_, _| Ok(()) };
        let error = Session::open(Box::new(fake), 4, None, None).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "the device has no shires 0x4; it has 0x3");
    }
}
