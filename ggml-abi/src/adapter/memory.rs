// Buffer types and buffers, and moving data. Included after `objects.rs`, whose imports it shares.

/// Behind a buffer object.
struct BufferContext {
    buffer: Box<dyn Buffer>,
    host: &'static Host,
}

type BufferInit = unsafe extern "C" fn(
    sys::ggml_backend_buffer_type_t,
    sys::ggml_backend_buffer_i,
    *mut c_void,
    usize,
) -> sys::ggml_backend_buffer_t;

// Buffer type

unsafe fn buffer_type_context(buffer_type: sys::ggml_backend_buffer_type_t) -> &'static DeviceContext {
    // SAFETY: set by `build_device`, never freed.
    unsafe { &*(*buffer_type).context.cast() }
}

unsafe extern "C" fn buffer_type_name(buffer_type: sys::ggml_backend_buffer_type_t) -> *const c_char {
    guard(c"".as_ptr(), || {
        // SAFETY: the host's promise.
        unsafe { buffer_type_context(buffer_type) }.device.name().as_ptr()
    })
}

unsafe extern "C" fn buffer_type_alloc(
    buffer_type: sys::ggml_backend_buffer_type_t,
    size: usize,
) -> sys::ggml_backend_buffer_t {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the host's promise.
        let device = unsafe { buffer_type_context(buffer_type) };
        let Some(buffer) = device.device.allocate(size) else {
            return std::ptr::null_mut();
        };
        // SAFETY: as in `build`.
        let mut table: sys::ggml_backend_buffer_i = unsafe { std::mem::zeroed() };
        table.free_buffer = Some(buffer_free);
        table.get_base = Some(buffer_base);
        table.memset_tensor = Some(buffer_memset_tensor);
        table.set_tensor = Some(buffer_set_tensor);
        table.get_tensor = Some(buffer_get_tensor);
        table.set_tensor_2d = Some(buffer_set_tensor_2d);
        table.get_tensor_2d = Some(buffer_get_tensor_2d);
        table.cpy_tensor = Some(buffer_cpy_tensor);
        table.clear = Some(buffer_clear);
        let context = Box::into_raw(Box::new(BufferContext { buffer, host: device.host }));
        // SAFETY: the host's function has this type in this epoch. The host frees the object itself, so it must be the
        // one that makes it.
        unsafe {
            let init: BufferInit = std::mem::transmute(device.host.functions.buffer_init);
            init(buffer_type, table, context.cast(), size)
        }
    })
}

unsafe extern "C" fn buffer_type_alignment(buffer_type: sys::ggml_backend_buffer_type_t) -> usize {
    // SAFETY: the host's promise.
    guard(1, || unsafe { buffer_type_context(buffer_type) }.device.alignment())
}

unsafe extern "C" fn buffer_type_is_host(_buffer_type: sys::ggml_backend_buffer_type_t) -> bool {
    false
}

// Buffer

unsafe fn buffer_context<'a>(buffer: sys::ggml_backend_buffer_t) -> &'a BufferContext {
    // SAFETY: set by `buffer_type_alloc`, freed by `buffer_free`, after which the host does not use the buffer.
    unsafe { &*(*buffer).context.cast() }
}

unsafe extern "C" fn buffer_free(buffer: sys::ggml_backend_buffer_t) {
    guard((), || {
        // SAFETY: the context is the box of `buffer_type_alloc`, given up here.
        drop(unsafe { Box::from_raw((*buffer).context.cast::<BufferContext>()) })
    });
}

unsafe extern "C" fn buffer_base(buffer: sys::ggml_backend_buffer_t) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the host's promise. The host only does arithmetic on it.
        unsafe { buffer_context(buffer) }.buffer.base() as *mut c_void
    })
}

unsafe extern "C" fn buffer_memset_tensor(
    buffer: sys::ggml_backend_buffer_t,
    tensor: *mut sys::ggml_tensor,
    value: u8,
    offset: usize,
    size: usize,
) {
    // SAFETY: the host's promise.
    guard((), || unsafe { buffer_context(buffer).buffer.fill(address(tensor, offset), size as u64, value) });
}

