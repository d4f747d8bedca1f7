//! Captures, run again.

use crate::files::{self, counted, grouped};
use crate::measure::{self, Run};
use crate::options::Options;
use crate::timing;
use crate::Verdict;
use anyhow::{Context, Result};
use et_emulator::capture::{Capture, Outcome};
use et_emulator::{Config, Machine};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

pub fn replay(paths: &[PathBuf], options: &Options) -> Result<Verdict> {
    let mut verdict = Verdict::Good;
    for path in files::expand(paths)? {
        if one(&path, options)? == Verdict::Bad {
            verdict = Verdict::Bad;
        }
    }
    Ok(verdict)
}

fn one(path: &Path, options: &Options) -> Result<Verdict> {
    let capture = files::read(path)?;
    let config = Config { mode: options.mode, ..capture.config(options.threads) };
    let machine = Machine::new(config).context("the capture's machine can't be made")?;
    let lines = capture.lines();
    let launch = capture.launch(Some(&lines));
    let load = || capture.load(&machine).context("the capture's pages don't fit its own machine");
    load()?;
    let run = match measure::once(&machine, &launch, options) {
        Ok(run) => run,
        Err(error) => {
            report_failure(path, &capture, &error.to_string(), options);
            return Ok(Verdict::Bad);
        }
    };
    let clocks = Clocks::read(&capture, &machine);
    let profile = machine.profile();
    let differences = capture.compare(&machine)?;
    let good = differences.bytes == 0 && capture.completed();
    let measurement = match options.repeat {
        0 => None,
        _ => Some(measure::measure(&machine, &launch, options, load)?),
    };
    if options.json {
        let value = json!({
            "capture": path,
            "same": good,
            "instructions": run.report.instructions,
            "cycles": run.report.cycles,
            "macs": measure::macs_json(&run.report),
            "different_bytes": differences.bytes,
            "timing": profile.as_ref().map(|profile| timing::json(profile, &capture.labels, options.commands)),
            "measured": measurement.map(|measured| measured.json()),
            "commands": clocks.as_ref().filter(|_| options.commands).map(|clocks| clocks.json(&capture)),
        });
        println!("{value}");
    } else {
        headline(path, &capture);
        let Run { report, time, .. } = run;
        println!(
            "  {} instructions in {:.3} s ({:.1} M/s){}; clock {}",
            grouped(report.instructions),
            time.as_secs_f64(),
            measure::mips(report.instructions, time),
            measure::macs(&report, time),
            grouped(report.cycles),
        );
        if let Some(profile) = &profile {
            timing::print(profile, &capture.labels);
        } else if let Some(clocks) = &clocks {
            clocks.print(&capture, options.commands);
        }
        if let Outcome::Failed { error } = &capture.outcome {
            println!("  it completed, but failed when it was captured: {error}");
        } else if good {
            println!("  memory is as recorded: {}", pages(&capture));
        } else {
            println!("  MEMORY DIFFERS in {}", counted(differences.bytes, "byte"));
            differences.places.iter().for_each(|difference| println!("    {difference}"));
        }
        if let Some(measurement) = measurement {
            measurement.print();
        }
    }
    Ok(if good { Verdict::Good } else { Verdict::Bad })
}

fn headline(path: &Path, capture: &Capture) {
    let commands = capture.labels.commands.len() as u64;
    let shires = u64::from(capture.launch.shire_mask.count_ones());
    println!("{}: {} on {}", path.display(), counted(commands, "command"), counted(shires, "shire"));
}

/// What the capture holds, in words.
pub fn pages(capture: &Capture) -> String {
    format!("{} touched, {} changed", counted(capture.before.len() as u64, "page"), grouped(capture.after.len() as u64))
}

fn report_failure(path: &Path, capture: &Capture, error: &str, options: &Options) {
    if options.json {
        println!("{}", json!({ "capture": path, "same": false, "error": error }));
        return;
    }
    headline(path, capture);
    println!("  FAILED: {error}");
    match &capture.outcome {
        Outcome::Failed { error: recorded } if recorded == error => println!("  it failed so when it was captured"),
        Outcome::Failed { error } => println!("  when it was captured it failed so: {error}"),
        Outcome::Completed { .. } => println!("  it completed when it was captured"),
    }
}

/// What the kernel's own timestamps say.
struct Clocks(Vec<u64>);

impl Clocks {
    /// `None` when the kernel leaves none.
    fn read(capture: &Capture, machine: &Machine) -> Option<Clocks> {
        let mut bytes = vec![0; (capture.labels.commands.len() + 1) * 8];
        machine.peek(capture.labels.timestamps?, &mut bytes).ok()?;
        let (stamps, _) = bytes.as_chunks::<8>();
        let stamps: Vec<u64> = stamps.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        Some(Clocks(stamps.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()))
    }

    fn json(&self, capture: &Capture) -> Value {
        let commands = self.0.iter().zip(&capture.labels.commands);
        let rows = commands.map(|(clock, command)| {
            json!({ "kernel": command.kernel, "op": command.op, "tensor": command.tensor(), "clock": clock })
        });
        rows.collect()
    }

    fn print(&self, capture: &Capture, every: bool) {
        let total = self.0.iter().sum::<u64>().max(1) as f64;
        let share = |clock: u64| 100.0 * clock as f64 / total;
        if every {
            println!("    {:>5} {:>12} {:>6}  {:<20} {:<16} tensor", "", "clock", "%", "kernel", "op");
            for (i, (&clock, command)) in self.0.iter().zip(&capture.labels.commands).enumerate() {
                println!(
                    "    {i:>5} {:>12} {:>6.2}  {:<20} {:<16} {}",
                    grouped(clock),
                    share(clock),
                    command.kernel,
                    command.op,
                    command.tensor()
                );
            }
            return;
        }
        let mut sums: Vec<(&str, u64, u64)> = Vec::new();
        for (&clock, command) in self.0.iter().zip(&capture.labels.commands) {
            match sums.iter_mut().find(|sum| sum.0 == command.kernel) {
                Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + clock),
                None => sums.push((&command.kernel, 1, clock)),
            }
        }
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.2));
        println!("    {:>12} {:>6} {:>9}  kernel", "clock", "%", "commands");
        for (kernel, count, clock) in sums {
            println!("    {:>12} {:>6.2} {count:>9}  {kernel}", grouped(clock), share(clock));
        }
    }
}
