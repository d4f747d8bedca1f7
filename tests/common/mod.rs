//! One node at a time on an emulated device: what the kernels' tests share.

use std::sync::Arc;

use et_emulator::Config;
use ggml_abi::Type;
use ggml_et::device::emulated::Emulated;
use ggml_et::device::program::Program;
use ggml_et::device::session::{Failure, Session};
use ggml_et::graph::{Node, Operand};
use ggml_et::ops::{self, common::block, Lowered};

/// An emulated device of its own.
pub struct Device(Arc<Session>);

impl Device {
    /// A device of `shires` shires.
    pub fn new(shires: u32) -> Device {
        let config = Config { shires, dram_bytes: 1 << 28, ..Config::default() };
        let mask = (1u64 << shires) - 1;
        Device(Arc::new(Session::open(Box::new(Emulated::open(&config).unwrap()), mask, None, None).unwrap()))
    }

    /// `bytes` in device memory.
    pub fn upload(&self, bytes: &[u8]) -> u64 {
        let addr = self.0.take(bytes.len() as u64, "tensor").unwrap();
        self.0.driver().write(addr, bytes).unwrap();
        addr
    }

    /// The same byte all over a part of device memory.
    #[allow(dead_code)] // not by every test
    pub fn fill(&self, addr: u64, bytes: usize, byte: u8) {
        self.0.driver().fill(addr, bytes as u64, byte).unwrap();
    }

    /// Device memory.
    pub fn download(&self, addr: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        self.0.driver().read(addr, &mut out).unwrap();
        out
    }

    /// Runs one node.
    pub fn run(&self, node: &Node) -> Result<(), Failure> {
        self.run_group(std::slice::from_ref(node))
    }

    /// Runs nodes in one call of the first one's kernel.
    pub fn run_group(&self, nodes: &[Node]) -> Result<(), Failure> {
        let mut workspace = 0;
        let lower = |node: &Node| {
            let Ok(Lowered::Command(mut command)) = ops::lower(node) else { panic!("{} is refused", node.label()) };
            command.raw.workspace_size = command.workspace;
            workspace = command.workspace.max(workspace);
            command.raw
        };
        let mut commands: Vec<_> = nodes.iter().map(lower).collect();
        commands[0].group = nodes.len() as u16;
        let mut program = Program::new(&self.0, commands, workspace, None)?;
        self.0.run(&mut program, false, &Vec::new).map(|_| ())
    }
}

/// A contiguous tensor at `addr`.
pub fn contiguous(addr: u64, ty: Type, ne: [i64; 4]) -> Operand {
    let (elements, bytes) = block(ty).unwrap();
    let row = ne[0] as u64 / elements as u64 * bytes;
    let plane = row * ne[1] as u64;
    Operand { addr, ty, ne, nb: [bytes, row, plane, plane * ne[2] as u64], view: false }
}

/// Floats as memory has them.
pub fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Floats out of memory.
pub fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}
