//! The host in the running process: its functions, its logger, its epoch.

use crate::epoch::Epoch;
use crate::face::Registry;
use crate::names::{GluOp, Op, Type, UnaryOp};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

/// Severity of a log line; the numbers are ggml's, the same in every epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LogLevel {
    /// For developers.
    Debug = 1,
    /// For everybody.
    Info = 2,
    /// Something is odd.
    Warn = 3,
    /// Something failed.
    Error = 4,
}

/// Declares the functions that are looked up, with their C types.
macro_rules! functions {
    ($($field:ident = $symbol:literal: $type:ty,)*) => {
        /// The host's functions.
        pub(crate) struct Functions { $(pub $field: $type,)* }

        impl Functions {
            fn find(library: &Library) -> Result<Functions, String> {
                Ok(Functions {
                    $($field: {
                        let symbol = library.symbol($symbol);
                        if symbol.is_null() {
                            return Err(format!("the host's ggml lacks the function {}", $symbol));
                        }
                        // SAFETY: the symbol is the host's function of that name, whose C type this is in every epoch.
                        unsafe { std::mem::transmute::<*mut c_void, $type>(symbol) }
                    },)*
                })
            }
        }
    };
}

functions! {
    version = "ggml_version": unsafe extern "C" fn() -> *const c_char,
    tensor_overhead = "ggml_tensor_overhead": unsafe extern "C" fn() -> usize,
    op_name = "ggml_op_name": unsafe extern "C" fn(c_uint) -> *const c_char,
    type_name = "ggml_type_name": unsafe extern "C" fn(c_uint) -> *const c_char,
    unary_op_name = "ggml_unary_op_name": unsafe extern "C" fn(c_uint) -> *const c_char,
    glu_op_name = "ggml_glu_op_name": unsafe extern "C" fn(c_uint) -> *const c_char,
    get_unary_op = "ggml_get_unary_op": unsafe extern "C" fn(*const c_void) -> c_uint,
    get_glu_op = "ggml_get_glu_op": unsafe extern "C" fn(*const c_void) -> c_uint,
    nbytes = "ggml_nbytes": unsafe extern "C" fn(*const c_void) -> usize,
    log = "ggml_log_internal": unsafe extern "C" fn(c_uint, *const c_char, ...),
    // Its argument types differ between epochs: the adapter gives it the right ones.
    buffer_init = "ggml_backend_buffer_init": unsafe extern "C" fn(),
}

/// Bytes that ggml keeps in front of each tensor struct; part of `ggml_tensor_overhead()`.
const OBJECT_SIZE: usize = 32;

/// A table from the host's enum numbers to ours, filled as numbers are met: only numbers that tensors carry are valid
/// arguments of the host's name functions.
struct Numbers<T> {
    slots: [OnceLock<T>; 256],
}

impl<T: Copy> Numbers<T> {
    fn new() -> Numbers<T> {
        Numbers { slots: [const { OnceLock::new() }; 256] }
    }

    fn get(&self, number: c_uint, name: unsafe extern "C" fn(c_uint) -> *const c_char, from: fn(&str) -> T) -> T {
        let look_up = || {
            // SAFETY: the number comes from a tensor of the host.
            let text = unsafe { name(number) };
            if text.is_null() {
                return from("");
            }
            // SAFETY: the host's names are static strings.
            from(unsafe { CStr::from_ptr(text) }.to_str().unwrap_or(""))
        };
        match self.slots.get(number as usize) {
            Some(slot) => *slot.get_or_init(look_up),
            None => look_up(),
        }
    }
}

/// The process's host, found once.
pub(crate) struct Host {
    pub functions: Functions,
    pub epoch: &'static Epoch,
    /// The registry object that was built for it.
    pub registry: AtomicPtr<c_void>,
    ops: Numbers<Op>,
    types: Numbers<Type>,
    unary_ops: Numbers<UnaryOp>,
    glu_ops: Numbers<GluOp>,
}

impl Host {
    fn find() -> Result<Host, String> {
        let library = Library::find()?;
        let functions = Functions::find(&library)?;
        // SAFETY: no arguments; the result is a static string.
        let version = unsafe { CStr::from_ptr((functions.version)()) }.to_string_lossy().into_owned();
        let epoch = Epoch::choose(&version, |symbol| !library.symbol(symbol).is_null())?;
        // SAFETY: no arguments.
        let overhead = unsafe { (functions.tensor_overhead)() };
        if overhead != OBJECT_SIZE + epoch.tensor_size {
            return Err(format!("the host says it is ggml {version} but its tensors have another size"));
        }
        Ok(Host {
            functions,
            epoch,
            registry: AtomicPtr::new(std::ptr::null_mut()),
            ops: Numbers::new(),
            types: Numbers::new(),
            unary_ops: Numbers::new(),
            glu_ops: Numbers::new(),
        })
    }

    pub fn op(&self, number: c_uint) -> Op {
        self.ops.get(number, self.functions.op_name, Op::from_name)
    }

    pub fn ty(&self, number: c_uint) -> Type {
        self.types.get(number, self.functions.type_name, Type::from_name)
    }

