//! Every record of sync.jsonl.xz: whole programs, several times, as their result must not depend on scheduling.

mod machine;
mod records;

use et_emulator::elf::Image;
use et_emulator::LaunchError;
use machine::{compare_memory, launch, machine, read_memory, write_memory};
use records::{bytes, entries, number, sources, text};
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

fn check(threads: usize, record: &Value) -> Result<(), String> {
    let get = |key: &str| text(&record[key]);
    let shires: Vec<u64> = record["shires"].as_array().expect("shires").iter().filter_map(Value::as_u64).collect();
    let machine = machine(1 + shires.iter().max().map_or(0, |&last| last as u32), threads);
    let image = Image::parse(&base64(get("elf"))).map_err(|error| error.to_string())?;
    let base = image.place(&machine, image.base()).map_err(|error| error.to_string())?;
    assert_eq!(base, number(get("entry")));
    for (addr, data) in entries(&record["mem"], "in") {
        write_memory(&machine, number(addr), &bytes(data));
    }
    let launch = launch(base, shires.iter().fold(0, |mask, shire| mask | 1 << shire));
    let result = machine.launch_at(&launch, number(get("a0")), number(get("a1")));
    match (result, record["ret"].as_i64().expect("a number")) {
        (Ok(_), 0..) => {}
        (Err(LaunchError::BadReturn { value, .. }), want) if value == want => {}
        (Err(error), _) => return Err(error.to_string()),
        (Ok(_), want) => return Err(format!("should have returned {want}")),
    }
    for (addr, data) in entries(&record["mem"], "out") {
        let (addr, data) = (number(addr), bytes(data));
        compare_memory(addr, &read_memory(&machine, addr, data.len()), &data)?;
    }
    Ok(())
}

fn all_records(threads: usize, times: usize) {
    for source in sources("sync.jsonl.xz") {
        for _ in 0..times {
            source.check(&format!("{threads} threads"), |record| check(threads, record));
        }
    }
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
