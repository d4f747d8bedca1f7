//! Builds the device image and reads the host/device contract.
//!
//! Into `OUT_DIR`: `et_kernels.elf` (the image that the plugin embeds), `et_command.rs` (bindings of
//! `kernels/include/et_command.h`). Beside the plugin: `et-kernels.debug` (the image with its line tables).
//! `ET_TOOLCHAIN` names the prefix of another RISC-V compiler than the distribution's.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{bail, Context, Result};
use object::{Object, ObjectSection, SectionKind};

const DEFAULT_TOOLCHAIN: &str = "riscv64-unknown-elf-";

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ggml-et: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("run by cargo")?);
    let out = PathBuf::from(env::var_os("OUT_DIR").context("run by cargo")?);
    println!("cargo::rerun-if-env-changed=ET_TOOLCHAIN");
    println!("cargo::rerun-if-changed=kernels");
    bindings(&root, &out)?;
    let debug = compile(&root, &out)?;
    check(&debug)?;
    // OUT_DIR is <target>/<profile>/build/<package>-<hash>/out.
    if let Some(profile) = out.ancestors().nth(3) {
        fs::copy(&debug, profile.join("et-kernels.debug")).context("can't place et-kernels.debug beside the plugin")?;
    }
    Ok(())
}

fn bindings(root: &Path, out: &Path) -> Result<()> {
    // bindgen panics when there is no libclang; its message is a page long.
    let generated = std::panic::catch_unwind(|| {
        bindgen::Builder::default()
            .header(root.join("kernels/include/et_command.h").to_string_lossy())
            .allowlist_item("(et|ET)_.*")
            .prepend_enum_name(false)
            .derive_default(true)
            .layout_tests(false)
            .use_core()
            .generate()
    });
    let bindings = match generated {
        Ok(bindings) => bindings.context("can't read kernels/include/et_command.h")?,
        Err(_) => bail!("libclang is missing: install it (Debian: apt-get install libclang-dev) or set LIBCLANG_PATH"),
    };
    bindings.write_to_file(out.join("et_command.rs")).context("can't write the bindings")
}

fn compile(root: &Path, out: &Path) -> Result<PathBuf> {
    let prefix = env::var("ET_TOOLCHAIN").unwrap_or_else(|_| DEFAULT_TOOLCHAIN.to_owned());
    let gcc = format!("{prefix}gcc");
    let options = |file: &str| format!("@{}", root.join("kernels").join(file).display());
    let instructions = out.join("et_instructions.inc");
    fs::write(&instructions, et_isa::assembler_include()).context("can't write the assembler macros")?;

    let mut sources: Vec<PathBuf> = fs::read_dir(root.join("kernels/src"))
        .context("kernels/src")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c" || extension == "S"));
    sources.sort();

    let mut objects = Vec::new();
    for source in &sources {
        let object = out.join(source.with_extension("o").file_name().context("a source without a name")?);
        let mut command = Command::new(&gcc);
        command
            .arg(options("compile.flags"))
            .arg(format!("-Wa,{}", instructions.display()))
            .arg(format!("-ffile-prefix-map={}=.", root.display()))
            .arg("-I")
            .arg(root.join("kernels/include"))
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(&object);
        run(&mut command, &gcc)?;
        objects.push(object);
    }

    let debug = out.join("et_kernels.debug");
    let script = root.join("kernels/image.ld");
    let mut link = Command::new(&gcc);
    link.arg(options("link.flags")).arg("-T").arg(&script).args(&objects).arg("-lgcc").arg("-o").arg(&debug);
    run(&mut link, &gcc)?;

    let objcopy = format!("{prefix}objcopy");
    let mut strip = Command::new(&objcopy);
    strip.arg("--strip-all").arg(&debug).arg(out.join("et_kernels.elf"));
    run(&mut strip, &objcopy)?;
    Ok(debug)
}

/// The build fails on an instruction that the chip does not implement.
fn check(image: &Path) -> Result<()> {
    let data = fs::read(image)?;
    let file = object::File::parse(&*data).context("the linked image is no ELF file")?;
    let lines = addr2line::Loader::new(image).ok();
    let mut faults = Vec::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        for forbidden in et_isa::check(section.data()?) {
            let address = section.address() + forbidden.offset as u64;
            let line = lines
                .as_ref()
                .and_then(|lines| lines.find_location(address).ok().flatten())
                .map(|place| format!("{}:{}", place.file.unwrap_or("?"), place.line.unwrap_or(0)))
                .unwrap_or_else(|| format!("{address:#x}"));
            faults.push(format!("{line}: {:08x}: {}", forbidden.word, forbidden.why));
        }
    }
    if !faults.is_empty() {
        bail!("the kernels contain instructions that the chip does not implement:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

fn run(command: &mut Command, program: &str) -> Result<()> {
    let output = command.output().with_context(|| {
        format!(
            "can't run the RISC-V compiler '{program}': install it (Debian: apt-get install gcc-riscv64-unknown-elf) or \
             set ET_TOOLCHAIN to another one's prefix"
        )
    })?;
    if !output.status.success() {
        bail!("{program} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
