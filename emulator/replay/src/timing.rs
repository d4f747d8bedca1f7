//! What the timing model says of a launch, as a table and for programs.

use crate::files::grouped;
use et_emulator::labels::Labels;
use et_emulator::timing::constants::MHZ;
use et_emulator::timing::{Cause, Command, Profile};
use serde_json::{json, Value};

const HEADER: &str = "cycles      %  hart |  iss prt lat fch mem ten syn wait |     L1     L2     L3   DRAM    SCP |     int8      f16      f32    lanes | comp dram";

/// One line for each command, then the sums by kernel.
pub fn print(profile: &Profile, labels: &Labels) {
    let total = profile.total();
    println!(
        "  modelled: {} cycles, {:.3} ms at {MHZ} MHz; {:.1} % of the compute roof, {:.1} % of the DRAM's",
        grouped(total.cycles),
        total.cycles as f64 / MHZ as f64 / 1e3,
        100.0 * profile.compute_share(&total),
        100.0 * profile.dram_share(&total),
    );
    println!("    {:>4} {HEADER} | command", "");
    let label = |i: usize| labels.commands.get(i);
    for (i, command) in profile.commands.iter().enumerate() {
        let name = label(i).map_or(String::new(), |label| format!("{} {}", label.kernel, label.tensor()));
        println!("    {i:>4} {} | {name}", line(profile, command, &total));
    }
    if profile.outside != Command::default() {
        println!("    {:>4} {} | outside commands", "", line(profile, &profile.outside, &total));
    }
    let sums = by_kernel(profile, labels);
    if sums.len() > 1 {
        println!("    {:>4} {HEADER} | sum by kernel", "");
        for (kernel, count, sum) in &sums {
            println!("    {count:>4} {} | {kernel}", line(profile, sum, &total));
        }
    }
    println!("    {:>4} {} | all", "", line(profile, &total, &total));
    println!("    hart: the one that waited least for others; iss ... syn: what its time went to, in %: own instructions, the");
    println!("    minion's other hart, results of arithmetic, branches and code, memory, tensor operations, barriers and credits.");
    println!("    wait: how often the hart that waited most often did; L1 ... SCP: bytes; int8, f16, f32: tensor multiply-accumulates; comp, dram: % of the roofs.");
}

fn line(profile: &Profile, command: &Command, total: &Command) -> String {
    let spent: u64 = command.spent.iter().sum::<u64>().max(1);
    let shares: String = command.spent.iter().map(|part| format!(" {:>3.0}", percent(*part, spent))).collect();
    let bytes: String = command.bytes.iter().map(|bytes| format!(" {:>6}", short(*bytes))).collect();
    let work: String = command.work.iter().map(|count| format!(" {:>8}", short(*count))).collect();
    format!(
        "{:>10} {:>6.2} {:>5} | {shares} {:>4} |{bytes} |{work} | {:>4.1} {:>4.1}",
        grouped(command.cycles),
        percent(command.cycles, total.cycles),
        command.critical,
        command.waits,
        100.0 * profile.compute_share(command),
        100.0 * profile.dram_share(command),
    )
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Three or four digits and a prefix: 1234567 as "1.23M".
fn short(count: u64) -> String {
    let mut value = count as f64;
    for prefix in ["", "K", "M", "G"] {
        if value < 999.5 {
            let digits = match value {
                _ if prefix.is_empty() => 0,
                v if v < 9.995 => 2,
                v if v < 99.95 => 1,
                _ => 0,
            };
            return format!("{value:.digits$}{prefix}");
        }
        value /= 1e3;
    }
    format!("{value:.1}T")
}

/// Commands with the same kernel as one, the longest first. The stall causes are those of their critical harts together.
fn by_kernel<'a>(profile: &Profile, labels: &'a Labels) -> Vec<(&'a str, u64, Command)> {
    let mut sums: Vec<(&str, u64, Command)> = Vec::new();
    for (command, label) in profile.commands.iter().zip(&labels.commands) {
        let place = sums.iter().position(|sum| sum.0 == label.kernel).unwrap_or_else(|| {
            sums.push((&label.kernel, 0, Command { critical: command.critical, ..Command::default() }));
            sums.len() - 1
        });
        sums[place].1 += 1;
        sums[place].2.join(command);
    }
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.2.cycles));
    sums
}

/// The same for programs; `every` adds the single commands.
pub fn json(profile: &Profile, labels: &Labels, every: bool) -> Value {
    let command = |command: &Command| {
        let spent: serde_json::Map<_, _> =
            Cause::NAMES.iter().zip(command.spent).map(|(name, part)| ((*name).to_owned(), json!(part))).collect();
        let [l1, l2, l3, dram, scratchpad] = command.bytes;
        let [int8, f16, f32, lanes] = command.work;
        json!({
            "cycles": command.cycles,
            "critical_hart": command.critical,
            "spent": spent,
            "bytes": { "l1": l1, "l2": l2, "l3": l3, "dram": dram, "scratchpad": scratchpad },
            "macs": { "int8": int8, "f16": f16, "f32": f32, "lanes": lanes },
            "instructions": command.instructions,
            "waits": command.waits,
            "compute_share": profile.compute_share(command),
            "dram_share": profile.dram_share(command),
        })
    };
    let commands = profile.commands.iter().enumerate().map(|(i, one)| {
        let mut value = command(one);
        if let Some(label) = labels.commands.get(i) {
            value["kernel"] = json!(label.kernel);
            value["op"] = json!(label.op);
            value["tensor"] = json!(label.tensor());
        }
        value
    });
    json!({
        "cycles": profile.cycles,
        "minions": profile.minions,
        "mhz": MHZ,
        "total": command(&profile.total()),
        "outside": command(&profile.outside),
        "commands": every.then(|| commands.collect::<Vec<_>>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        assert_eq!(
            [0, 999, 1000, 12_345, 123_456, 9_999_000].map(short),
            ["0", "999", "1.00K", "12.3K", "123K", "10.0M"]
        );
        assert_eq!(short(5_000_000_000_000), "5.0T");
    }
}
