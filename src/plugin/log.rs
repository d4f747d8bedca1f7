//! The `log` crate's lines, given to the host's logger.

use ggml_abi::{Connection, LogLevel};
use log::{Level, LevelFilter, Log, Metadata, Record};

struct HostLog {
    connection: &'static Connection,
}

impl Log for HostLog {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = match record.level() {
            Level::Error => LogLevel::Error,
            Level::Warn => LogLevel::Warn,
            Level::Info => LogLevel::Info,
            Level::Debug | Level::Trace => LogLevel::Debug,
        };
        let prefix = if record.target() == crate::perf::TARGET { "" } else { "ggml-et: " };
        self.connection.log(level, &format!("{prefix}{}", record.args()));
    }

    fn flush(&self) {}
}

/// Sends this library's log lines to the host, panics included: no panic crosses into the host, but each leaves a line.
pub fn install(connection: &'static Connection) {
    // The statics of `log` are this library's own: nobody else can have set a logger.
    if log::set_logger(Box::leak(Box::new(HostLog { connection }))).is_ok() {
        log::set_max_level(LevelFilter::Debug);
        std::panic::set_hook(Box::new(|info| {
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let message = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
            match info.location() {
                Some(place) => log::error!("internal error at {}:{}: {message}", place.file(), place.line()),
                None => log::error!("internal error: {message}"),
            }
        }));
    }
}
