//! What is in a capture.

use crate::files::{self, counted, grouped};
use crate::{replay, Verdict};
use anyhow::Result;
use et_emulator::capture::Outcome;
use std::path::PathBuf;

pub fn show(paths: &[PathBuf]) -> Result<Verdict> {
    for path in files::expand(paths)? {
        let capture = files::read(&path)?;
        println!("{}", path.display());
        let launch = &capture.launch;
        println!(
            "  launch: entry {:#x}, shire mask {:#x}, {} of arguments{}",
            launch.entry,
            launch.shire_mask,
            counted(launch.arguments.len() as u64, "byte"),
            if launch.exact_flags { ", exact floating-point flags" } else { "" }
        );
        let topology = capture.topology;
        println!("  chip: {}, {} MiB", counted(u64::from(topology.shires), "shire"), topology.dram_bytes >> 20);
        for image in &capture.images {
            println!("  image: {} at {:#x}", image.file, image.address);
        }
        println!("  memory: {}", replay::pages(&capture));
        match &capture.outcome {
            Outcome::Completed { instructions, cycles } => {
                println!("  outcome: {} instructions, clock {}", grouped(*instructions), grouped(*cycles));
            }
            Outcome::Failed { error } => println!("  outcome: {error}"),
        }
        println!("  buffers:");
        for buffer in &capture.labels.buffers {
            println!("    {:#x} {:>13} {}", buffer.address, grouped(buffer.bytes), buffer.name);
        }
        println!("  commands:");
        for (i, command) in capture.labels.commands.iter().enumerate() {
            let operands: Vec<_> = command.operands.iter().map(|operand| operand.name.as_str()).collect();
            println!("    {i:>5} {:<20} {:<16} {}", command.kernel, command.op, operands.join(", "));
        }
    }
    Ok(Verdict::Good)
}
