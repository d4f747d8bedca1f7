//! Launches that the plugin captures: two commands of a graph, replayed bit for bit.

use et_emulator::capture::{Capture, Outcome};
use et_emulator::labels::{Command, Extent};
use et_emulator::{Config, Machine};
use ggml_abi::{Op, Type};
use ggml_et::command::{ET_MEET, ET_REFRESH};
use ggml_et::device::capture::Captures;
use ggml_et::device::emulated::Emulated;
use ggml_et::device::program::Program;
use ggml_et::device::session::Session;
use ggml_et::graph::{Node, Operand};
use ggml_et::ops::{self, Lowered};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const COUNT: i64 = 1000;

fn floats(addr: u64) -> Operand {
    let row = 4 * COUNT as u64;
    Operand { addr, ty: Type::F32, ne: [COUNT, 1, 1, 1], nb: [4, row, row, row], view: false }
}

/// `dst` = `a` `op` `b`, as a node and by name.
fn node(op: Op, [dst, a, b]: [(u64, &str); 3]) -> (Node, Command) {
    let mut src = [const { None }; 10];
    src[0] = Some(floats(a.0));
    src[1] = Some(floats(b.0));
    let operands =
        [dst, a, b].map(|(address, name)| Extent { address, bytes: 4 * COUNT as u64, name: name.to_owned() });
    let (kernel, op_name) = ("binary".to_owned(), op.name().to_owned());
    let command = Command { kernel, op: op_name, also: 0, operands: operands.to_vec() };
    (Node { op, sub: None, name: dst.1.to_owned(), dst: floats(dst.0), src, params: [0; 16] }, command)
}

/// Runs sum = a + b and product = sum * a on a device of `shires` shires three times; the second launch is captured.
fn captured(directory: &Path, shires: u32, threads: usize) -> PathBuf {
    let _ = std::fs::remove_dir_all(directory);
    let config = Config { shires, dram_bytes: 1 << 28, threads, ..Config::default() };
    let driver = Emulated::open(&config).unwrap();
    let driver = driver.capturing(Arc::new(Captures::new(directory.to_owned(), 2..=2))).unwrap();
    let session = Arc::new(Session::open(Box::new(driver), (1 << shires) - 1, None, None).unwrap());
    let upload = |factor: f32| {
        let addr = session.take(4 * COUNT as u64, "buffer").unwrap();
        let bytes: Vec<u8> = (0..COUNT).flat_map(|i| (i as f32 * factor).to_le_bytes()).collect();
        session.driver().write(addr, &bytes).unwrap();
        addr
    };
    let [a, b, sum, product] = [0.25, 1.5, 0.0, 0.0].map(upload);
    let nodes = [
        node(Op::Add, [(sum, "sum"), (a, "a"), (b, "b")]),
        node(Op::Mul, [(product, "product"), (sum, "sum"), (a, "a")]),
    ];
    for _ in 0..3 {
        let command = |(node, _): &(Node, Command)| match ops::lower(node) {
            Ok(Lowered::Command(command)) => command.raw,
            _ => panic!("{} is refused", node.label()),
        };
        let mut commands = nodes.each_ref().map(command);
        commands[1].src[0].flags |= ET_REFRESH;
        commands[1].flags = ET_MEET as u16;
        let names = || nodes.iter().map(|(_, command)| command.clone()).collect();
        let mut program = Program::new(&session, commands.to_vec(), 0, None).unwrap();
        session.run(&mut program, false, &names).unwrap();
    }
    let left: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["launch-00002"]);
    directory.join("launch-00002")
}

#[test]
fn a_launch_replays_bit_for_bit() {
    for (shires, captured_by) in [(1, 1), (2, 2)] {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capture-{shires}"));
        let capture = Capture::read(&captured(&directory, shires, captured_by)).unwrap();
        let Outcome::Completed { instructions, .. } = capture.outcome else { panic!("{:?}", capture.outcome) };
        for threads in [1, 2] {
            let machine = Machine::new(capture.config(threads)).unwrap();
            capture.load(&machine).unwrap();
            let lines = capture.lines();
            let report = machine.launch(&capture.launch(Some(&lines))).unwrap();
            assert_eq!(report.instructions, instructions);
            let differences = capture.compare(&machine).unwrap();
            assert_eq!(differences.bytes, 0, "{shires} shires, {threads} threads: {:?}", differences.places);
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn a_capture_names_what_it_holds() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capture-names");
    let mut capture = Capture::read(&captured(&directory, 1, 1)).unwrap();
    let labels = &capture.labels;
    let buffers: Vec<&str> = labels.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
    let expected =
        ["image", "status", "barrier counter", "timestamps", "buffer", "buffer", "buffer", "buffer", "commands"];
    assert_eq!(buffers, expected);
    assert_eq!(labels.commands.iter().map(|command| command.tensor()).collect::<Vec<_>>(), ["sum", "product"]);
    let volatile: Vec<&str> = capture.volatile.iter().map(|range| range.name.as_str()).collect();
    assert_eq!(volatile, ["stacks", "timestamps"]);

    // A wrong result is named by its tensor.
    let machine = Machine::new(capture.config(1)).unwrap();
    let product = capture.labels.commands[1].operands[0].address;
    capture.load(&machine).unwrap();
    machine.launch(&capture.launch(None)).unwrap();
    machine.poke(product + 8, &[0xFF]).unwrap();
    let differences = capture.compare(&machine).unwrap();
    assert_eq!(differences.bytes, 1);
    assert!(differences.places[0].to_string().contains("(product + 8)"), "{}", differences.places[0]);

    // Times and stacks differ from run to run, and would be told.
    capture.volatile.clear();
    machine.poke(product + 8, &[0xFE]).unwrap();
    machine.poke(capture.labels.timestamps.unwrap(), &[1; 8]).unwrap();
    assert!(capture.compare(&machine).unwrap().bytes > 1);
    std::fs::remove_dir_all(directory).unwrap();
}
