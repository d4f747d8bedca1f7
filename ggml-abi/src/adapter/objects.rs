// Between one epoch's structs (`sys`) and the traits of `face`: registry, devices, backends, and reading tensors. Included
// once per epoch by `epoch.rs`, together with `memory.rs`.
//
// Tables start zeroed, which is "not provided" for optional functions, whatever others an epoch has.
// In every trampoline: the host passes objects that `build`, or a trampoline of this file, made, and valid tensors.

use crate::face::{guard, Backend, Buffer, Device, HostBytes, Mark, Registry, Tensor, TensorRef};
use crate::host::Host;
use std::ffi::{c_char, c_void, CStr};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) const API: u32 = sys::GGML_BACKEND_API_VERSION;
pub(super) const TENSOR_SIZE: usize = size_of::<sys::ggml_tensor>();

/// Behind a registry object.
struct RegistryContext {
    registry: &'static dyn Registry,
    devices: Vec<*mut sys::ggml_backend_device>,
}

/// Behind a device object and its buffer type.
struct DeviceContext {
    device: &'static dyn Device,
    host: &'static Host,
    buffer_type: *mut sys::ggml_backend_buffer_type,
}

/// Behind a backend object.
struct BackendContext {
    backend: Box<dyn Backend>,
    device: &'static DeviceContext,
}

/// Identifies this backend's streams among others.
static mut GUID: sys::ggml_guid = *b"ggml-et ET-SoC-1";

/// Builds the registry object and, below it, one device and one buffer type each. They live as long as the process.
pub(super) fn build(host: &'static Host, registry: &'static dyn Registry) -> *mut c_void {
    // SAFETY: all-zero bytes are valid for these structs of integers, pointers and optional functions.
    let mut object: sys::ggml_backend_reg = unsafe { std::mem::zeroed() };
    object.api_version = API as i32;
    object.iface.get_name = Some(registry_name);
    object.iface.get_device_count = Some(registry_device_count);
    object.iface.get_device = Some(registry_device);
    object.iface.get_proc_address = Some(registry_proc_address);
    let object: *mut sys::ggml_backend_reg = Box::into_raw(Box::new(object));
    let devices = registry.devices().iter().map(|device| build_device(host, object, device.as_ref())).collect();
    let context = Box::leak(Box::new(RegistryContext { registry, devices }));
    // SAFETY: made above, and the host has not seen it yet.
    unsafe { (*object).context = std::ptr::from_mut(context).cast() };
    object.cast()
}

fn build_device(
    host: &'static Host,
    registry: *mut sys::ggml_backend_reg,
    device: &'static dyn Device,
) -> *mut sys::ggml_backend_device {
    // SAFETY: as in `build`.
    let mut object: sys::ggml_backend_device = unsafe { std::mem::zeroed() };
    object.iface.get_name = Some(device_name);
    object.iface.get_description = Some(device_description);
    object.iface.get_memory = Some(device_memory);
    object.iface.get_type = Some(device_type);
    object.iface.get_props = Some(device_props);
    object.iface.init_backend = Some(device_init_backend);
    object.iface.get_buffer_type = Some(device_buffer_type);
    object.iface.supports_op = Some(device_supports_op);
    object.iface.supports_buft = Some(device_supports_buft);
    object.iface.offload_op = Some(device_offload_op);
    object.iface.event_new = Some(event_new);
    object.iface.event_free = Some(event_free);
    object.iface.event_synchronize = Some(event_synchronize);
    object.reg = registry;
    let object = Box::into_raw(Box::new(object));

    // SAFETY: as in `build`.
    let mut buffer_type: sys::ggml_backend_buffer_type = unsafe { std::mem::zeroed() };
    buffer_type.iface.get_name = Some(buffer_type_name);
    buffer_type.iface.alloc_buffer = Some(buffer_type_alloc);
    buffer_type.iface.get_alignment = Some(buffer_type_alignment);
    buffer_type.iface.is_host = Some(buffer_type_is_host);
    buffer_type.device = object;
    let buffer_type = Box::into_raw(Box::new(buffer_type));

    let context = Box::into_raw(Box::new(DeviceContext { device, host, buffer_type }));
    // SAFETY: made above, and the host has not seen them yet.
    unsafe {
        (*object).context = context.cast();
        (*buffer_type).context = context.cast();
    }
    object
}

