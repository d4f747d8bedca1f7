//! Hand-written launches.

use crate::files::{counted, grouped};
use crate::launch_file::{Buffer, Element, Expectation, LaunchFile, Prepared, Show};
use crate::measure::{self, Run};
use crate::options::Options;
use crate::timing;
use crate::Verdict;
use anyhow::{Context, Result};
use et_emulator::elf::Lines;
use et_emulator::labels::Labels;
use et_emulator::{Launch, LineTable};
use serde_json::json;
use std::path::{Path, PathBuf};

pub fn run(paths: &[PathBuf], options: &Options) -> Result<Verdict> {
    let mut verdict = Verdict::Good;
    for path in paths {
        if one(path, options)? == Verdict::Bad {
            verdict = Verdict::Bad;
        }
    }
    Ok(verdict)
}

fn one(path: &Path, options: &Options) -> Result<Verdict> {
    let file = LaunchFile::read(path)?;
    let prepared = file.prepare(options).with_context(|| format!("{}", path.display()))?;
    let lines = Lines::parse(&prepared.elf, prepared.image_address).ok();
    let launch = Launch {
        entry: prepared.entry,
        args: &prepared.arguments,
        shire_mask: prepared.shire_mask,
        deadline: None,
        exact_flags: prepared.exact_flags,
        lines: lines.as_ref().map(|lines| lines as &dyn LineTable),
        labels: Some(&prepared.labels),
    };
    let run = match measure::once(&prepared.machine, &launch, options) {
        Ok(run) => run,
        Err(error) if options.json => {
            println!("{}", json!({ "launch": path, "good": false, "error": error.to_string() }));
            return Ok(Verdict::Bad);
        }
        Err(error) => {
            println!("{}\n  FAILED: {error}", path.display());
            return Ok(Verdict::Bad);
        }
    };
    let profile = prepared.machine.profile();
    let mut wrong = Vec::new();
    let mut shown = Vec::new();
    for (buffer, (address, before)) in file.buffers.iter().zip(&prepared.buffers) {
        let mut now = vec![0; before.len()];
        prepared.machine.read(*address, &mut now)?;
        results(buffer, &now, &mut wrong, &mut shown)?;
    }
    let measurement = match options.repeat {
        0 => None,
        _ => Some(measure::measure(&prepared.machine, &launch, options, || reset(&prepared))?),
    };
    let Run { report, time, .. } = run;
    if options.json {
        let value = json!({
            "launch": path,
            "good": wrong.is_empty(),
            "instructions": report.instructions,
            "cycles": report.cycles,
            "macs": measure::macs_json(&report),
            "timing": profile.as_ref().map(|profile| timing::json(profile, &Labels::default(), true)),
            "measured": measurement.map(|measured| measured.json()),
            "wrong": wrong,
        });
        println!("{value}");
    } else {
        println!(
            "{}: {} on {}\n  {} instructions in {:.3} s ({:.1} M/s){}; clock {}",
            path.display(),
            lines.and_then(|lines| lines.locate(prepared.entry)).unwrap_or(format!("{:#x}", prepared.entry)),
            counted(u64::from(prepared.shire_mask.count_ones()), "shire"),
            grouped(report.instructions),
            time.as_secs_f64(),
            measure::mips(report.instructions, time),
            measure::macs(&report, time),
            grouped(report.cycles),
        );
        if let Some(profile) = &profile {
            timing::print(profile, &Labels::default());
        }
        shown.iter().for_each(|line| println!("  {line}"));
        wrong.iter().for_each(|line| println!("  WRONG: {line}"));
        if let Some(measurement) = measurement {
            measurement.print();
        }
    }
    Ok(if wrong.is_empty() { Verdict::Good } else { Verdict::Bad })
}

/// The buffers as before the launch.
fn reset(prepared: &Prepared) -> Result<()> {
    for (address, before) in &prepared.buffers {
        prepared.machine.write(*address, before)?;
    }
    Ok(())
}

