//! A buffer: a block of device memory.

use crate::device::session::Session;
use crate::device::Driver;
use anyhow::Result;
use ggml_abi::face::Buffer;
use std::sync::Arc;

/// Device memory that is given back when dropped. Keeps the device open.
pub struct EtBuffer {
    session: Arc<Session>,
    base: u64,
    size: u64,
}

impl EtBuffer {
    /// Takes `size` bytes.
    pub fn new(session: Arc<Session>, size: u64) -> Result<EtBuffer> {
        let base = session.take(size, "buffer")?;
        Ok(EtBuffer { session, base, size })
    }

    /// The device once all work is done: the host expects its transfers to find, and to leave, what was computed before.
    fn driver(&self) -> &dyn Driver {
        self.session.settle();
        self.session.driver()
    }

    fn check(&self, what: &str, done: Result<()>) {
        if let Err(error) = done {
            self.session.lose(format!("{what} failed: {error:#}"));
        }
    }
}

impl Drop for EtBuffer {
    fn drop(&mut self) {
        self.session.settle();
        self.session.give_buffer(self.base);
    }
}

impl Buffer for EtBuffer {
    fn base(&self) -> u64 {
        self.base
    }

    fn clear(&self, byte: u8) {
        self.fill(self.base, self.size, byte);
    }

    fn write(&self, addr: u64, data: &[u8]) {
        self.check("writing to the device", self.driver().write(addr, data));
    }

    fn read(&self, addr: u64, out: &mut [u8]) {
        self.session.settle();
        self.check("reading from the device", self.session.read(addr, out));
    }

    fn fill(&self, addr: u64, len: u64, byte: u8) {
        self.check("filling device memory", self.driver().fill(addr, len, byte));
    }

    fn copy(&self, dst: u64, src: u64, len: u64) {
        self.check("copying inside the device", self.driver().copy(dst, src, len));
    }
}
