//! Running launches and timing them: the one place that knows how a machine is made to execute.

use crate::calibrate::calibrate;
use crate::files::counted;
use crate::options::Options;
use anyhow::Result;
use et_emulator::{Launch, LaunchError, Machine, Report};
use rustix::time::{clock_gettime, ClockId};
use serde_json::{json, Value};
use std::time::{Duration, Instant};

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub report: Report,
    pub time: Duration,
    /// Processor time of all threads.
    pub cpu: Duration,
}

/// Processor time of this process so far.
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Runs `launch` once.
pub fn once(machine: &Machine, launch: &Launch<'_>, options: &Options) -> Result<Run, LaunchError> {
    let launch = Launch { deadline: options.deadline, ..*launch };
    let (start, cpu) = (Instant::now(), cpu_time());
    let report = machine.launch(&launch)?;
    Ok(Run { report, time: start.elapsed(), cpu: cpu_time() - cpu })
}

/// Several runs and what the host could do meanwhile.
pub struct Measurement {
    /// By time.
    runs: Vec<Run>,
    /// Steps of the calibration loop, in millions per second of processor time: the better of one before and one after the runs.
    calibration: f64,
    /// Host threads.
    threads: usize,
}

/// Runs `launch` `options.repeat` times, each after `prepare`.
pub fn measure(
    machine: &Machine,
    launch: &Launch<'_>,
    options: &Options,
    mut prepare: impl FnMut() -> Result<()>,
) -> Result<Measurement> {
    let before = calibrate();
    let mut runs = Vec::new();
    for _ in 0..options.repeat {
        prepare()?;
        runs.push(once(machine, launch, options)?);
    }
    runs.sort_by_key(|run| run.time);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        n => n,
    };
    Ok(Measurement { runs, calibration: before.max(calibrate()), threads })
}

impl Measurement {
    fn median(&self) -> Run {
        self.runs[self.runs.len() / 2]
    }

    /// Two lines.
    pub fn print(&self) {
        let Run { report, time, cpu } = self.median();
        let seconds = |run: Option<&Run>| run.map_or(0.0, |run| run.time.as_secs_f64());
        println!(
            "  median of {} with {}: {:.4} s ({:.4} to {:.4}), {:.1} M instructions/s{}",
            self.runs.len(),
            counted(self.threads as u64, "thread"),
            time.as_secs_f64(),
            seconds(self.runs.first()),
            seconds(self.runs.last()),
            mips(report.instructions, time),
            macs(&report, time),
        );
        println!(
            "  per second of processor time: {:.1} M instructions{}; native calibration loop: {:.1} M steps",
            mips(report.instructions, cpu),
            macs(&report, cpu).replace("/s", ""),
            self.calibration,
        );
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let Run { report, time, cpu } = self.median();
        json!({
            "runs": self.runs.len(),
            "threads": self.threads,
            "seconds": time.as_secs_f64(),
            "mips": mips(report.instructions, time),
            "cpu_seconds": cpu.as_secs_f64(),
            "mips_per_cpu_second": mips(report.instructions, cpu),
            "int8_gmac_per_s": rate(report.macs.int8, time) / 1e9,
            "f16_gmac_per_s": rate(report.macs.f16, time) / 1e9,
            "f32_gmac_per_s": rate(report.macs.f32, time) / 1e9,
            "calibration": self.calibration,
        })
    }
}

fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// Millions of instructions per second.
pub fn mips(instructions: u64, time: Duration) -> f64 {
    rate(instructions, time) / 1e6
}

/// What the tensor engines did, as the end of a line.
pub fn macs(report: &Report, time: Duration) -> String {
    let kinds = [("int8", report.macs.int8), ("f16", report.macs.f16), ("f32", report.macs.f32)];
    let used = kinds.iter().filter(|(_, count)| *count > 0);
    used.map(|(kind, count)| format!(", {:.2} G {kind} MAC/s", rate(*count, time) / 1e9)).collect()
}

/// The same for programs: how many there were.
pub fn macs_json(report: &Report) -> Value {
    json!({ "int8": report.macs.int8, "f16": report.macs.f16, "f32": report.macs.f32 })
}
