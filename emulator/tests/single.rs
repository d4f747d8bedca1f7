//! Recorded single instructions: every record, bit for bit. One test program for all files, since each compiles the
//! whole executor for its platform.

mod common;

use common::run_file;

#[test]
fn scalar() {
    run_file("scalar.jsonl.xz", |_| 0);
}

#[test]
fn vector() {
    run_file("vector.jsonl.xz", |_| 0);
}

#[test]
fn traps() {
    run_file("trap.jsonl.xz", |_| 0);
}

/// The recorded values come from interpolated tables; ours are rounded correctly, and may differ by what the tables'
/// error allows. Special values are exact.
#[test]
fn transcendental() {
    run_file("trans.jsonl.xz", |op| if op == "flog.ps" { 3 } else { 2 });
}