unsafe extern "C" fn buffer_set_tensor(
    buffer: sys::ggml_backend_buffer_t,
    tensor: *mut sys::ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the host's promise.
    guard((), || unsafe { set(buffer, tensor, data, offset, size, 1, 0, 0) });
}

unsafe extern "C" fn buffer_get_tensor(
    buffer: sys::ggml_backend_buffer_t,
    tensor: *const sys::ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the host's promise.
    guard((), || unsafe { get(buffer, tensor, data, offset, size, 1, 0, 0) });
}

unsafe extern "C" fn buffer_set_tensor_2d(
    buffer: sys::ggml_backend_buffer_t,
    tensor: *mut sys::ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    // SAFETY: the host's promise.
    guard((), || unsafe { set(buffer, tensor, data, offset, size, n_copies, stride_tensor, stride_data) });
}

unsafe extern "C" fn buffer_get_tensor_2d(
    buffer: sys::ggml_backend_buffer_t,
    tensor: *const sys::ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    // SAFETY: the host's promise.
    guard((), || unsafe { get(buffer, tensor, data, offset, size, n_copies, stride_tensor, stride_data) });
}

unsafe extern "C" fn buffer_cpy_tensor(
    buffer: sys::ggml_backend_buffer_t,
    src: *const sys::ggml_tensor,
    dst: *mut sys::ggml_tensor,
) -> bool {
    // SAFETY: the host's promise.
    guard(false, || unsafe { copy(buffer, src, dst) })
}

unsafe extern "C" fn buffer_clear(buffer: sys::ggml_backend_buffer_t, value: u8) {
    // SAFETY: the host's promise.
    guard((), || unsafe { buffer_context(buffer) }.buffer.clear(value));
}

/// Device address of a tensor's byte `offset`.
unsafe fn address(tensor: *const sys::ggml_tensor, offset: usize) -> u64 {
    // SAFETY: the caller's duty.
    unsafe { (*tensor).data as u64 + offset as u64 }
}

/// Writes `n_copies` runs of `size` bytes.
#[allow(clippy::too_many_arguments)] // the host's own list
unsafe fn set(
    buffer: sys::ggml_backend_buffer_t,
    tensor: *const sys::ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    if size == 0 {
        return;
    }
    for i in 0..n_copies {
        // SAFETY: the host passes `n_copies` runs of `size` readable bytes, `stride_data` apart.
        unsafe {
            let run = std::slice::from_raw_parts(data.cast::<u8>().add(i * stride_data), size);
            buffer_context(buffer).buffer.write(address(tensor, offset + i * stride_tensor), run);
        }
    }
}

/// Reads `n_copies` runs of `size` bytes.
#[allow(clippy::too_many_arguments)] // the host's own list
unsafe fn get(
    buffer: sys::ggml_backend_buffer_t,
    tensor: *const sys::ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
    n_copies: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    if size == 0 {
        return;
    }
    for i in 0..n_copies {
        // SAFETY: the host passes `n_copies` runs of `size` writable bytes, `stride_data` apart, that nobody else uses.
        unsafe {
            let run = std::slice::from_raw_parts_mut(data.cast::<u8>().add(i * stride_data), size);
            buffer_context(buffer).buffer.read(address(tensor, offset + i * stride_tensor), run);
        }
    }
}

/// Copies between two tensors of one device (`dst` in `buffer`). `false`: not ours to do.
unsafe fn copy(buffer: sys::ggml_backend_buffer_t, src: *const sys::ggml_tensor, dst: *const sys::ggml_tensor) -> bool {
    // SAFETY: the caller's duty; the host has checked that both have the same layout.
    unsafe {
        let source = buffer_of(src);
        if source.is_null() || (*source).buft != (*buffer).buft {
            return false;
        }
        let context = buffer_context(buffer);
        let bytes = (context.host.functions.nbytes)(src.cast());
        context.buffer.copy(address(dst, 0), address(src, 0), bytes as u64);
        true
    }
}

/// The buffer that holds a tensor's bytes, or null.
unsafe fn buffer_of(tensor: *const sys::ggml_tensor) -> sys::ggml_backend_buffer_t {
    // SAFETY: the caller's duty.
    unsafe {
        let owner = (*tensor).view_src;
        if owner.is_null() {
            (*tensor).buffer
        } else {
            (*owner).buffer
        }
    }
}
