//! The plugin as its host sees it: registry, devices, buffers and streams, in terms of `ggml_abi::face`.

mod buffer;
mod device;
mod log;
mod settings;
mod stream;

use ggml_abi::face::{Device, Registry};
use settings::Settings;
use std::ffi::{c_void, CStr};
use std::sync::OnceLock;
use std::time::Duration;

struct EtRegistry {
    devices: Vec<Box<dyn Device>>,
}

impl Registry for EtRegistry {
    fn name(&self) -> &CStr {
        c"ET"
    }

    fn devices(&self) -> &[Box<dyn Device>] {
        &self.devices
    }
}

/// The registry object for the host that loaded this library, null when the host is not understood. The same pointer on
/// every call: hosts may load a plugin more than once.
pub fn registry() -> *mut c_void {
    static REGISTRY: OnceLock<EtRegistry> = OnceLock::new();
    static REFUSED: OnceLock<()> = OnceLock::new();
    match ggml_abi::connect() {
        Ok(connection) => {
            let registry = REGISTRY.get_or_init(|| {
                log::install(connection);
                EtRegistry { devices: devices() }
            });
            connection.register(registry)
        }
        Err(reason) => {
            // There is no logger without a host.
            REFUSED.get_or_init(|| eprintln!("ggml-et: not loaded: {reason}"));
            std::ptr::null_mut()
        }
    }
}

/// The devices that the environment asks for and the machine has. Opens none of them.
fn devices() -> Vec<Box<dyn Device>> {
    let chosen = Settings::read(|name| std::env::var_os(name)).and_then(device::EtDevice::choose);
    match chosen {
        Ok(Some(device)) => vec![Box::new(device)],
        Ok(None) => Vec::new(),
        Err(reason) => {
            ::log::error!("no device: {reason}");
            // llama.cpp logs from a thread of its own, and a host that was told to use ET0 exits now, often before that
            // thread has written the line.
            std::thread::sleep(Duration::from_millis(200));
            Vec::new()
        }
    }
}