/// Does with a buffer's contents what the file asks for.
fn results(buffer: &Buffer, now: &[u8], wrong: &mut Vec<String>, shown: &mut Vec<String>) -> Result<()> {
    if let Some(path) = &buffer.dump {
        std::fs::write(path, now).with_context(|| format!("can't write {}", path.display()))?;
    }
    if let Some(show) = &buffer.show {
        shown.push(format!("{}: {}", buffer.name, elements(*show, now)));
    }
    if let Some(expect) = &buffer.expect {
        let expected = std::fs::read(&expect.file).with_context(|| format!("can't read {}", expect.file.display()))?;
        wrong.extend(compare(expect, &expected, now).map(|what| format!("{} {what}", buffer.name)));
    }
    Ok(())
}

/// What is wrong with a buffer, as the end of a line.
fn compare(expect: &Expectation, expected: &[u8], now: &[u8]) -> Option<String> {
    if expected.len() > now.len() {
        return Some(format!("has {} bytes, expected are {}", now.len(), expected.len()));
    }
    let Some(tolerance) = expect.tolerance else {
        let mut differ = expected.iter().zip(now).enumerate().filter(|(_, (expected, now))| expected != now);
        let (at, (expected, now)) = differ.next()?;
        let more = differ.count();
        return Some(format!("differs at byte {at}: {now:#04x} instead of {expected:#04x}; {more} more differ"));
    };
    let close = |expected: f32, now: f32| {
        expected == now
            || (expected - now).abs() <= tolerance * expected.abs().max(1.0)
            || expected.is_nan() && now.is_nan()
    };
    let pairs = floats(expected).zip(floats(now)).enumerate();
    let mut differ = pairs.filter(|&(_, (expected, now))| !close(expected, now));
    let (at, (expected, now)) = differ.next()?;
    let more = differ.count();
    Some(format!("differs at element {at}: {now} instead of {expected}; {more} more differ"))
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

fn elements(show: Show, bytes: &[u8]) -> String {
    fn list<const N: usize>(bytes: &[u8], count: usize, text: impl Fn([u8; N]) -> String) -> String {
        let all = bytes.as_chunks::<N>().0.iter().take(count);
        all.map(|element| text(*element)).collect::<Vec<_>>().join(" ")
    }
    match show.kind {
        Element::F32 => list(bytes, show.count, |b| f32::from_le_bytes(b).to_string()),
        Element::I32 => list(bytes, show.count, |b| i32::from_le_bytes(b).to_string()),
        Element::U8 => list::<1>(bytes, show.count, |[b]| format!("{b:02x}")),
        Element::U32 => list(bytes, show.count, |b| u32::from_le_bytes(b).to_string()),
        Element::U64 => list(bytes, show.count, |b| format!("{:#x}", u64::from_le_bytes(b))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations() {
        let exact = Expectation { file: PathBuf::new(), tolerance: None };
        assert_eq!(compare(&exact, &[1, 2, 3], &[1, 2, 3, 4]), None);
        assert_eq!(
            compare(&exact, &[1, 2, 3], &[1, 0, 0]).unwrap(),
            "differs at byte 1: 0x00 instead of 0x02; 1 more differ"
        );
        assert_eq!(compare(&exact, &[1, 2], &[1]).unwrap(), "has 1 bytes, expected are 2");
        let near = Expectation { tolerance: Some(0.01), ..exact };
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        let expected = bytes(&[100.0, 0.0, f32::NAN, f32::INFINITY]);
        assert_eq!(compare(&near, &expected, &bytes(&[100.9, 0.009, f32::NAN, f32::INFINITY])), None);
        let wrong = compare(&near, &expected, &bytes(&[100.0, 0.02, 0.0, f32::INFINITY])).unwrap();
        assert_eq!(wrong, "differs at element 1: 0.02 instead of 0; 1 more differ");
    }

    #[test]
    fn elements_are_printed_by_type() {
        let show = |kind, count| elements(Show { kind, count }, &[0, 0, 0x80, 0xbf, 1, 0, 0, 0]);
        assert_eq!(show(Element::F32, 1), "-1");
        assert_eq!(show(Element::U8, 3), "00 00 80");
        assert_eq!(show(Element::I32, 9), "-1082130432 1");
        assert_eq!(show(Element::U64, 1), "0x1bf800000");
    }
}
