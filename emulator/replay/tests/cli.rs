//! The program as people run it: kernels built by the stock RISC-V compiler, launch files, captures.

use et_emulator::capture::{Capture, ImageFile, Outcome, Pages, Recorded, Topology};
use et_emulator::labels::{Command as Step, Extent, Labels};
use et_emulator::{elf, Config, Machine};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Under the firmware's ABI, with an argument block of its own: out[i] = in[i] * scale + bias[i % 4], a line per hart.
const KERNEL: &str = r#"
struct arguments {
    unsigned count;
    const float *in;
    float *out;
    float scale;
    const float *bias;
};

static void leave(long value) {
    register long a0 __asm__("a0") = 8;
    register long a1 __asm__("a1") = value;
    register long a2 __asm__("a2") = 0;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2) : "memory");
    __builtin_unreachable();
}

void scale_rows(const struct arguments *arguments) {
    unsigned long hart;
    __asm__ volatile("csrr %0, 0xcd0" : "=r"(hart));
    for (unsigned i = 16 * hart; i < arguments->count && i < 16 * hart + 16; i++) {
        arguments->out[i] = arguments->in[i] * arguments->scale + arguments->bias[i % 4];
    }
    leave(0);
}

void stumble(const struct arguments *arguments) {
    leave(*(volatile int *)(16 + 0 * (unsigned long)arguments->in)); // line 28
}
"#;

