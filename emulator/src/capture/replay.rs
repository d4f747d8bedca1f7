//! A capture back in a machine.

use super::{Capture, ImageFile, Outcome, Recorded, Topology, PAGE};
use crate::elf::{Image, Lines};
use crate::labels::{Extent, Labels};
use crate::machine::{stacks, AccessError, Config, Launch, LaunchError, LineTable, Machine, Mode, Recording, Report};
use std::fmt;

impl Capture {
    /// Runs a launch and captures it. `images` and `labels` tell what is in the machine's memory.
    pub fn take(
        machine: &Machine,
        launch: &Launch<'_>,
        images: Vec<ImageFile>,
        labels: Labels,
    ) -> (Result<Report, LaunchError>, Capture) {
        let (result, Recording { before, after }) = machine.record(launch);
        let stacks = stacks();
        let mut volatile =
            vec![Extent { address: stacks.start, bytes: stacks.end - stacks.start, name: "stacks".to_owned() }];
        volatile.extend(labels.timestamps.map(|address| Extent {
            address,
            bytes: (labels.commands.len() as u64 + 1) * 8,
            name: "timestamps".to_owned(),
        }));
        let outcome = match &result {
            Ok(report) => Outcome::Completed { instructions: report.instructions, cycles: report.cycles },
            Err(error) => Outcome::Failed { error: error.to_string() },
        };
        let config = machine.config();
        let capture = Capture {
            launch: Recorded {
                entry: launch.entry,
                arguments: launch.args.to_vec(),
                shire_mask: launch.shire_mask,
                exact_flags: launch.exact_flags,
            },
            topology: Topology { shires: config.shires, dram_bytes: config.dram_bytes },
            images,
            labels,
            volatile,
            outcome,
            before,
            after,
        };
        (result, capture)
    }

    /// The machine that it ran on, emulated by `threads` host threads (0: all cores).
    pub fn config(&self, threads: usize) -> Config {
        Config { shires: self.topology.shires, dram_bytes: self.topology.dram_bytes, threads, ..Config::default() }
    }

    /// The launch. Its lines are [`lines`](Self::lines)'s, or none.
    pub fn launch<'a>(&'a self, lines: Option<&'a dyn LineTable>) -> Launch<'a> {
        Launch {
            entry: self.launch.entry,
            args: &self.launch.arguments,
            shire_mask: self.launch.shire_mask,
            deadline: None,
            exact_flags: self.launch.exact_flags,
            lines,
            labels: Some(&self.labels),
        }
    }

    /// The line tables of its images.
    pub fn lines(&self) -> Tables {
        Tables(self.images.iter().filter_map(|image| Lines::parse(&image.data, image.address).ok()).collect())
    }

    /// Brings a machine's memory to the state before the launch: its images, and the pages that it touched. What is as it
    /// should be is not written again.
    pub fn load(&self, machine: &Machine) -> Result<(), AccessError> {
        for image in &self.images {
            // An image that can't be parsed names no lines either; its code is in the pages.
            if let Ok(elf) = Image::parse(&image.data) {
                let displacement = image.address.wrapping_sub(elf.base());
                for segment in &elf.segments {
                    put(machine, segment.addr.wrapping_add(displacement), &segment.data)?;
                }
            }
        }
        self.before.iter().try_for_each(|(addr, page)| put(machine, addr, page))
    }

    /// How a machine's memory after the launch differs from the recorded one: the pages that the launch touched, less
    /// what is volatile.
    pub fn compare(&self, machine: &Machine) -> Result<Differences, AccessError> {
        let mut all = Differences::default();
        let mut now = [0; PAGE];
        for (page, before) in self.before.iter() {
            machine.peek(page, &mut now)?;
            let expected = self.after.get(page).unwrap_or(before);
            if now == expected {
                continue;
            }
            for (i, (&found, &expected)) in now.iter().zip(expected).enumerate() {
                let addr = page + i as u64;
                if found != expected && !self.volatile.iter().any(|range| range.contains(addr)) {
                    self.note(&mut all, addr, expected, found);
                }
            }
        }
        Ok(all)
    }

    fn note(&self, all: &mut Differences, addr: u64, expected: u8, found: u8) {
        all.bytes += 1;
        let extent = self.labels.at_end(addr);
        let start = extent.map_or(addr & !(PAGE as u64 - 1), |extent| extent.address);
        if let Some(known) = all.places.iter_mut().find(|known| known.start == start) {
            known.bytes += 1;
            // Bytes that follow the first one without a gap, as far as a line of text goes.
            if addr == known.addr + known.expected.len() as u64 && known.expected.len() < 8 {
                known.expected.push(expected);
                known.found.push(found);
            }
        } else if all.places.len() < Differences::PLACES {
            let name = extent.map(|extent| extent.name.clone());
            all.places.push(Difference { name, start, addr, bytes: 1, expected: vec![expected], found: vec![found] });
        }
    }

    /// Whether the launch completed when it was captured.
    pub fn completed(&self) -> bool {
        matches!(self.outcome, Outcome::Completed { .. })
    }
}

/// Writes what is not there yet: decoded code that stays the same remains valid.
fn put(machine: &Machine, addr: u64, data: &[u8]) -> Result<(), AccessError> {
    // Strict mode has to know that also what is zero means something.
    if matches!(machine.config().mode, Mode::Strict { .. }) {
        return machine.poke(addr, data);
    }
    let mut now = vec![0; data.len()];
    machine.peek(addr, &mut now)?;
    if now == data {
        return Ok(());
    }
    let differs = |at: &usize| now[*at] != data[*at];
    let first = (0..data.len()).find(differs).unwrap_or(0);
    let end = (0..data.len()).rfind(differs).map_or(0, |last| last + 1);
    machine.poke(addr + first as u64, &data[first..end])
}

/// Line tables of several images.
#[derive(Debug)]
pub struct Tables(Vec<Lines>);

impl LineTable for Tables {
    fn locate(&self, pc: u64) -> Option<String> {
        self.0.iter().find_map(|lines| lines.locate(pc))
    }
}

/// Where memory is not as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Bytes that differ, all told.
    pub bytes: u64,
    /// The first tensors, buffers or pages that they are in.
    pub places: Vec<Difference>,
}

impl Differences {
    /// Places that are told apart.
    const PLACES: usize = 16;
}

/// Bytes that differ in one tensor, buffer or page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The tensor or buffer.
    pub name: Option<String>,
    /// Where it starts; of the page when it has no name.
    pub start: u64,
    /// The first byte that differs.
    pub addr: u64,
    /// How many differ.
    pub bytes: u64,
    /// The first ones, as they should be.
    pub expected: Vec<u8>,
    /// The first ones, as they are.
    pub found: Vec<u8>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        write!(f, "{:#x}", self.addr)?;
        if let Some(name) = &self.name {
            write!(f, " ({name} + {})", self.addr - self.start)?;
        }
        write!(f, ": recorded {}, now {}", hex(&self.expected), hex(&self.found))?;
        if self.bytes > self.found.len() as u64 {
            write!(f, "; {} bytes differ there", self.bytes)?;
        }
        Ok(())
    }
}