/// See `Epoch::read_tensor`.
///
/// # Safety
/// `raw` is a valid tensor of `host`, which has this epoch's layouts, and stays so while the result is used.
pub(super) unsafe fn read_tensor(raw: *const c_void, host: &'static Host) -> Tensor<'static> {
    use crate::names::Op;
    // SAFETY: the caller's duty, for every access below.
    unsafe {
        let tensor = &*raw.cast::<sys::ggml_tensor>();
        let op = host.op(tensor.op);
        let src = tensor.src.map(|source| (!source.is_null()).then(|| TensorRef::new(source.cast(), host)));
        let owner = if tensor.view_src.is_null() { tensor } else { &*tensor.view_src };
        Tensor {
            op,
            unary: (op == Op::Unary).then(|| host.unary_op(raw)),
            glu: (op == Op::Glu).then(|| host.glu_op(raw)),
            ty: host.ty(tensor.type_),
            ne: tensor.ne,
            nb: tensor.nb.map(|stride| stride as u64),
            params: tensor.op_params,
            compute: tensor.flags as u32 & sys::GGML_TENSOR_FLAG_COMPUTE != 0,
            addr: tensor.data as u64,
            name: CStr::from_bytes_until_nul(&*(&raw const tensor.name).cast::<[u8; 64]>()).unwrap_or_default(),
            view: !tensor.view_src.is_null() && !covers(tensor, owner),
            base: (!tensor.view_src.is_null()).then(|| TensorRef::new(tensor.view_src.cast(), host)),
            placed: is_ours(owner.buffer, host),
            src,
        }
    }
}

/// See `Epoch::fingerprint`.
///
/// # Safety
/// `raw` is a valid tensor of this epoch's layout.
pub(super) unsafe fn fingerprint(raw: *const c_void, words: &mut Vec<u64>) {
    /// Where a tensor is and how its elements lie.
    ///
    /// # Safety
    /// `tensor` is valid.
    unsafe fn place(tensor: &sys::ggml_tensor, slot: u64) -> [u64; 10] {
        // SAFETY: the caller's duty.
        let view = unsafe { tensor.view_src.as_ref() }.is_some_and(|owner| !covers(tensor, owner));
        let [a, b, c, d] = tensor.ne.map(|ne| ne as u64);
        let [e, f, g, h] = tensor.nb.map(|nb| nb as u64);
        let kind = u64::from(tensor.type_) << 32 | slot << 8 | u64::from(view);
        [kind, tensor.data as u64, a, b, c, d, e, f, g, h]
    }
    // SAFETY: the caller's duty, for every access below.
    unsafe {
        let tensor = &*raw.cast::<sys::ggml_tensor>();
        let wanted = tensor.flags as u32 & sys::GGML_TENSOR_FLAG_COMPUTE;
        words.push(u64::from(tensor.op) << 32 | u64::from(wanted));
        let (pairs, _) = tensor.op_params.as_chunks::<2>();
        words.extend(pairs.iter().map(|pair| u64::from(pair[0] as u32) | u64::from(pair[1] as u32) << 32));
        words.extend(place(tensor, 0));
        for (i, source) in tensor.src.iter().enumerate() {
            if let Some(source) = source.as_ref() {
                words.extend(place(source, i as u64 + 1));
            }
        }
    }
}

/// Whether a view shows all of its owner, as the results of CPY and of operations in place do.
fn covers(view: &sys::ggml_tensor, owner: &sys::ggml_tensor) -> bool {
    let elements = |tensor: &sys::ggml_tensor| tensor.ne.iter().try_fold(1i64, |n, &ne| n.checked_mul(ne));
    view.view_offs == 0 && view.type_ == owner.type_ && elements(view) == elements(owner)
}

/// Whether a buffer, possibly null, belongs to a device of this plugin.
///
/// # Safety
/// A buffer that is not null is valid.
unsafe fn is_ours(buffer: sys::ggml_backend_buffer_t, host: &Host) -> bool {
    if buffer.is_null() {
        return false;
    }
    // SAFETY: the caller's duty; a buffer has a type, whose device may be null.
    unsafe {
        let device = (*(*buffer).buft).device;
        !device.is_null() && (*device).reg.cast::<c_void>() == host.registry.load(Ordering::Acquire)
    }
}

// Registry

unsafe fn registry_context<'a>(reg: sys::ggml_backend_reg_t) -> &'a RegistryContext {
    // SAFETY: set by `build`, never freed.
    unsafe { &*(*reg).context.cast() }
}

unsafe extern "C" fn registry_name(reg: sys::ggml_backend_reg_t) -> *const c_char {
    guard(c"".as_ptr(), || {
        // SAFETY: the host's promise.
        unsafe { registry_context(reg) }.registry.name().as_ptr()
    })
}

unsafe extern "C" fn registry_device_count(reg: sys::ggml_backend_reg_t) -> usize {
    // SAFETY: the host's promise.
    guard(0, || unsafe { registry_context(reg) }.devices.len())
}

unsafe extern "C" fn registry_device(reg: sys::ggml_backend_reg_t, index: usize) -> sys::ggml_backend_dev_t {
    let null = std::ptr::null_mut();
    guard(null, || {
        // SAFETY: the host's promise.
        unsafe { registry_context(reg) }.devices.get(index).copied().unwrap_or(null)
    })
}

/// There are no functions beyond the tables.
unsafe extern "C" fn registry_proc_address(_reg: sys::ggml_backend_reg_t, _name: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}

// Device

unsafe fn device_context(dev: sys::ggml_backend_dev_t) -> &'static DeviceContext {
    // SAFETY: set by `build_device`, never freed.
    unsafe { &*(*dev).context.cast() }
}