/// A directory with `kernel.elf`, for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let folder = Folder(path);
        fs::write(folder.0.join("kernel.c"), KERNEL).unwrap();
        let compiler = std::env::var("ET_TOOLCHAIN").unwrap_or("riscv64-unknown-elf-".to_owned()) + "gcc";
        let compiled = Command::new(&compiler)
            .current_dir(&folder.0)
            .args([
                "-march=rv64imfc",
                "-mabi=lp64f",
                "-mcmodel=medany",
                "-O1",
                "-g",
                "-ffreestanding",
                "-nostdlib",
                "-static",
            ])
            .args([
                "-Wl,-Ttext=0x8005801000",
                "-Wl,-e,scale_rows",
                "-Wl,--no-warn-rwx-segments",
                "kernel.c",
                "-o",
                "kernel.elf",
            ])
            .output()
            .unwrap_or_else(|error| panic!("can't run {compiler}: {error}"));
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        folder
    }

    /// What et-replay prints, and its exit status.
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output =
            Command::new(env!("CARGO_BIN_EXE_et-replay")).current_dir(&self.0).args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().expect("an exit status"), String::from_utf8(text).unwrap())
    }

    fn launch_file(&self, name: &str, changes: &[(&str, &str)]) {
        let mut text = r#"{
            "format": "et-launch", "version": 1, "elf": "kernel.elf", "shires": 2,
            "arguments": [{"u32": 40}, {"address_of": "in"}, {"address_of": "out"}, {"f32": 0.5}, {"address_of": "bias"}],
            "buffers": [
                {"name": "in", "fill": {"file": "in.bin"}},
                {"name": "out", "bytes": 160, "fill": {"byte": 255}, "expect": {"file": "out.bin"},
                 "dump": "dumped.bin", "show": {"type": "f32", "count": 5}},
                {"name": "bias", "fill": {"values": [{"f32": 0}, {"f32": 1}, {"f32": 2}, {"f32": 3}]}}
            ]
        }"#
        .to_owned();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        fs::write(self.0.join(name), text).unwrap();
    }

    fn write_floats(&self, name: &str, values: impl Iterator<Item = f32>) {
        fs::write(self.0.join(name), values.flat_map(f32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_hand_written_launch_runs() {
    let folder = Folder::new("hand-written");
    folder.write_floats("in.bin", (0..40).map(|i| i as f32));
    let results = (0..40).map(|i| i as f32 * 0.5 + (i % 4) as f32);
    folder.write_floats("out.bin", results.clone());
    folder.launch_file("good.json", &[]);
    let (status, text) = folder.run(&["run", "good.json", "--repeat", "2", "--threads", "2"]);
    assert_eq!(status, 0, "{text}");
    for words in ["scale_rows at kernel.c:", "on 2 shires", "out: 0 1.5 3 4.5 2\n", "median of 2 with 2 threads"] {
        assert!(text.contains(words), "'{words}' is missing:\n{text}");
    }
    assert_eq!(fs::read(folder.0.join("dumped.bin")).unwrap(), fs::read(folder.0.join("out.bin")).unwrap());

    // By symbol and placed elsewhere, with an expectation that is a little off.
    folder.write_floats("out.bin", results.map(|value| value + 0.001));
    let elsewhere = [
        (r#""shires": 2"#, r#""address": "0x8006000000", "entry": "scale_rows""#),
        (r#"{"file": "out.bin"}"#, r#"{"file": "out.bin", "tolerance": 0.01}"#),
    ];
    folder.launch_file("elsewhere.json", &elsewhere);
    let (status, text) = folder.run(&["run", "--json", "elsewhere.json"]);
    assert_eq!(status, 0, "{text}");
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["good"], &value["macs"]["int8"]), (&Value::from(true), &Value::from(0)), "{text}");
    folder.launch_file("wrong.json", &[]);
    let (status, text) = folder.run(&["run", "wrong.json", "elsewhere.json"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("WRONG: out differs at byte 0"), "{text}");
    assert!(text.contains("elsewhere.json"), "the other one runs as well:\n{text}");
}

#[test]
fn a_fault_names_its_source_line() {
    let folder = Folder::new("fault");
    folder.write_floats("in.bin", (0..40).map(|_| 0.0));
    folder.launch_file(
        "fault.json",
        &[(r#""shires": 2"#, r#""entry": "stumble""#), (r#""expect": {"file": "out.bin"},"#, "")],
    );
    let (status, text) = folder.run(&["run", "fault.json"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("FAILED: hart ") && text.contains("may not read 0x10"), "{text}");
    assert!(text.contains("stumble at kernel.c:28"), "{text}");
    let (status, text) = folder.run(&["disasm", "kernel.elf", "stumble"]);
    assert_eq!(status, 0, "{text}");
    assert!(
        text.starts_with("\nstumble:\n") && text.contains("; stumble at kernel.c:28") && text.contains("ecall"),
        "{text}"
    );
    assert!(!text.contains("scale_rows"), "{text}");
}

#[test]
fn mistakes_end_in_one_line() {
    let folder = Folder::new("mistakes");
    folder.write_floats("in.bin", (0..40).map(|_| 0.0));
    folder.write_floats("out.bin", (0..40).map(|_| 0.0));
    let cases = [
        ((r#""version": 1"#, r#""version": 9"#), "mistake.json is of version 9, this program reads versions up to 1"),
        (("et-launch", "et-lunch"), "mistake.json is no launch file: its format is 'et-lunch'"),
        ((r#""shires""#, r#""shire""#), "unknown field `shire`"),
        (("kernel.elf", "nowhere.elf"), "can't read nowhere.elf: No such file"),
        (("kernel.elf", "kernel.c"), "kernel.c can't be loaded: the file is no 64-bit ELF file"),
        ((r#"{"address_of": "bias"}"#, r#"{"address_of": "base"}"#), "arguments: there is no buffer 'base'"),
        ((r#""shires": 2"#, r#""entry": "main""#), "the ELF file has no symbol 'main'"),
        ((r#""bytes": 160,"#, ""), "buffer 'out': its size in bytes is missing"),
        ((r#""shires": 2"#, r#""shires": 33"#), "cannot emulate 33 shires"),
        ((r#""shires": 2"#, r#""shire_mask": "0x2""#), "shire mask 0x2 does not fit this machine"),
    ];
    for (change, words) in cases {
        folder.launch_file("mistake.json", &[change]);
        let (status, text) = folder.run(&["run", "mistake.json"]);
        assert_ne!(status, 0, "{text}");
        assert!(text.contains(words), "'{words}' is missing:\n{text}");
        assert!(text.lines().count() <= 2, "{text}");
    }
    let (status, text) = folder.run(&["."]);
    assert_eq!((status, text.as_str()), (2, "et-replay: . holds no capture (capture.json is missing)\n"));
    assert_eq!(
        folder.run(&["nowhere"]),
        (2, "et-replay: can't read nowhere: No such file or directory (os error 2)\n".into())
    );
    let (status, text) = folder.run(&["--fast", "x"]);
    assert!(status == 2 && text.contains("--fast") && text.contains("--help"), "{text}");
    assert_eq!(folder.run(&["--help"]).0, 0);
}

/// Captures the kernel on 40 elements.
fn capture(folder: &Folder, name: &str, entry: &str) {
    let data = fs::read(folder.0.join("kernel.elf")).unwrap();
    let machine = Machine::new(Config { threads: 1, ..Config::default() }).unwrap();
    let image = elf::Image::parse(&data).unwrap();
    let address = 0x80_0680_0000;
    let start = image.place(&machine, address).unwrap();
    let (input, out, bias) = (0x80_0600_0000u64, 0x80_0600_1000u64, 0x80_0600_2000u64);
    machine.write(input, &1f32.to_le_bytes().repeat(40)).unwrap();
    let mut args = 40u64.to_le_bytes().to_vec();
    args.extend([input, out].map(u64::to_le_bytes).concat());
    args.extend([2f32.to_le_bytes(), [0; 4]].concat());
    args.extend(bias.to_le_bytes());
    let extent = |address, name: &str| Extent { address, bytes: 160, name: name.to_owned() };
    let labels = Labels {
        commands: vec![Step {
            kernel: "scale_rows_f32".to_owned(),
            op: "SCALE".to_owned(),
            also: 0,
            operands: vec![extent(out, "scaled"), extent(input, "input")],
        }],
        buffers: vec![extent(out, "buffer")],
        timestamps: None,
    };
    let asked = Capture {
        launch: Recorded {
            entry: if entry == "stumble" { start + symbol_distance(&data) } else { start },
            arguments: args,
            shire_mask: 1,
            exact_flags: false,
        },
        topology: Topology { shires: 1, dram_bytes: 1 << 30 },
        images: vec![ImageFile { file: "image.elf".to_owned(), address, data }],
        labels,
        volatile: Vec::new(),
        outcome: Outcome::Failed { error: String::new() },
        before: Pages::default(),
        after: Pages::default(),
    };
    let lines = asked.lines();
    let (_, capture) = Capture::take(&machine, &asked.launch(Some(&lines)), asked.images.clone(), asked.labels.clone());
    capture.write(&folder.0.join(name)).unwrap();
}

/// From `scale_rows` to `stumble`.
fn symbol_distance(data: &[u8]) -> u64 {
    use object::{Object, ObjectSymbol};
    let file = object::File::parse(data).unwrap();
    let address = |name| file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap().address();
    address("stumble") - address("scale_rows")
}

#[test]
fn captures_are_replayed_and_compared() {
    let folder = Folder::new("captures");
    capture(&folder, "all/launch-00001", "scale_rows");
    capture(&folder, "all/launch-00002", "scale_rows");
    let (status, text) = folder.run(&["all"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(text.matches("1 command on 1 shire").count(), 2, "{text}");
    assert_eq!(text.matches("memory is as recorded").count(), 2, "{text}");
    let (status, text) = folder.run(&["show", "all/launch-00001"]);
    assert!(status == 0 && text.contains("scale_rows_f32") && text.contains("scaled, input"), "{text}");
    let (status, text) = folder.run(&["disasm", "all/launch-00001", "stumble"]);
    assert!(status == 0 && text.contains("stumble at kernel.c:28"), "{text}");

    // A result that the kernel does not give.
    let path = folder.0.join("all/launch-00002");
    let mut changed = Capture::read(&path).unwrap();
    let mut page = changed.after.get(0x80_0600_1000).unwrap().to_vec();
    page[5] ^= 0xF0;
    let mut after = Pages::default();
    for (addr, old) in changed.after.iter() {
        after.push(addr, if addr == 0x80_0600_1000 { &page } else { old });
    }
    changed.after = after;
    fs::remove_dir_all(&path).unwrap();
    changed.write(&path).unwrap();
    let (status, text) = folder.run(&["all", "--repeat", "1"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("MEMORY DIFFERS in 1 byte\n    0x8006001005 (scaled + 5): recorded f0, now 00"), "{text}");
    let (status, text) = folder.run(&["--json", "all"]);
    assert_eq!(status, 1, "{text}");
    let same: Vec<_> = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["same"].clone()).collect();
    assert_eq!(same, [true, false]);
}

#[test]
fn a_captured_failure_is_shown_as_one() {
    let folder = Folder::new("failure");
    capture(&folder, "failure", "stumble");
    let (status, text) = folder.run(&["failure"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("FAILED: hart ") && text.contains("stumble at kernel.c:28"), "{text}");
    let (_, text) = folder.run(&["show", "failure"]);
    assert!(text.contains("outcome: hart "), "{text}");
}
