//! Whether commands have written their whole results, and nothing else.

use super::finding::{Fault, Finding, Spot};
use super::watch::Watch;
use crate::labels::{Command, Extent, Labels};
use crate::memory::OPEN_BASE;
use std::ops::Range;

/// Operations whose result is memory that others own parts of.
const PARTIAL: [&str; 2] = ["SET_ROWS", "CPY"];

/// What commands may write to.
#[derive(Debug, Default)]
pub struct Results {
    /// Each command's results, those of the commands that its call does too among them, to the end of the last line.
    own: Vec<Vec<Range<u64>>>,
    /// All operands of all commands, in order; no two overlap.
    tensors: Vec<Range<u64>>,
}

impl Results {
    pub fn of(labels: &Labels) -> Results {
        let range = |address: u64, bytes: u64| address..(address + bytes).next_multiple_of(64);
        let result = |operands: &[Extent]| operands.first().map_or(0..0, |o| range(o.address, o.bytes));
        let members = |(i, command): (usize, &Command)| {
            let call = labels.commands[i..].iter().take(1 + command.also as usize);
            call.map(|member| result(&member.operands)).collect()
        };
        let own = labels.commands.iter().enumerate().map(members).collect();
        let operands = labels.commands.iter().flat_map(|command| &command.operands);
        let mut all: Vec<Range<u64>> = operands.map(|o| o.address..o.address + o.bytes).collect();
        all.sort_by_key(|range| range.start);
        let mut tensors: Vec<Range<u64>> = Vec::new();
        for range in all {
            match tensors.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => tensors.push(range),
            }
        }
        Results { own, tensors }
    }

    /// Whether command number `command` (from 1) touches a tensor outside of its result when it writes at `address`.
    pub fn beyond(&self, command: u32, address: u64, len: u64) -> bool {
        let Some(own) = (command as usize).checked_sub(1).and_then(|index| self.own.get(index)) else { return false };
        let inside = |own: &Range<u64>| own.is_empty() || own.start <= address && address + len <= own.end;
        if own.iter().any(inside) {
            return false;
        }
        let next = self.tensors.partition_point(|tensor| tensor.end <= address);
        self.tensors.get(next).is_some_and(|tensor| tensor.start < address + len)
    }
}

impl Watch<'_> {
    /// Looks for bytes of results that nobody wrote in their command or later.
    pub fn check_results(&mut self, labels: &Labels) {
        let (mut number, mut left) = (0, 0);
        for (index, command) in labels.commands.iter().enumerate() {
            // Members of a call write under its number.
            (number, left) = if left > 0 { (number, left - 1) } else { (index as u32 + 1, command.also) };
            let Some(result) = command.operands.first() else { continue };
            // In place, what need not change is not written.
            let in_place = command.operands[1..].iter().any(|source| source.contains(result.address));
            if PARTIAL.contains(&command.op.as_str()) || result.address < OPEN_BASE || in_place {
                continue;
            }
            let mut last: Option<Spot> = None;
            for address in result.address..result.address + result.bytes {
                match self.author(address - OPEN_BASE).filter(|spot| spot.command >= number) {
                    // Later commands may have taken the memory for something else.
                    Some(spot) => last = Some(Spot { command: number, ..spot }),
                    None => {
                        let spot = last.unwrap_or(Spot { place: 0, command: number, pc: 0 });
                        let address = Some(address);
                        let fault = Fault::ResultMissing;
                        self.findings.report(Finding { fault, spot, other: None, used: None, address });
                        break;
                    }
                }
            }
        }
    }

    /// Who wrote a byte of DRAM last.
    fn author(&self, offset: u64) -> Option<Spot> {
        let active = self.lines[self.lines.find(offset / 64)?].active.as_ref()?;
        let version = active.newest().version.get((offset % 64) as usize);
        self.writer(version)
    }
}