unsafe extern "C" fn device_name(dev: sys::ggml_backend_dev_t) -> *const c_char {
    // SAFETY: the host's promise.
    guard(c"".as_ptr(), || unsafe { device_context(dev) }.device.name().as_ptr())
}

unsafe extern "C" fn device_description(dev: sys::ggml_backend_dev_t) -> *const c_char {
    guard(c"".as_ptr(), || {
        // SAFETY: the host's promise.
        unsafe { device_context(dev) }.device.description().as_ptr()
    })
}

unsafe extern "C" fn device_memory(dev: sys::ggml_backend_dev_t, free: *mut usize, total: *mut usize) {
    guard((), || {
        // SAFETY: the host's promise; both pointers are its own.
        unsafe {
            let memory = device_context(dev).device.memory();
            *free = memory.free as usize;
            *total = memory.total as usize;
        }
    });
}

unsafe extern "C" fn device_type(_dev: sys::ggml_backend_dev_t) -> sys::ggml_backend_dev_type {
    sys::GGML_BACKEND_DEVICE_TYPE_GPU
}

unsafe extern "C" fn device_props(dev: sys::ggml_backend_dev_t, props: *mut sys::ggml_backend_dev_props) {
    guard((), || {
        // SAFETY: the host's promise; zeroed as in `build`.
        unsafe {
            let device = device_context(dev).device;
            let memory = device.memory();
            let mut all: sys::ggml_backend_dev_props = std::mem::zeroed();
            all.name = device.name().as_ptr();
            all.description = device.description().as_ptr();
            all.memory_free = memory.free as usize;
            all.memory_total = memory.total as usize;
            all.type_ = sys::GGML_BACKEND_DEVICE_TYPE_GPU;
            all.caps.mmap_support = true;
            all.caps.async_ = true;
            all.caps.events = true;
            props.write(all);
        }
    });
}

unsafe extern "C" fn device_init_backend(dev: sys::ggml_backend_dev_t, _params: *const c_char) -> sys::ggml_backend_t {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the host's promise.
        let device = unsafe { device_context(dev) };
        let Some(backend) = device.device.backend() else {
            return std::ptr::null_mut();
        };
        // SAFETY: as in `build`.
        let mut object: sys::ggml_backend = unsafe { std::mem::zeroed() };
        object.guid = &raw mut GUID;
        object.iface.get_name = Some(backend_name);
        object.iface.free = Some(backend_free);
        object.iface.set_tensor_async = Some(backend_set_tensor);
        object.iface.get_tensor_async = Some(backend_get_tensor);
        object.iface.set_tensor_2d_async = Some(backend_set_tensor_2d);
        object.iface.get_tensor_2d_async = Some(backend_get_tensor_2d);
        object.iface.cpy_tensor_async = Some(backend_cpy_tensor);
        object.iface.synchronize = Some(backend_synchronize);
        object.iface.graph_compute = Some(backend_graph_compute);
        object.iface.event_record = Some(event_record);
        object.iface.event_wait = Some(event_wait);
        object.device = dev;
        object.context = Box::into_raw(Box::new(BackendContext { backend, device })).cast();
        Box::into_raw(Box::new(object))
    })
}

