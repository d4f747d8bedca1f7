//! Captures: what they contain, that they replay bit for bit, and that damage is noticed.

mod machine;

use et_emulator::capture::{Capture, CaptureError, ImageFile, Outcome, MANIFEST};
use et_emulator::labels::{Command, Extent, Labels};
use et_emulator::{LaunchError, Machine};
use machine::{launch, machine, Program, CODE};
use std::path::{Path, PathBuf};

const COUNTER: u64 = 0x80_0800_0000;
const SOURCE: u64 = COUNTER + 0x1_0000;
const TARGET: u64 = COUNTER + 0x2_0000;
const TILE: u64 = COUNTER + 0x3_0000;
const TILE_OUT: u64 = COUNTER + 0x4_0000;
/// Never touched, between those that are.
const BYSTANDER: u64 = COUNTER + 0x2_8000;
const OWN_SCRATCHPAD: u64 = 0x8000_0000 | 0x7F << 23;

/// Every hart counts itself and copies a line; hart 64 (of shire 1) also goes through its L2 scratchpad and, with the tensor
/// engine, through its L1 scratchpad.
fn program() -> Program {
    let mut special = Program::default();
    special.li(6, OWN_SCRATCHPAD + 0x1008).ld(7, 6, 0).addi(7, 7, 1).sd(7, 6, 0);
    special.li(7, TILE | 1).addi(31, 0, 64).csrrw(0, 0x83F, 7).csrwi(0x830, 0);
    special.li(7, 1 << 51 | 1 << 48 | TILE_OUT).csrrw(0, 0x87F, 7).csrwi(0x830, 8);
    let mut program = Program::default();
    program.csrr(5, 0xCD0).addi(6, 0, 64).branch(1, 5, 6, special.0.len() as i32 + 1);
    program.0.append(&mut special.0);
    program.li(6, COUNTER).addi(7, 0, 1).amoaddg_w(0, 7, 6);
    program.slli(8, 5, 6).li(6, SOURCE).add(6, 6, 8).ld(7, 6, 0).addi(7, 7, 1);
    program.li(6, TARGET).add(6, 6, 8).sd(7, 6, 0).exit(0);
    program
}

fn prepared(threads: usize) -> Machine {
    let machine = machine(2, threads);
    machine.write(CODE, &program().bytes()).unwrap();
    machine.write(SOURCE, &(0..0x2000).map(|i| (i * 7) as u8).collect::<Vec<_>>()).unwrap();
    machine.write(TILE, &(0..128).map(|i| i as u8 ^ 0x55).collect::<Vec<_>>()).unwrap();
    machine.fill(BYSTANDER, 4096, 0xEE).unwrap();
    machine
}

fn labels() -> Labels {
    let operand = |address, bytes, name: &str| Extent { address, bytes, name: name.to_owned() };
    Labels {
        commands: vec![Command {
            kernel: "copy".to_owned(),
            op: "CPY".to_owned(),
            also: 0,
            operands: vec![operand(TARGET, 0x2000, "target"), operand(SOURCE, 0x2000, "source")],
        }],
        buffers: vec![operand(COUNTER, 0x8_0000, "buffer")],
        timestamps: None,
    }
}

fn captured(machine: &Machine) -> Capture {
    let image = ImageFile { file: "image.elf".to_owned(), address: CODE, data: b"no ELF file".to_vec() };
    let (result, capture) = Capture::take(machine, &launch(CODE, 0b11), vec![image], labels());
    result.expect("a good launch");
    capture
}

/// A directory that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capture").join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn exactly_what_was_touched_is_captured() {
    for threads in [1, 2, 5] {
        let machine = prepared(threads);
        // Code that is decoded already counts as well.
        machine.launch(&launch(CODE, 0b11)).unwrap();
        let capture = captured(&machine);
        let addresses: Vec<u64> = capture.before.iter().map(|(addr, _)| addr).collect();
        let scratchpad = 0x8000_0000 + (1 << 23) + 0x1000;
        let touched = [scratchpad, CODE, COUNTER, SOURCE, SOURCE + 0x1000, TARGET, TARGET + 0x1000, TILE, TILE_OUT];
        assert_eq!(addresses, touched, "{threads} threads");
        // The second launch writes the same lines again.
        let changed: Vec<u64> = capture.after.iter().map(|(addr, _)| addr).collect();
        assert_eq!(changed, [scratchpad, COUNTER], "{threads} threads");
        let count = |page: Option<&[u8]>, at: usize| u64::from_le_bytes(page.unwrap()[at..at + 8].try_into().unwrap());
        assert_eq!((count(capture.before.get(COUNTER), 0), count(capture.after.get(COUNTER), 0)), (128, 256));
        assert_eq!((count(capture.before.get(scratchpad), 8), count(capture.after.get(scratchpad), 8)), (1, 2));
        assert!(matches!(capture.outcome, Outcome::Completed { instructions, .. } if instructions > 128 * 10));
    }
}