    /// # Safety
    /// `tensor` is a valid tensor of this host whose operation is UNARY.
    pub unsafe fn unary_op(&self, tensor: *const c_void) -> UnaryOp {
        // SAFETY: the caller's duty.
        let number = unsafe { (self.functions.get_unary_op)(tensor) };
        self.unary_ops.get(number, self.functions.unary_op_name, UnaryOp::from_name)
    }

    /// # Safety
    /// `tensor` is a valid tensor of this host whose operation is GLU.
    pub unsafe fn glu_op(&self, tensor: *const c_void) -> GluOp {
        // SAFETY: the caller's duty.
        let number = unsafe { (self.functions.get_glu_op)(tensor) };
        self.glu_ops.get(number, self.functions.glu_op_name, GluOp::from_name)
    }

    fn log(&self, level: LogLevel, text: &str) {
        let line: Vec<u8> = text.bytes().filter(|&byte| byte != 0).chain([b'\n']).collect();
        if let Ok(line) = CString::new(line) {
            // SAFETY: printf-like; the format takes one string, which outlives the call.
            unsafe { (self.functions.log)(level as c_uint, c"%s".as_ptr(), line.as_ptr()) }
        }
    }
}

/// A plugin's tie to the host that loaded it.
pub struct Connection {
    host: &'static Host,
}

impl Connection {
    /// The host's epoch.
    pub fn epoch(&self) -> &'static Epoch {
        self.host.epoch
    }

    /// Gives a line (without its end) to the host's logger.
    pub fn log(&self, level: LogLevel, text: &str) {
        self.host.log(level, text);
    }

    /// The registry object for the host, built on first use and the same ever after.
    pub fn register(&self, registry: &'static dyn Registry) -> *mut c_void {
        static BUILT: OnceLock<()> = OnceLock::new();
        BUILT.get_or_init(|| {
            let object = (self.host.epoch.build)(self.host, registry);
            self.host.registry.store(object, Ordering::Release);
        });
        self.host.registry.load(Ordering::Acquire)
    }
}

/// Finds the host once; later calls get the first answer. The error is one clause for a person.
pub fn connect() -> Result<&'static Connection, &'static str> {
    static CONNECTION: OnceLock<Result<Connection, String>> = OnceLock::new();
    let found = CONNECTION.get_or_init(|| Host::find().map(|host| Connection { host: Box::leak(Box::new(host)) }));
    found.as_ref().map_err(String::as_str)
}

/// A loaded object that has the host's functions, kept loaded for good.
struct Library {
    handle: *mut c_void,
}

impl Library {
    /// libggml-base where it is a library; else the main program's exports; else a library that has ggml inside.
    fn find() -> Result<Library, String> {
        let objects = loaded_objects();
        let mut bases: Vec<&CString> =
            objects.iter().filter(|path| file_name(path).starts_with("libggml-base")).collect();
        bases.dedup();
        if bases.len() > 1 {
            let list = bases.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join(", ");
            return Err(format!("the process has more than one ggml, and only one can be served: {list}"));
        }
        if let Some(library) = bases.first().and_then(|path| Library::loaded(Some(path))) {
            return Ok(library);
        }
        let inside = objects.iter().filter(|path| {
            let name = file_name(path);
            name.starts_with("libggml.") || name.starts_with("libllama")
        });
        std::iter::once(None)
            .chain(inside.map(|path| Some(path.as_c_str())))
            .filter_map(Library::loaded)
            .find(|library| !library.symbol("ggml_backend_buffer_init").is_null())
            .ok_or_else(|| "no ggml was found in the process: libggml-base is not loaded, and the program does not export its functions".to_owned())
    }

    /// A handle to an object that is loaded already (`None`: the main program).
    fn loaded(path: Option<&CStr>) -> Option<Library> {
        let path = path.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: with RTLD_NOLOAD nothing is loaded and no foreign code runs.
        let handle = unsafe { libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Library { handle })
    }

    /// A symbol's address, or null.
    fn symbol(&self, name: &str) -> *mut c_void {
        let Ok(name) = CString::new(name) else {
            return std::ptr::null_mut();
        };
        // SAFETY: the handle is never closed; the name ends with NUL.
        unsafe { libc::dlsym(self.handle, name.as_ptr()) }
    }
}

/// The file that this code was loaded from; `None` when the loader does not know.
pub fn library_path() -> Option<PathBuf> {
    // SAFETY: all-zero bytes are a valid record of pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = library_path as fn() -> Option<PathBuf>;
    // SAFETY: any address may be asked about; the record is ours.
    let found = unsafe { libc::dladdr(here as *const c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a NUL-terminated path of the loader's, which lives as long as this library.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

fn file_name(path: &CStr) -> String {
    let path = path.to_string_lossy();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Paths of the shared objects in the process.
fn loaded_objects() -> Vec<CString> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record and our own pointer; the list lives across the walk.
        let (info, list) = unsafe { (&*info, &mut *list.cast::<Vec<CString>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: a NUL-terminated path of the loader's.
            list.push(unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned());
        }
        0
    }
    let mut list: Vec<CString> = Vec::new();
    // SAFETY: `visit` only appends to the list that is passed along.
    unsafe { libc::dl_iterate_phdr(Some(visit), std::ptr::from_mut(&mut list).cast()) };
    list
}