unsafe extern "C" fn device_buffer_type(dev: sys::ggml_backend_dev_t) -> sys::ggml_backend_buffer_type_t {
    // SAFETY: the host's promise.
    guard(std::ptr::null_mut(), || unsafe { device_context(dev) }.buffer_type)
}

unsafe extern "C" fn device_supports_op(dev: sys::ggml_backend_dev_t, op: *const sys::ggml_tensor) -> bool {
    guard(false, || {
        // SAFETY: the host's promise.
        let (device, node) = unsafe { with_tensor(dev, op) };
        device.supports(node)
    })
}

unsafe extern "C" fn device_supports_buft(
    dev: sys::ggml_backend_dev_t,
    buffer_type: sys::ggml_backend_buffer_type_t,
) -> bool {
    // SAFETY: the host's promise.
    guard(false, || unsafe { (*buffer_type).device } == dev)
}

unsafe extern "C" fn device_offload_op(dev: sys::ggml_backend_dev_t, op: *const sys::ggml_tensor) -> bool {
    guard(false, || {
        // SAFETY: the host's promise.
        let (device, node) = unsafe { with_tensor(dev, op) };
        device.offloads(node)
    })
}

unsafe fn with_tensor<'a>(
    dev: sys::ggml_backend_dev_t,
    op: *const sys::ggml_tensor,
) -> (&'static dyn Device, TensorRef<'a>) {
    // SAFETY: the caller's duty.
    unsafe {
        let context = device_context(dev);
        (context.device, TensorRef::new(op.cast(), context.host))
    }
}

// Backend

unsafe fn backend_context<'a>(backend: sys::ggml_backend_t) -> &'a BackendContext {
    // SAFETY: set by `device_init_backend`, freed by `backend_free`, after which the host does not use the backend.
    unsafe { &*(*backend).context.cast() }
}

unsafe extern "C" fn backend_name(backend: sys::ggml_backend_t) -> *const c_char {
    guard(c"".as_ptr(), || {
        // SAFETY: the host's promise.
        unsafe { backend_context(backend) }.device.device.name().as_ptr()
    })
}

unsafe extern "C" fn backend_free(backend: sys::ggml_backend_t) {
    // SAFETY: both boxes are those of `device_init_backend`, given up here.
    guard((), || unsafe {
        let object = Box::from_raw(backend);
        drop(Box::from_raw(object.context.cast::<BackendContext>()));
    });
}

unsafe extern "C" fn backend_set_tensor(
    backend: sys::ggml_backend_t,
    tensor: *mut sys::ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the host's promise, as in the next one.
    unsafe { backend_set_tensor_2d(backend, tensor, data, offset, size, 1, 0, 0) };
}

unsafe extern "C" fn backend_get_tensor(
    backend: sys::ggml_backend_t,
    tensor: *const sys::ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the host's promise, as in the one after the next.
    unsafe { backend_get_tensor_2d(backend, tensor, data, offset, size, 1, 0, 0) };
}

unsafe extern "C" fn backend_set_tensor_2d(
    backend: sys::ggml_backend_t,
    tensor: *mut sys::ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    guard((), || {
        for i in 0..if size == 0 { 0 } else { n_copies } {
            // SAFETY: the host's promise: `n_copies` runs of `size` readable bytes, `stride_data` apart, and a tensor of
            // this backend's device.
            unsafe {
                let run = std::slice::from_raw_parts(data.cast::<u8>().add(i * stride_data), size);
                backend_context(backend).backend.write(address(tensor, offset + i * stride_tensor), run);
            }
        }
    });
}

unsafe extern "C" fn backend_get_tensor_2d(
    backend: sys::ggml_backend_t,
    tensor: *const sys::ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    guard((), || {
        for i in 0..if size == 0 { 0 } else { n_copies } {
            // SAFETY: the host's promise: `n_copies` runs of `size` writable bytes, `stride_data` apart, that nobody else
            // uses until it synchronises, and a tensor of this backend's device.
            unsafe {
                let run = HostBytes::new(data.cast::<u8>().add(i * stride_data), size);
                backend_context(backend).backend.read(address(tensor, offset + i * stride_tensor), run);
            }
        }
    });
}

