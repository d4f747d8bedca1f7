//! The GNU assembler for RISC-V, with our include.

use std::path::PathBuf;
use std::process::Command;

/// Assembles `source` after the include and returns the bytes of its text section.
pub fn assemble(name: &str, march: &str, source: &str) -> Vec<u8> {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("scratch directory");
    let path = |file: &str| dir.join(file).to_str().expect("UTF-8 path").to_string();
    std::fs::write(path("et.inc"), et_isa::assembler_include()).expect("write the include");
    std::fs::write(path("test.s"), source).expect("write the source");
    let run = |tool: &str, args: &[&str]| {
        let out = Command::new(tool).args(args).output().unwrap_or_else(|e| {
            panic!("cannot run {tool} ({e}): install binutils for riscv64-unknown-elf, these tests need it")
        });
        let messages = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{tool}: {}", messages.lines().take(10).collect::<Vec<_>>().join("\n"));
    };
    let march = format!("-march={march}");
    run(
        "riscv64-unknown-elf-as",
        &[&march, "-mno-relax", "-mno-arch-attr", "-o", &path("test.o"), &path("et.inc"), &path("test.s")],
    );
    run("riscv64-unknown-elf-objcopy", &["-O", "binary", "-j", ".text", &path("test.o"), &path("test.bin")]);
    std::fs::read(path("test.bin")).expect("assembled code")
}

/// The words of assembled code.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("four bytes"))).collect()
}
