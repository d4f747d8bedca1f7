//! Every record of sync.jsonl.xz: whole programs, several times, as their result must not depend on scheduling.

#[allow(dead_code)] // for its `records`
mod common;
mod machine;

use et_emulator::elf::Image;
use machine::{bytes, entries, launch, number};
use serde_json::Value;

fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("not base64"),
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().map(digit).collect();
    let decode = |group: &[u8]| {
        let bits = group.iter().enumerate().fold(0, |bits, (i, d)| bits | u32::from(*d) << (18 - 6 * i));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    digits.chunks(4).flat_map(decode).collect()
}

fn pieces<'a>(record: &'a Value, group: &'a str) -> impl Iterator<Item = (u64, Vec<u8>)> + 'a {
    entries(&record["mem"], group).map(|(addr, data)| (number(addr), bytes(data)))
}

fn check(threads: usize, record: &Value) -> Result<(), String> {
    let text = |key: &str| record[key].as_str().expect("a string");
    let shires = record["shires"].as_array().expect("shires");
    let shire_mask = shires.iter().fold(0, |mask, s| mask | 1 << s.as_u64().expect("a shire"));
    let machine = machine::machine(2, threads);
    let image = Image::parse(&base64(text("elf"))).map_err(|error| error.to_string())?;
    let entry = image.place(&machine, image.base()).map_err(|error| error.to_string())?;
    assert_eq!(entry, number(text("entry")));
    for (addr, data) in pieces(record, "in") {
        machine.write(addr, &data).unwrap();
    }
    let launch = launch(entry, shire_mask);
    machine.launch_at(&launch, number(text("a0")), number(text("a1"))).map_err(|error| error.to_string())?;
    for (addr, data) in pieces(record, "out") {
        let mut got = vec![0; data.len()];
        machine.read(addr, &mut got).unwrap();
        if let Some(at) = (0..data.len()).find(|&i| got[i] != data[i]) {
            let at_addr = addr + at as u64;
            return Err(format!("memory {at_addr:x} is {:02x}, expected {:02x}", got[at], data[at]));
        }
    }
    Ok(())
}

fn all_records(threads: usize, times: usize) {
    let records = common::records("sync.jsonl.xz");
    let mut wrong = Vec::new();
    for record in &records {
        for _ in 0..times {
            if let Err(difference) = check(threads, record) {
                wrong.push(format!("{}: {difference}", record["id"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), records.len(), wrong.join("\n"));
}

#[test]
fn on_one_thread() {
    all_records(1, 1);
}

#[test]
fn on_two_threads() {
    all_records(2, 3);
}

#[test]
fn on_five_threads() {
    all_records(5, 1);
}