unsafe extern "C" fn backend_cpy_tensor(
    from: sys::ggml_backend_t,
    to: sys::ggml_backend_t,
    src: *const sys::ggml_tensor,
    dst: *mut sys::ggml_tensor,
) -> bool {
    guard(false, || {
        // SAFETY: the host's promise; `to` is a backend of this file's. The host has checked that both tensors have the
        // same layout.
        unsafe {
            let (source, buffer) = (buffer_of(src), buffer_of(dst));
            let ours = backend_context(to).device.buffer_type;
            let both = !buffer.is_null() && (*buffer).buft == ours && !source.is_null() && (*source).buft == ours;
            // What another device's stream has still to do can't be waited for here.
            if !both || (*from).device != (*to).device {
                return false;
            }
            let bytes = (backend_context(to).device.host.functions.nbytes)(src.cast());
            backend_context(to).backend.copy(address(dst, 0), address(src, 0), bytes as u64);
            true
        }
    })
}

unsafe extern "C" fn backend_synchronize(backend: sys::ggml_backend_t) {
    // SAFETY: the host's promise.
    guard((), || unsafe { backend_context(backend) }.backend.synchronize());
}

unsafe extern "C" fn backend_graph_compute(
    backend: sys::ggml_backend_t,
    graph: *mut sys::ggml_cgraph,
) -> sys::ggml_status {
    guard(sys::GGML_STATUS_FAILED, || {
        // SAFETY: the host's promise: a valid graph, unchanged during the call.
        let (context, nodes, uid) = unsafe {
            let context = backend_context(backend);
            let count = (*graph).n_nodes as usize;
            let nodes: Vec<TensorRef<'_>> =
                (0..count).map(|i| TensorRef::new((*(*graph).nodes.add(i)).cast(), context.device.host)).collect();
            (context, nodes, uid(&*graph))
        };
        if context.backend.compute(&nodes, uid) {
            sys::GGML_STATUS_SUCCESS
        } else {
            sys::GGML_STATUS_FAILED
        }
    })
}

// Events: behind each is the mark that was recorded last.

type Marked = Mutex<Option<Mark>>;

unsafe extern "C" fn event_new(dev: sys::ggml_backend_dev_t) -> sys::ggml_backend_event_t {
    guard(std::ptr::null_mut(), || {
        let context: Box<Marked> = Box::default();
        Box::into_raw(Box::new(sys::ggml_backend_event { device: dev, context: Box::into_raw(context).cast() }))
    })
}

unsafe extern "C" fn event_free(_dev: sys::ggml_backend_dev_t, event: sys::ggml_backend_event_t) {
    // SAFETY: both boxes are those of `event_new`, given up here.
    guard((), || unsafe {
        let event = Box::from_raw(event);
        drop(Box::from_raw(event.context.cast::<Marked>()));
    });
}

unsafe fn marked<'a>(event: sys::ggml_backend_event_t) -> MutexGuard<'a, Option<Mark>> {
    // SAFETY: set by `event_new`, freed by `event_free`, after which the host does not use the event.
    unsafe { &*(*event).context.cast::<Marked>() }.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn event_record(backend: sys::ggml_backend_t, event: sys::ggml_backend_event_t) {
    // SAFETY: the host's promise.
    guard((), || unsafe { *marked(event) = Some(backend_context(backend).backend.mark()) });
}

unsafe extern "C" fn event_wait(backend: sys::ggml_backend_t, event: sys::ggml_backend_event_t) {
    guard((), || {
        // SAFETY: the host's promise; a device with events has the function.
        unsafe {
            let device = (*event).device;
            // The work of one device is done in the order in which it came, so what follows waits anyway.
            if device != (*backend).device {
                if let Some(synchronize) = (*device).iface.event_synchronize {
                    synchronize(device, event);
                }
            }
        }
    });
}

unsafe extern "C" fn event_synchronize(_dev: sys::ggml_backend_dev_t, event: sys::ggml_backend_event_t) {
    guard((), || {
        // SAFETY: the host's promise.
        let mark = unsafe { marked(event) }.clone();
        if let Some(mark) = mark {
            mark.wait();
        }
    });
}
