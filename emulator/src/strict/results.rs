//! Whether commands have written their whole results.

use super::finding::{Fault, Finding, Spot};
use super::line::Holder;
use super::watch::Watch;
use crate::labels::Labels;
use crate::memory::OPEN_BASE;

/// Operations whose result is memory that others own parts of.
const PARTIAL: [&str; 4] = ["SET_ROWS", "CPY", "DUP", "CONT"];

impl Watch<'_> {
    /// Looks for bytes of results that nobody wrote in their command or later.
    pub fn check_results(&mut self, labels: &Labels) {
        for (index, command) in labels.commands.iter().enumerate() {
            let Some(result) = command.operands.first() else { continue };
            // In place, what need not change is not written.
            let in_place = command.operands[1..].iter().any(|source| source.contains(result.address));
            if PARTIAL.contains(&command.op.as_str()) || result.address < OPEN_BASE || in_place {
                continue;
            }
            let number = index as u32 + 1;
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
        let active = self.lines.all[self.lines.find(offset / 64)?].active.as_ref()?;
        let version = active.content(Holder::Truth)?.version[(offset % 64) as usize];
        self.writer(version)
    }
}