#[test]
fn a_capture_replays_bit_for_bit_from_its_directory() {
    let folder = Folder::new("replay");
    let path = folder.0.join("launch");
    let capture = captured(&prepared(2));
    capture.write(&path).unwrap();
    assert_eq!(Capture::read(&path).unwrap(), capture);
    assert!(matches!(capture.write(&path), Err(CaptureError::Exists(_))), "nothing is overwritten");
    for threads in [1, 2] {
        let machine = Machine::new(capture.config(threads)).unwrap();
        let lines = capture.lines();
        for _ in 0..2 {
            capture.load(&machine).unwrap();
            assert_ne!(capture.compare(&machine).unwrap().bytes, 0, "nothing has run yet");
            machine.launch(&capture.launch(Some(&lines))).unwrap();
            assert_eq!(capture.compare(&machine).unwrap().bytes, 0, "{threads} threads");
        }
        let mut line = [0; 128];
        machine.peek(TILE_OUT, &mut line).unwrap();
        assert_eq!(line[..], capture.before.get(TILE).unwrap()[..128]);
        // A stack may hold anything.
        machine.poke(0x80_057F_F000, &[1; 16]).unwrap();
        machine.poke(TARGET + 0x1002, &[0xAB, 0xCD]).unwrap();
        machine.poke(COUNTER, &[0]).unwrap();
        let differences = capture.compare(&machine).unwrap();
        assert_eq!(differences.bytes, 3);
        let words: Vec<String> = differences.places.iter().map(|place| place.to_string()).collect();
        assert_eq!(
            words,
            [
                format!("{COUNTER:#x} (buffer + 0): recorded 80, now 00"),
                format!("{:#x} (target + 4098): recorded 0e 15, now ab cd", TARGET + 0x1002),
            ]
        );
    }
}

#[test]
fn a_failure_is_captured_as_one() {
    let machine = machine(1, 1);
    let mut program = Program::default();
    program.li(6, TARGET).addi(7, 0, 5).sd(7, 6, 0).ld(7, 0, 16);
    machine.write(CODE, &program.bytes()).unwrap();
    let (result, capture) = Capture::take(&machine, &launch(CODE, 1), Vec::new(), Labels::default());
    let Err(LaunchError::Faults(_)) = &result else { panic!("{result:?}") };
    assert_eq!(capture.outcome, Outcome::Failed { error: result.unwrap_err().to_string() });
    assert_eq!(capture.after.get(TARGET).map(|page| page[0]), Some(5), "what was written until then");
}

/// What a capture's directory is refused with after `damage`.
fn refusal(name: &str, damage: impl FnOnce(&Path)) -> String {
    let folder = Folder::new(name);
    let path = folder.0.join("launch");
    captured(&prepared(1)).write(&path).unwrap();
    damage(&path);
    let text = Capture::read(&path).expect_err("it is damaged").to_string();
    assert!(text.contains("launch") && !text.contains('\n'), "{text}");
    text
}

/// Replaces words of the manifest.
fn reword(path: &Path, from: &str, to: &str) {
    let file = path.join(MANIFEST);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(file, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn damage_is_named() {
    let shorten = |path: &Path, file: &str, by: usize| {
        let data = std::fs::read(path.join(file)).unwrap();
        std::fs::write(path.join(file), &data[..data.len() - by]).unwrap();
    };
    let text = refusal("short", |path| shorten(path, "before.pages", 1));
    assert!(text.ends_with("before.pages is damaged: its end is missing"), "{text}");
    let text = refusal("json", |path| shorten(path, MANIFEST, 20));
    assert!(text.contains("capture.json is damaged: EOF while parsing"), "{text}");
    let text = refusal("missing", |path| std::fs::remove_file(path.join("after.pages")).unwrap());
    assert!(text.starts_with("can't read ") && text.contains("after.pages: No such file"), "{text}");
    let text = refusal("empty", |path| std::fs::remove_file(path.join(MANIFEST)).unwrap());
    assert!(text.ends_with("holds no capture (capture.json is missing)"), "{text}");
    let text = refusal("flipped", |path| {
        let mut data = std::fs::read(path.join("before.pages")).unwrap();
        let last = data.len() - 1;
        data[last] ^= 1;
        std::fs::write(path.join("before.pages"), data).unwrap();
    });
    assert!(
        text.contains("before.pages is damaged: the pages from 0x80080") && text.ends_with("can't be unpacked"),
        "{text}"
    );
    let text = refusal("elsewhere", |path| reword(path, "\"before.pages\"", "\"../before.pages\""));
    assert!(text.ends_with("'../before.pages' is not the name of a file in the capture"), "{text}");
    let text = refusal("mixed", |path| {
        std::fs::copy(path.join("after.pages"), path.join("before.pages")).unwrap();
    });
    assert!(text.contains("before.pages is damaged"), "{text}");
}

#[test]
fn other_versions_and_formats_are_refused() {
    let text = refusal("newer", |path| reword(path, "\"version\": 1", "\"version\": 2"));
    let newer = "launch is of version 2 of the capture format, this program reads versions up to 1: use a newer one";
    assert!(text.ends_with(newer), "{text}");
    let text = refusal("format", |path| reword(path, "et-capture", "something"));
    assert!(text.ends_with("capture.json is damaged: it is not the description of a capture"), "{text}");
    let text = refusal("unknown", |path| reword(path, "\"volatile\"", "\"fickle\""));
    assert!(text.contains("unknown field `fickle`"), "{text}");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = Folder::new("refused");
    std::fs::write(folder.0.join("file"), []).unwrap();
    let capture = captured(&prepared(1));
    let text = capture.write(&folder.0.join("file/launch")).unwrap_err().to_string();
    assert!(text.starts_with("can't make the directory ") && text.contains("file/launch"), "{text}");
    assert!(!text.contains('\n'));
    // The last page does not fit: nothing remains. Linux has a file that is always full.
    if Path::new("/dev/full").exists() {
        let mut capture = capture;
        capture.images[0].file = "/dev/full".to_owned();
        let text = capture.write(&folder.0.join("launch")).unwrap_err().to_string();
        assert_eq!(text, "can't write /dev/full: No space left on device (os error 28)");
        let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["file"]);
    }
}
