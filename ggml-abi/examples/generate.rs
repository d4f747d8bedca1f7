//! Writes the bindings of one epoch: `cargo run -p ggml-abi --example generate -- <ggml source directory> <module>`
//!
//! `<ggml source directory>` is the one with `include/` and `src/`, `<module>` the epoch's name, such as `api3`. The
//! result is `ggml-abi/src/generated/<module>.rs`, which is committed: users need neither ggml's sources nor bindgen.

use std::path::PathBuf;
use std::process::ExitCode;

/// What the adapter reads and builds. Internal headers: ggml-backend-impl.h has the tables, ggml-impl.h the graph.
const TYPES: &str = "ggml_tensor|ggml_cgraph|ggml_backend_reg|ggml_backend_device|ggml_backend_buffer_type|\
    ggml_backend_buffer|ggml_backend|ggml_status|ggml_tensor_flag";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(ggml), Some(module)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: generate <ggml source directory> <module>");
        return ExitCode::FAILURE;
    };
    let ggml = PathBuf::from(ggml);
    let notice = match std::fs::read_to_string(ggml.join("../LICENSE")) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{}/../LICENSE: {error}", ggml.display());
            return ExitCode::FAILURE;
        }
    };
    let generated = bindgen::Builder::default()
        .header_contents("epoch.h", "#include \"ggml-impl.h\"\n#include \"ggml-backend-impl.h\"\n")
        .clang_arg(format!("-I{}", ggml.join("include").display()))
        .clang_arg(format!("-I{}", ggml.join("src").display()))
        .allowlist_type(TYPES)
        .allowlist_var("GGML_BACKEND_API_VERSION")
        // Operations and types are known by name: their numbers must not tempt anyone.
        .blocklist_type("ggml_op|ggml_type")
        .raw_line("pub type ggml_op = ::std::os::raw::c_uint;")
        .raw_line("pub type ggml_type = ::std::os::raw::c_uint;")
        .prepend_enum_name(false)
        .generate_comments(false)
        .disable_header_comment()
        .derive_debug(false)
        .layout_tests(true)
        .generate();
    let bindings = match generated {
        Ok(bindings) => bindings,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let notice: String = notice.trim().lines().map(|line| format!("// {line}").trim_end().to_owned() + "\n").collect();
    let text = format!(
        "// Made by `cargo run -p ggml-abi --example generate` from ggml's headers; do not edit.\n// The headers' \
         notice:\n//\n{notice}\n{bindings}"
    );
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/generated/{module}.rs"));
    if let Err(error) = std::fs::write(&path, text) {
        eprintln!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
