//! What a plugin implements and what it is given, free of any host's layouts.
//!
//! Every call from the host is caught when it panics. Calls may come from several threads at once.

use crate::host::Host;
use crate::names::{GluOp, Op, Type, UnaryOp};
use std::ffi::{c_void, CStr};
use std::marker::PhantomData;
use std::sync::Arc;

/// The whole plugin: its devices.
pub trait Registry: Send + Sync {
    /// The registry's name.
    fn name(&self) -> &CStr;
    /// The devices, the same ones for the life of the process.
    fn devices(&self) -> &[Box<dyn Device>];
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What can still be allocated.
    pub free: u64,
    /// All that the host may use.
    pub total: u64,
}

/// One device and its one kind of buffer.
pub trait Device: Send + Sync {
    /// Short name, also the buffer type's.
    fn name(&self) -> &CStr;
    /// What it is, for a person.
    fn description(&self) -> &CStr;
    /// True figures; must not open the device.
    fn memory(&self) -> Memory;
    /// Alignment of tensors in buffers, a power of two.
    fn alignment(&self) -> usize;
    /// Whether the device computes `node`, which may have no memory yet.
    fn supports(&self, node: TensorRef<'_>) -> bool;
    /// Whether `node` is worth moving here although its weights are in host memory.
    fn offloads(&self, node: TensorRef<'_>) -> bool;
    /// A buffer of `size` bytes. `None` (already logged) when there is no memory.
    fn allocate(&self, size: usize) -> Option<Box<dyn Buffer>>;
    /// A stream of work. `None` (already logged) when the device can't be opened.
    fn backend(&self) -> Option<Box<dyn Backend>>;
}

/// Device memory. Addresses are device addresses, as in `Tensor::addr`; failures are logged, and remembered by the
/// device so that no later computation passes for good.
pub trait Buffer: Send + Sync {
    /// Address of the first byte, never 0.
    fn base(&self) -> u64;
    /// Sets every byte.
    fn clear(&self, byte: u8);
    /// Copies `data` to the device.
    fn write(&self, addr: u64, data: &[u8]);
    /// Copies from the device.
    fn read(&self, addr: u64, out: &mut [u8]);
    /// Sets `len` bytes.
    fn fill(&self, addr: u64, len: u64, byte: u8);
    /// Copies inside the device.
    fn copy(&self, dst: u64, src: u64, len: u64);
}

/// Host memory that the host keeps alive, and leaves alone, until it synchronises.
pub struct HostBytes {
    start: *mut u8,
    len: usize,
}

// SAFETY: it is the only one that the host lets use these bytes, see `HostBytes::new`.
unsafe impl Send for HostBytes {}

impl HostBytes {
    /// # Safety
    /// `start` points to `len` initialised bytes that nobody else uses before the host's next synchronisation with the
    /// backend that this is given to, or with its device.
    pub(crate) unsafe fn new(start: *mut u8, len: usize) -> HostBytes {
        HostBytes { start, len }
    }

    /// The bytes. To be called, and the result used, before such a synchronisation returns.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as promised to `new`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// A stream of work on a device. The work of all streams of a device is done in the order in which it came. What fails
/// after its call has returned is logged, and fails the next computation.
pub trait Backend: Send {
    /// Computes the nodes in order. `false`: something failed and was logged. While `uid` is the same and not 0, so is all
    /// that the nodes say, names excepted.
    fn compute(&self, graph: &[TensorRef<'_>], uid: u64) -> bool;
    /// Copies `data` to the device, after the work so far.
    fn write(&self, addr: u64, data: &[u8]);
    /// Copies from the device, after the work so far.
    fn read(&self, addr: u64, out: HostBytes);
    /// Copies inside the device, after the work so far.
    fn copy(&self, dst: u64, src: u64, len: u64);
    /// Returns when all work is done.
    fn synchronize(&self);
    /// The work so far, to wait for.
    fn mark(&self) -> Mark;
}

/// A point in the work of a device.
#[derive(Clone)]
pub struct Mark(pub Arc<dyn Fn() + Send + Sync>);

impl Mark {
    /// Returns when all work before it is done.
    pub fn wait(&self) {
        (self.0)();
    }
}

/// A host's tensor, alive for `'a`.
#[derive(Clone, Copy)]
pub struct TensorRef<'a> {
    raw: *const c_void,
    host: &'static Host,
    life: PhantomData<&'a c_void>,
}

impl<'a> TensorRef<'a> {
    /// # Safety
    /// `raw` points to a tensor of `host`'s epoch that is valid, and not written, for `'a`.
    pub(crate) unsafe fn new(raw: *const c_void, host: &'static Host) -> TensorRef<'a> {
        TensorRef { raw, host, life: PhantomData }
    }

    /// Appends all that its computation depends on, names excepted: two tensors with the same words, and the same memory
    /// behind their addresses, are computed alike.
    pub fn fingerprint(self, words: &mut Vec<u64>) {
        // SAFETY: as in `read`.
        unsafe { (self.host.epoch.fingerprint)(self.raw, words) }
    }

    /// Copies the fields out.
    pub fn read(self) -> Tensor<'a> {
        // SAFETY: `new`'s caller vouches for the pointer, its epoch and its lifetime.
        unsafe { (self.host.epoch.read_tensor)(self.raw, self.host) }
    }
}

/// A tensor's fields.
pub struct Tensor<'a> {
    /// Operation that computes it.
    pub op: Op,
    /// Set when `op` is UNARY.
    pub unary: Option<UnaryOp>,
    /// Set when `op` is GLU.
    pub glu: Option<GluOp>,
    /// Element type.
    pub ty: Type,
    /// Elements per dimension.
    pub ne: [i64; 4],
    /// Bytes between neighbours per dimension.
    pub nb: [u64; 4],
    /// `op_params`, raw.
    pub params: [i32; 16],
    /// The host wants it computed. Clear for nodes that are in a graph for their shape only.
    pub compute: bool,
    /// Device address, 0 before allocation.
    pub addr: u64,
    /// Name, possibly empty.
    pub name: &'a CStr,
    /// It is a view of a part of another tensor.
    pub view: bool,
    /// The tensor whose memory it shares, if it is a view or is computed in place.
    pub base: Option<TensorRef<'a>>,
    /// It (or what it is a view of) has been given a place in a buffer of the device that is asked.
    pub placed: bool,
    /// Sources.
    pub src: [Option<TensorRef<'a>>; 10],
}

/// Runs `body`, and gives `fallback` when it panics. The panic hook has said what happened.
pub(crate) fn guard<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(fallback)
}
