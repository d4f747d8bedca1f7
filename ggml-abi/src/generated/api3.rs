// Made by `cargo run -p ggml-abi --example generate` from ggml's headers; do not edit.
// The headers' notice:
//
// MIT License
//
// Copyright (c) 2023-2026 The ggml authors
//
// Permission is hereby granted, free of charge, to any person obtaining a copy
// of this software and associated documentation files (the "Software"), to deal
// in the Software without restriction, including without limitation the rights
// to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
// copies of the Software, and to permit persons to whom the Software is
// furnished to do so, subject to the following conditions:
//
// The above copyright notice and this permission notice shall be included in all
// copies or substantial portions of the Software.
//
// THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
// IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
// FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
// AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
// LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
// OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
// SOFTWARE.

pub type ggml_op = ::std::os::raw::c_uint;
pub type ggml_type = ::std::os::raw::c_uint;

pub const GGML_BACKEND_API_VERSION: u32 = 3;
pub const GGML_STATUS_ALLOC_FAILED: ggml_status = -2;
pub const GGML_STATUS_FAILED: ggml_status = -1;
pub const GGML_STATUS_SUCCESS: ggml_status = 0;
pub const GGML_STATUS_ABORTED: ggml_status = 1;
pub type ggml_status = ::std::os::raw::c_int;
pub const GGML_TENSOR_FLAG_INPUT: ggml_tensor_flag = 1;
pub const GGML_TENSOR_FLAG_OUTPUT: ggml_tensor_flag = 2;
pub const GGML_TENSOR_FLAG_PARAM: ggml_tensor_flag = 4;
pub const GGML_TENSOR_FLAG_LOSS: ggml_tensor_flag = 8;
pub const GGML_TENSOR_FLAG_COMPUTE: ggml_tensor_flag = 16;
pub type ggml_tensor_flag = ::std::os::raw::c_uint;
#[repr(C)]
pub struct ggml_tensor {
    pub type_: ggml_type,
    pub buffer: *mut ggml_backend_buffer,
    pub ne: [i64; 4usize],
    pub nb: [usize; 4usize],
    pub op: ggml_op,
    pub op_params: [i32; 16usize],
    pub flags: i32,
    pub src: [*mut ggml_tensor; 10usize],
    pub view_src: *mut ggml_tensor,
    pub view_offs: usize,
    pub data: *mut ::std::os::raw::c_void,
    pub name: [::std::os::raw::c_char; 64usize],
    pub extra: *mut ::std::os::raw::c_void,
    pub padding: [::std::os::raw::c_char; 8usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_tensor"][::std::mem::size_of::<ggml_tensor>() - 336usize];
    ["Alignment of ggml_tensor"][::std::mem::align_of::<ggml_tensor>() - 8usize];
    ["Offset of field: ggml_tensor::type_"][::std::mem::offset_of!(ggml_tensor, type_) - 0usize];
    ["Offset of field: ggml_tensor::buffer"][::std::mem::offset_of!(ggml_tensor, buffer) - 8usize];
    ["Offset of field: ggml_tensor::ne"][::std::mem::offset_of!(ggml_tensor, ne) - 16usize];
    ["Offset of field: ggml_tensor::nb"][::std::mem::offset_of!(ggml_tensor, nb) - 48usize];
    ["Offset of field: ggml_tensor::op"][::std::mem::offset_of!(ggml_tensor, op) - 80usize];
    ["Offset of field: ggml_tensor::op_params"]
        [::std::mem::offset_of!(ggml_tensor, op_params) - 84usize];
    ["Offset of field: ggml_tensor::flags"][::std::mem::offset_of!(ggml_tensor, flags) - 148usize];
    ["Offset of field: ggml_tensor::src"][::std::mem::offset_of!(ggml_tensor, src) - 152usize];
    ["Offset of field: ggml_tensor::view_src"]
        [::std::mem::offset_of!(ggml_tensor, view_src) - 232usize];
    ["Offset of field: ggml_tensor::view_offs"]
        [::std::mem::offset_of!(ggml_tensor, view_offs) - 240usize];
    ["Offset of field: ggml_tensor::data"][::std::mem::offset_of!(ggml_tensor, data) - 248usize];
    ["Offset of field: ggml_tensor::name"][::std::mem::offset_of!(ggml_tensor, name) - 256usize];
    ["Offset of field: ggml_tensor::extra"][::std::mem::offset_of!(ggml_tensor, extra) - 320usize];
    ["Offset of field: ggml_tensor::padding"]
        [::std::mem::offset_of!(ggml_tensor, padding) - 328usize];
};
pub type ggml_guid = [u8; 16usize];
pub type ggml_guid_t = *mut ggml_guid;
pub type ggml_bitset_t = u32;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_hash_set {
    pub size: usize,
    pub used: *mut ggml_bitset_t,
    pub keys: *mut *mut ggml_tensor,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_hash_set"][::std::mem::size_of::<ggml_hash_set>() - 24usize];
    ["Alignment of ggml_hash_set"][::std::mem::align_of::<ggml_hash_set>() - 8usize];
    ["Offset of field: ggml_hash_set::size"][::std::mem::offset_of!(ggml_hash_set, size) - 0usize];
    ["Offset of field: ggml_hash_set::used"][::std::mem::offset_of!(ggml_hash_set, used) - 8usize];
    ["Offset of field: ggml_hash_set::keys"][::std::mem::offset_of!(ggml_hash_set, keys) - 16usize];
};
pub const GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT: ggml_cgraph_eval_order = 0;
pub const GGML_CGRAPH_EVAL_ORDER_RIGHT_TO_LEFT: ggml_cgraph_eval_order = 1;
pub const GGML_CGRAPH_EVAL_ORDER_COUNT: ggml_cgraph_eval_order = 2;
pub type ggml_cgraph_eval_order = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_cgraph {
    pub size: ::std::os::raw::c_int,
    pub n_nodes: ::std::os::raw::c_int,
    pub n_leafs: ::std::os::raw::c_int,
    pub nodes: *mut *mut ggml_tensor,
    pub grads: *mut *mut ggml_tensor,
    pub grad_accs: *mut *mut ggml_tensor,
    pub leafs: *mut *mut ggml_tensor,
    pub use_counts: *mut i32,
    pub visited_hash_set: ggml_hash_set,
    pub order: ggml_cgraph_eval_order,
    pub uid: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_cgraph"][::std::mem::size_of::<ggml_cgraph>() - 96usize];
    ["Alignment of ggml_cgraph"][::std::mem::align_of::<ggml_cgraph>() - 8usize];
    ["Offset of field: ggml_cgraph::size"][::std::mem::offset_of!(ggml_cgraph, size) - 0usize];
    ["Offset of field: ggml_cgraph::n_nodes"]
        [::std::mem::offset_of!(ggml_cgraph, n_nodes) - 4usize];
    ["Offset of field: ggml_cgraph::n_leafs"]
        [::std::mem::offset_of!(ggml_cgraph, n_leafs) - 8usize];
    ["Offset of field: ggml_cgraph::nodes"][::std::mem::offset_of!(ggml_cgraph, nodes) - 16usize];
    ["Offset of field: ggml_cgraph::grads"][::std::mem::offset_of!(ggml_cgraph, grads) - 24usize];
    ["Offset of field: ggml_cgraph::grad_accs"]
        [::std::mem::offset_of!(ggml_cgraph, grad_accs) - 32usize];
    ["Offset of field: ggml_cgraph::leafs"][::std::mem::offset_of!(ggml_cgraph, leafs) - 40usize];
    ["Offset of field: ggml_cgraph::use_counts"]
        [::std::mem::offset_of!(ggml_cgraph, use_counts) - 48usize];
    ["Offset of field: ggml_cgraph::visited_hash_set"]
        [::std::mem::offset_of!(ggml_cgraph, visited_hash_set) - 56usize];
    ["Offset of field: ggml_cgraph::order"][::std::mem::offset_of!(ggml_cgraph, order) - 80usize];
    ["Offset of field: ggml_cgraph::uid"][::std::mem::offset_of!(ggml_cgraph, uid) - 88usize];
};
pub type ggml_backend_buffer_type_t = *mut ggml_backend_buffer_type;
pub type ggml_backend_buffer_t = *mut ggml_backend_buffer;
pub type ggml_backend_t = *mut ggml_backend;
pub type ggml_backend_event_t = *mut ggml_backend_event;
pub type ggml_backend_graph_plan_t = *mut ::std::os::raw::c_void;
pub type ggml_backend_reg_t = *mut ggml_backend_reg;
pub type ggml_backend_dev_t = *mut ggml_backend_device;
pub const GGML_BACKEND_BUFFER_USAGE_ANY: ggml_backend_buffer_usage = 0;
pub const GGML_BACKEND_BUFFER_USAGE_WEIGHTS: ggml_backend_buffer_usage = 1;
pub const GGML_BACKEND_BUFFER_USAGE_COMPUTE: ggml_backend_buffer_usage = 2;
pub type ggml_backend_buffer_usage = ::std::os::raw::c_uint;
pub const GGML_BACKEND_DEVICE_TYPE_CPU: ggml_backend_dev_type = 0;
pub const GGML_BACKEND_DEVICE_TYPE_GPU: ggml_backend_dev_type = 1;
pub const GGML_BACKEND_DEVICE_TYPE_IGPU: ggml_backend_dev_type = 2;
pub const GGML_BACKEND_DEVICE_TYPE_ACCEL: ggml_backend_dev_type = 3;
pub const GGML_BACKEND_DEVICE_TYPE_META: ggml_backend_dev_type = 4;
pub type ggml_backend_dev_type = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_dev_caps {
    pub async_: bool,
    pub host_buffer: bool,
    pub buffer_from_host_ptr: bool,
    pub events: bool,
    pub mmap_support: bool,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_dev_caps"][::std::mem::size_of::<ggml_backend_dev_caps>() - 5usize];
    ["Alignment of ggml_backend_dev_caps"]
        [::std::mem::align_of::<ggml_backend_dev_caps>() - 1usize];
    ["Offset of field: ggml_backend_dev_caps::async_"]
        [::std::mem::offset_of!(ggml_backend_dev_caps, async_) - 0usize];
    ["Offset of field: ggml_backend_dev_caps::host_buffer"]
        [::std::mem::offset_of!(ggml_backend_dev_caps, host_buffer) - 1usize];
    ["Offset of field: ggml_backend_dev_caps::buffer_from_host_ptr"]
        [::std::mem::offset_of!(ggml_backend_dev_caps, buffer_from_host_ptr) - 2usize];
    ["Offset of field: ggml_backend_dev_caps::events"]
        [::std::mem::offset_of!(ggml_backend_dev_caps, events) - 3usize];
    ["Offset of field: ggml_backend_dev_caps::mmap_support"]
        [::std::mem::offset_of!(ggml_backend_dev_caps, mmap_support) - 4usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_dev_props {
    pub name: *const ::std::os::raw::c_char,
    pub description: *const ::std::os::raw::c_char,
    pub memory_free: usize,
    pub memory_total: usize,
    pub type_: ggml_backend_dev_type,
    pub device_id: *const ::std::os::raw::c_char,
    pub caps: ggml_backend_dev_caps,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_dev_props"][::std::mem::size_of::<ggml_backend_dev_props>() - 56usize];
    ["Alignment of ggml_backend_dev_props"]
        [::std::mem::align_of::<ggml_backend_dev_props>() - 8usize];
    ["Offset of field: ggml_backend_dev_props::name"]
        [::std::mem::offset_of!(ggml_backend_dev_props, name) - 0usize];
    ["Offset of field: ggml_backend_dev_props::description"]
        [::std::mem::offset_of!(ggml_backend_dev_props, description) - 8usize];
    ["Offset of field: ggml_backend_dev_props::memory_free"]
        [::std::mem::offset_of!(ggml_backend_dev_props, memory_free) - 16usize];
    ["Offset of field: ggml_backend_dev_props::memory_total"]
        [::std::mem::offset_of!(ggml_backend_dev_props, memory_total) - 24usize];
    ["Offset of field: ggml_backend_dev_props::type_"]
        [::std::mem::offset_of!(ggml_backend_dev_props, type_) - 32usize];
    ["Offset of field: ggml_backend_dev_props::device_id"]
        [::std::mem::offset_of!(ggml_backend_dev_props, device_id) - 40usize];
    ["Offset of field: ggml_backend_dev_props::caps"]
        [::std::mem::offset_of!(ggml_backend_dev_props, caps) - 48usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_buffer_type_i {
    pub get_name: ::std::option::Option<
        unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> *const ::std::os::raw::c_char,
    >,
    pub alloc_buffer: ::std::option::Option<
        unsafe extern "C" fn(
            buft: ggml_backend_buffer_type_t,
            size: usize,
        ) -> ggml_backend_buffer_t,
    >,
    pub alloc_buffer_n: ::std::option::Option<
        unsafe extern "C" fn(
            buft: ggml_backend_buffer_type_t,
            tensors: *mut *mut ggml_tensor,
            n_tensors: ::std::os::raw::c_int,
        ) -> ggml_backend_buffer_t,
    >,
    pub get_alignment:
        ::std::option::Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> usize>,
    pub get_max_size:
        ::std::option::Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> usize>,
    pub get_alloc_size: ::std::option::Option<
        unsafe extern "C" fn(buft: ggml_backend_buffer_type_t, tensor: *const ggml_tensor) -> usize,
    >,
    pub get_alloc_size_n: ::std::option::Option<
        unsafe extern "C" fn(
            buft: ggml_backend_buffer_type_t,
            tensors: *mut *mut ggml_tensor,
            n_tensors: ::std::os::raw::c_int,
        ) -> usize,
    >,
    pub is_host:
        ::std::option::Option<unsafe extern "C" fn(buft: ggml_backend_buffer_type_t) -> bool>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_buffer_type_i"]
        [::std::mem::size_of::<ggml_backend_buffer_type_i>() - 64usize];
    ["Alignment of ggml_backend_buffer_type_i"]
        [::std::mem::align_of::<ggml_backend_buffer_type_i>() - 8usize];
    ["Offset of field: ggml_backend_buffer_type_i::get_name"]
        [::std::mem::offset_of!(ggml_backend_buffer_type_i, get_name) - 0usize];
    ["Offset of field: ggml_backend_buffer_type_i::alloc_buffer"]
        [::std::mem::offset_of!(ggml_backend_buffer_type_i, alloc_buffer) - 8usize];
    ["Offset of field: ggml_backend_buffer_type_i::alloc_buffer_n"]
        [::std::mem::offset_of!(ggml_backend_buffer_type_i, alloc_buffer_n) - 16usize];
    ["Offset of field: ggml_backend_buffer_type_i::get_alignment"]
        [::std::mem::offset_of!(ggml_backend_buffer_type_i, get_alignment) - 24usize];
    ["Offset of field: ggml_backend_buffer_type_i::get_max_size"]
        [::std::mem::offset_of!(ggml_backend_buffer_type_i, get_max_size) - 32usize];
    ["Offset of field: ggml_backend_buffer_type_i::get_alloc_size"]
        [::std::mem::offset_of!(ggml_backend_buffer_type_i, get_alloc_size) - 40usize];
    ["Offset of field: ggml_backend_buffer_type_i::get_alloc_size_n"]
        [::std::mem::offset_of!(ggml_backend_buffer_type_i, get_alloc_size_n) - 48usize];
    ["Offset of field: ggml_backend_buffer_type_i::is_host"]
        [::std::mem::offset_of!(ggml_backend_buffer_type_i, is_host) - 56usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_buffer_type {
    pub iface: ggml_backend_buffer_type_i,
    pub device: ggml_backend_dev_t,
    pub context: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_buffer_type"]
        [::std::mem::size_of::<ggml_backend_buffer_type>() - 80usize];
    ["Alignment of ggml_backend_buffer_type"]
        [::std::mem::align_of::<ggml_backend_buffer_type>() - 8usize];
    ["Offset of field: ggml_backend_buffer_type::iface"]
        [::std::mem::offset_of!(ggml_backend_buffer_type, iface) - 0usize];
    ["Offset of field: ggml_backend_buffer_type::device"]
        [::std::mem::offset_of!(ggml_backend_buffer_type, device) - 64usize];
    ["Offset of field: ggml_backend_buffer_type::context"]
        [::std::mem::offset_of!(ggml_backend_buffer_type, context) - 72usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_buffer_i {
    pub free_buffer: ::std::option::Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t)>,
    pub get_base: ::std::option::Option<
        unsafe extern "C" fn(buffer: ggml_backend_buffer_t) -> *mut ::std::os::raw::c_void,
    >,
    pub init_tensor: ::std::option::Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
        ) -> ggml_status,
    >,
    pub memset_tensor: ::std::option::Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            value: u8,
            offset: usize,
            size: usize,
        ),
    >,
    pub set_tensor: ::std::option::Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            data: *const ::std::os::raw::c_void,
            offset: usize,
            size: usize,
        ),
    >,
    pub get_tensor: ::std::option::Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *const ggml_tensor,
            data: *mut ::std::os::raw::c_void,
            offset: usize,
            size: usize,
        ),
    >,
    pub set_tensor_2d: ::std::option::Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *mut ggml_tensor,
            data: *const ::std::os::raw::c_void,
            offset: usize,
            size: usize,
            n_copies: usize,
            stride_tensor: usize,
            stride_data: usize,
        ),
    >,
    pub get_tensor_2d: ::std::option::Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            tensor: *const ggml_tensor,
            data: *mut ::std::os::raw::c_void,
            offset: usize,
            size: usize,
            n_copies: usize,
            stride_tensor: usize,
            stride_data: usize,
        ),
    >,
    pub cpy_tensor: ::std::option::Option<
        unsafe extern "C" fn(
            buffer: ggml_backend_buffer_t,
            src: *const ggml_tensor,
            dst: *mut ggml_tensor,
        ) -> bool,
    >,
    pub clear:
        ::std::option::Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t, value: u8)>,
    pub reset: ::std::option::Option<unsafe extern "C" fn(buffer: ggml_backend_buffer_t)>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_buffer_i"][::std::mem::size_of::<ggml_backend_buffer_i>() - 88usize];
    ["Alignment of ggml_backend_buffer_i"]
        [::std::mem::align_of::<ggml_backend_buffer_i>() - 8usize];
    ["Offset of field: ggml_backend_buffer_i::free_buffer"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, free_buffer) - 0usize];
    ["Offset of field: ggml_backend_buffer_i::get_base"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, get_base) - 8usize];
    ["Offset of field: ggml_backend_buffer_i::init_tensor"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, init_tensor) - 16usize];
    ["Offset of field: ggml_backend_buffer_i::memset_tensor"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, memset_tensor) - 24usize];
    ["Offset of field: ggml_backend_buffer_i::set_tensor"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, set_tensor) - 32usize];
    ["Offset of field: ggml_backend_buffer_i::get_tensor"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, get_tensor) - 40usize];
    ["Offset of field: ggml_backend_buffer_i::set_tensor_2d"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, set_tensor_2d) - 48usize];
    ["Offset of field: ggml_backend_buffer_i::get_tensor_2d"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, get_tensor_2d) - 56usize];
    ["Offset of field: ggml_backend_buffer_i::cpy_tensor"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, cpy_tensor) - 64usize];
    ["Offset of field: ggml_backend_buffer_i::clear"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, clear) - 72usize];
    ["Offset of field: ggml_backend_buffer_i::reset"]
        [::std::mem::offset_of!(ggml_backend_buffer_i, reset) - 80usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_buffer {
    pub iface: ggml_backend_buffer_i,
    pub buft: ggml_backend_buffer_type_t,
    pub context: *mut ::std::os::raw::c_void,
    pub size: usize,
    pub usage: ggml_backend_buffer_usage,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_buffer"][::std::mem::size_of::<ggml_backend_buffer>() - 120usize];
    ["Alignment of ggml_backend_buffer"][::std::mem::align_of::<ggml_backend_buffer>() - 8usize];
    ["Offset of field: ggml_backend_buffer::iface"]
        [::std::mem::offset_of!(ggml_backend_buffer, iface) - 0usize];
    ["Offset of field: ggml_backend_buffer::buft"]
        [::std::mem::offset_of!(ggml_backend_buffer, buft) - 88usize];
    ["Offset of field: ggml_backend_buffer::context"]
        [::std::mem::offset_of!(ggml_backend_buffer, context) - 96usize];
    ["Offset of field: ggml_backend_buffer::size"]
        [::std::mem::offset_of!(ggml_backend_buffer, size) - 104usize];
    ["Offset of field: ggml_backend_buffer::usage"]
        [::std::mem::offset_of!(ggml_backend_buffer, usage) - 112usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_graph_optimize_params {
    pub add_alloc_dep: ::std::option::Option<
        unsafe extern "C" fn(
            user_data: *mut ::std::os::raw::c_void,
            tensor: *mut ggml_tensor,
            until: *mut ggml_tensor,
        ),
    >,
    pub user_data: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_graph_optimize_params"]
        [::std::mem::size_of::<ggml_backend_graph_optimize_params>() - 16usize];
    ["Alignment of ggml_backend_graph_optimize_params"]
        [::std::mem::align_of::<ggml_backend_graph_optimize_params>() - 8usize];
    ["Offset of field: ggml_backend_graph_optimize_params::add_alloc_dep"]
        [::std::mem::offset_of!(ggml_backend_graph_optimize_params, add_alloc_dep) - 0usize];
    ["Offset of field: ggml_backend_graph_optimize_params::user_data"]
        [::std::mem::offset_of!(ggml_backend_graph_optimize_params, user_data) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_i {
    pub get_name: ::std::option::Option<
        unsafe extern "C" fn(backend: ggml_backend_t) -> *const ::std::os::raw::c_char,
    >,
    pub free: ::std::option::Option<unsafe extern "C" fn(backend: ggml_backend_t)>,
    pub set_tensor_async: ::std::option::Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *mut ggml_tensor,
            data: *const ::std::os::raw::c_void,
            offset: usize,
            size: usize,
        ),
    >,
    pub get_tensor_async: ::std::option::Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *const ggml_tensor,
            data: *mut ::std::os::raw::c_void,
            offset: usize,
            size: usize,
        ),
    >,
    pub set_tensor_2d_async: ::std::option::Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *mut ggml_tensor,
            data: *const ::std::os::raw::c_void,
            offset: usize,
            size: usize,
            n_copies: usize,
            stride_tensor: usize,
            stride_data: usize,
        ),
    >,
    pub get_tensor_2d_async: ::std::option::Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            tensor: *const ggml_tensor,
            data: *mut ::std::os::raw::c_void,
            offset: usize,
            size: usize,
            n_copies: usize,
            stride_tensor: usize,
            stride_data: usize,
        ),
    >,
    pub cpy_tensor_async: ::std::option::Option<
        unsafe extern "C" fn(
            backend_src: ggml_backend_t,
            backend_dst: ggml_backend_t,
            src: *const ggml_tensor,
            dst: *mut ggml_tensor,
        ) -> bool,
    >,
    pub synchronize: ::std::option::Option<unsafe extern "C" fn(backend: ggml_backend_t)>,
    pub graph_plan_create: ::std::option::Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            cgraph: *const ggml_cgraph,
        ) -> ggml_backend_graph_plan_t,
    >,
    pub graph_plan_free: ::std::option::Option<
        unsafe extern "C" fn(backend: ggml_backend_t, plan: ggml_backend_graph_plan_t),
    >,
    pub graph_plan_update: ::std::option::Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            plan: ggml_backend_graph_plan_t,
            cgraph: *const ggml_cgraph,
        ),
    >,
    pub graph_plan_compute: ::std::option::Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            plan: ggml_backend_graph_plan_t,
        ) -> ggml_status,
    >,
    pub graph_compute: ::std::option::Option<
        unsafe extern "C" fn(backend: ggml_backend_t, cgraph: *mut ggml_cgraph) -> ggml_status,
    >,
    pub event_record: ::std::option::Option<
        unsafe extern "C" fn(backend: ggml_backend_t, event: ggml_backend_event_t),
    >,
    pub event_wait: ::std::option::Option<
        unsafe extern "C" fn(backend: ggml_backend_t, event: ggml_backend_event_t),
    >,
    pub graph_optimize: ::std::option::Option<
        unsafe extern "C" fn(
            backend: ggml_backend_t,
            cgraph: *mut ggml_cgraph,
            params: *mut ggml_backend_graph_optimize_params,
        ),
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_i"][::std::mem::size_of::<ggml_backend_i>() - 128usize];
    ["Alignment of ggml_backend_i"][::std::mem::align_of::<ggml_backend_i>() - 8usize];
    ["Offset of field: ggml_backend_i::get_name"]
        [::std::mem::offset_of!(ggml_backend_i, get_name) - 0usize];
    ["Offset of field: ggml_backend_i::free"]
        [::std::mem::offset_of!(ggml_backend_i, free) - 8usize];
    ["Offset of field: ggml_backend_i::set_tensor_async"]
        [::std::mem::offset_of!(ggml_backend_i, set_tensor_async) - 16usize];
    ["Offset of field: ggml_backend_i::get_tensor_async"]
        [::std::mem::offset_of!(ggml_backend_i, get_tensor_async) - 24usize];
    ["Offset of field: ggml_backend_i::set_tensor_2d_async"]
        [::std::mem::offset_of!(ggml_backend_i, set_tensor_2d_async) - 32usize];
    ["Offset of field: ggml_backend_i::get_tensor_2d_async"]
        [::std::mem::offset_of!(ggml_backend_i, get_tensor_2d_async) - 40usize];
    ["Offset of field: ggml_backend_i::cpy_tensor_async"]
        [::std::mem::offset_of!(ggml_backend_i, cpy_tensor_async) - 48usize];
    ["Offset of field: ggml_backend_i::synchronize"]
        [::std::mem::offset_of!(ggml_backend_i, synchronize) - 56usize];
    ["Offset of field: ggml_backend_i::graph_plan_create"]
        [::std::mem::offset_of!(ggml_backend_i, graph_plan_create) - 64usize];
    ["Offset of field: ggml_backend_i::graph_plan_free"]
        [::std::mem::offset_of!(ggml_backend_i, graph_plan_free) - 72usize];
    ["Offset of field: ggml_backend_i::graph_plan_update"]
        [::std::mem::offset_of!(ggml_backend_i, graph_plan_update) - 80usize];
    ["Offset of field: ggml_backend_i::graph_plan_compute"]
        [::std::mem::offset_of!(ggml_backend_i, graph_plan_compute) - 88usize];
    ["Offset of field: ggml_backend_i::graph_compute"]
        [::std::mem::offset_of!(ggml_backend_i, graph_compute) - 96usize];
    ["Offset of field: ggml_backend_i::event_record"]
        [::std::mem::offset_of!(ggml_backend_i, event_record) - 104usize];
    ["Offset of field: ggml_backend_i::event_wait"]
        [::std::mem::offset_of!(ggml_backend_i, event_wait) - 112usize];
    ["Offset of field: ggml_backend_i::graph_optimize"]
        [::std::mem::offset_of!(ggml_backend_i, graph_optimize) - 120usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend {
    pub guid: ggml_guid_t,
    pub iface: ggml_backend_i,
    pub device: ggml_backend_dev_t,
    pub context: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend"][::std::mem::size_of::<ggml_backend>() - 152usize];
    ["Alignment of ggml_backend"][::std::mem::align_of::<ggml_backend>() - 8usize];
    ["Offset of field: ggml_backend::guid"][::std::mem::offset_of!(ggml_backend, guid) - 0usize];
    ["Offset of field: ggml_backend::iface"][::std::mem::offset_of!(ggml_backend, iface) - 8usize];
    ["Offset of field: ggml_backend::device"]
        [::std::mem::offset_of!(ggml_backend, device) - 136usize];
    ["Offset of field: ggml_backend::context"]
        [::std::mem::offset_of!(ggml_backend, context) - 144usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_event {
    pub device: *mut ggml_backend_device,
    pub context: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_event"][::std::mem::size_of::<ggml_backend_event>() - 16usize];
    ["Alignment of ggml_backend_event"][::std::mem::align_of::<ggml_backend_event>() - 8usize];
    ["Offset of field: ggml_backend_event::device"]
        [::std::mem::offset_of!(ggml_backend_event, device) - 0usize];
    ["Offset of field: ggml_backend_event::context"]
        [::std::mem::offset_of!(ggml_backend_event, context) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_device_i {
    pub get_name: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t) -> *const ::std::os::raw::c_char,
    >,
    pub get_description: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t) -> *const ::std::os::raw::c_char,
    >,
    pub get_memory: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t, free: *mut usize, total: *mut usize),
    >,
    pub get_type: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_dev_type,
    >,
    pub get_props: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t, props: *mut ggml_backend_dev_props),
    >,
    pub init_backend: ::std::option::Option<
        unsafe extern "C" fn(
            dev: ggml_backend_dev_t,
            params: *const ::std::os::raw::c_char,
        ) -> ggml_backend_t,
    >,
    pub get_buffer_type: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t,
    >,
    pub get_host_buffer_type: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_buffer_type_t,
    >,
    pub buffer_from_host_ptr: ::std::option::Option<
        unsafe extern "C" fn(
            dev: ggml_backend_dev_t,
            ptr: *mut ::std::os::raw::c_void,
            size: usize,
            max_tensor_size: usize,
        ) -> ggml_backend_buffer_t,
    >,
    pub supports_op: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool,
    >,
    pub supports_buft: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t, buft: ggml_backend_buffer_type_t) -> bool,
    >,
    pub offload_op: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t, op: *const ggml_tensor) -> bool,
    >,
    pub event_new: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t) -> ggml_backend_event_t,
    >,
    pub event_free: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t, event: ggml_backend_event_t),
    >,
    pub event_synchronize: ::std::option::Option<
        unsafe extern "C" fn(dev: ggml_backend_dev_t, event: ggml_backend_event_t),
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_device_i"][::std::mem::size_of::<ggml_backend_device_i>() - 120usize];
    ["Alignment of ggml_backend_device_i"]
        [::std::mem::align_of::<ggml_backend_device_i>() - 8usize];
    ["Offset of field: ggml_backend_device_i::get_name"]
        [::std::mem::offset_of!(ggml_backend_device_i, get_name) - 0usize];
    ["Offset of field: ggml_backend_device_i::get_description"]
        [::std::mem::offset_of!(ggml_backend_device_i, get_description) - 8usize];
    ["Offset of field: ggml_backend_device_i::get_memory"]
        [::std::mem::offset_of!(ggml_backend_device_i, get_memory) - 16usize];
    ["Offset of field: ggml_backend_device_i::get_type"]
        [::std::mem::offset_of!(ggml_backend_device_i, get_type) - 24usize];
    ["Offset of field: ggml_backend_device_i::get_props"]
        [::std::mem::offset_of!(ggml_backend_device_i, get_props) - 32usize];
    ["Offset of field: ggml_backend_device_i::init_backend"]
        [::std::mem::offset_of!(ggml_backend_device_i, init_backend) - 40usize];
    ["Offset of field: ggml_backend_device_i::get_buffer_type"]
        [::std::mem::offset_of!(ggml_backend_device_i, get_buffer_type) - 48usize];
    ["Offset of field: ggml_backend_device_i::get_host_buffer_type"]
        [::std::mem::offset_of!(ggml_backend_device_i, get_host_buffer_type) - 56usize];
    ["Offset of field: ggml_backend_device_i::buffer_from_host_ptr"]
        [::std::mem::offset_of!(ggml_backend_device_i, buffer_from_host_ptr) - 64usize];
    ["Offset of field: ggml_backend_device_i::supports_op"]
        [::std::mem::offset_of!(ggml_backend_device_i, supports_op) - 72usize];
    ["Offset of field: ggml_backend_device_i::supports_buft"]
        [::std::mem::offset_of!(ggml_backend_device_i, supports_buft) - 80usize];
    ["Offset of field: ggml_backend_device_i::offload_op"]
        [::std::mem::offset_of!(ggml_backend_device_i, offload_op) - 88usize];
    ["Offset of field: ggml_backend_device_i::event_new"]
        [::std::mem::offset_of!(ggml_backend_device_i, event_new) - 96usize];
    ["Offset of field: ggml_backend_device_i::event_free"]
        [::std::mem::offset_of!(ggml_backend_device_i, event_free) - 104usize];
    ["Offset of field: ggml_backend_device_i::event_synchronize"]
        [::std::mem::offset_of!(ggml_backend_device_i, event_synchronize) - 112usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_device {
    pub iface: ggml_backend_device_i,
    pub reg: ggml_backend_reg_t,
    pub context: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_device"][::std::mem::size_of::<ggml_backend_device>() - 136usize];
    ["Alignment of ggml_backend_device"][::std::mem::align_of::<ggml_backend_device>() - 8usize];
    ["Offset of field: ggml_backend_device::iface"]
        [::std::mem::offset_of!(ggml_backend_device, iface) - 0usize];
    ["Offset of field: ggml_backend_device::reg"]
        [::std::mem::offset_of!(ggml_backend_device, reg) - 120usize];
    ["Offset of field: ggml_backend_device::context"]
        [::std::mem::offset_of!(ggml_backend_device, context) - 128usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_reg_i {
    pub get_name: ::std::option::Option<
        unsafe extern "C" fn(reg: ggml_backend_reg_t) -> *const ::std::os::raw::c_char,
    >,
    pub get_device_count:
        ::std::option::Option<unsafe extern "C" fn(reg: ggml_backend_reg_t) -> usize>,
    pub get_device: ::std::option::Option<
        unsafe extern "C" fn(reg: ggml_backend_reg_t, index: usize) -> ggml_backend_dev_t,
    >,
    pub get_proc_address: ::std::option::Option<
        unsafe extern "C" fn(
            reg: ggml_backend_reg_t,
            name: *const ::std::os::raw::c_char,
        ) -> *mut ::std::os::raw::c_void,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_reg_i"][::std::mem::size_of::<ggml_backend_reg_i>() - 32usize];
    ["Alignment of ggml_backend_reg_i"][::std::mem::align_of::<ggml_backend_reg_i>() - 8usize];
    ["Offset of field: ggml_backend_reg_i::get_name"]
        [::std::mem::offset_of!(ggml_backend_reg_i, get_name) - 0usize];
    ["Offset of field: ggml_backend_reg_i::get_device_count"]
        [::std::mem::offset_of!(ggml_backend_reg_i, get_device_count) - 8usize];
    ["Offset of field: ggml_backend_reg_i::get_device"]
        [::std::mem::offset_of!(ggml_backend_reg_i, get_device) - 16usize];
    ["Offset of field: ggml_backend_reg_i::get_proc_address"]
        [::std::mem::offset_of!(ggml_backend_reg_i, get_proc_address) - 24usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ggml_backend_reg {
    pub api_version: ::std::os::raw::c_int,
    pub iface: ggml_backend_reg_i,
    pub context: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ggml_backend_reg"][::std::mem::size_of::<ggml_backend_reg>() - 48usize];
    ["Alignment of ggml_backend_reg"][::std::mem::align_of::<ggml_backend_reg>() - 8usize];
    ["Offset of field: ggml_backend_reg::api_version"]
        [::std::mem::offset_of!(ggml_backend_reg, api_version) - 0usize];
    ["Offset of field: ggml_backend_reg::iface"]
        [::std::mem::offset_of!(ggml_backend_reg, iface) - 8usize];
    ["Offset of field: ggml_backend_reg::context"]
        [::std::mem::offset_of!(ggml_backend_reg, context) - 40usize];
};
