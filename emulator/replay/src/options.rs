//! The command line.

use anyhow::{bail, Context, Result};
use et_emulator::Mode;
use lexopt::{Arg, Parser};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "\
Runs captured and hand-written kernel launches on the ET-SoC-1 emulator.

Usage: et-replay [OPTIONS] CAPTURE...          run captures, compare memory with the recorded result
       et-replay run [OPTIONS] LAUNCH.json...  run hand-written launches of any kernel ELF
       et-replay show CAPTURE...               tell what is in captures
       et-replay disasm FILE [FUNCTION]        disassemble an ELF file or a capture's image, with source lines

CAPTURE is a directory that GGML_ET_CAPTURE made, or one of the launches in it.

Options:
  --threads N      host threads (default 1; 0: one per core)
  --repeat N       measure N runs and print the median rates
  --deadline S     give up a run after S seconds
  --commands       list every command, not only the sums per kernel
  --timing         run under the timing model: cycles, stalls, bytes and arithmetic of every command
  --strict SEED    run in strict mode, which reports faults of the program; the seed decides the order of harts
  --json           print one JSON object per launch
  --help           this text

Exit status: 0 when all is as recorded or expected, 1 after a fault or a difference, 2 when something can't be run.
";

/// How launches are run and reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Host threads, 0 for all cores.
    pub threads: usize,
    /// Measured runs; 0: just one run, not measured again.
    pub repeat: usize,
    pub deadline: Option<Duration>,
    pub mode: Mode,
    pub commands: bool,
    pub json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { threads: 1, repeat: 0, deadline: None, mode: Mode::Fast, commands: false, json: false }
    }
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Help,
    Replay { captures: Vec<PathBuf>, options: Options },
    Run { files: Vec<PathBuf>, options: Options },
    Show { captures: Vec<PathBuf> },
    Disassemble { file: PathBuf, function: Option<String> },
}

pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command> {
    let mut parser = Parser::from_args(arguments);
    let mut options = Options::default();
    let mut word = None;
    let mut files: Vec<PathBuf> = Vec::new();
    let mut first = true;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Value(value) if first && ["run", "show", "disasm"].iter().any(|known| value == *known) => {
                word = value.into_string().ok();
            }
            Arg::Value(value) => files.push(value.into()),
            Arg::Long("threads") => options.threads = number(&mut parser, "--threads")?,
            Arg::Long("repeat") => options.repeat = number(&mut parser, "--repeat")?,
            Arg::Long("deadline") => {
                options.deadline = Some(Duration::from_secs(number(&mut parser, "--deadline")? as u64));
            }
            Arg::Long("commands") => options.commands = true,
            Arg::Long("timing") => options.mode = Mode::Timing,
            Arg::Long("strict") => {
                options.mode = Mode::Strict { seed: number(&mut parser, "--strict")? as u64 };
            }
            Arg::Long("json") => options.json = true,
            other => return Err(other.unexpected().into()),
        }
        first = false;
    }
    if files.is_empty() {
        bail!("nothing to work on was named");
    }
    Ok(match word.as_deref() {
        None => Command::Replay { captures: files, options },
        Some("run") => Command::Run { files, options },
        Some("show") => Command::Show { captures: files },
        _ => {
            let mut files = files.into_iter();
            let (file, function) = (files.next().unwrap_or_default(), files.next());
            if files.next().is_some() {
                bail!("disasm takes one file and one function");
            }
            Command::Disassemble { file, function: function.map(|name| name.to_string_lossy().into_owned()) }
        }
    })
}

fn number(parser: &mut Parser, name: &str) -> Result<usize> {
    let value = parser.value()?;
    let parsed = value.to_str().and_then(|text| text.parse().ok());
    parsed.with_context(|| format!("{name} is '{}', but must be a whole number", value.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Command> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn every_form_is_understood() {
        let options = Options { threads: 2, repeat: 5, json: true, ..Options::default() };
        let captures = vec!["a".into(), "run".into()];
        assert_eq!(words("--threads 2 --json a --repeat=5 run").unwrap(), Command::Replay { captures, options });
        let options = Options { deadline: Some(Duration::from_secs(9)), commands: true, ..Options::default() };
        assert_eq!(
            words("run x.json --deadline 9 --commands").unwrap(),
            Command::Run { files: vec!["x.json".into()], options }
        );
        let options = Options { mode: Mode::Timing, ..Options::default() };
        assert_eq!(words("--timing x").unwrap(), Command::Replay { captures: vec!["x".into()], options });
        let options = Options { mode: Mode::Strict { seed: 7 }, ..Options::default() };
        assert_eq!(words("--strict 7 x").unwrap(), Command::Replay { captures: vec!["x".into()], options });
        assert_eq!(words("show a").unwrap(), Command::Show { captures: vec!["a".into()] });
        assert_eq!(
            words("disasm k.elf main").unwrap(),
            Command::Disassemble { file: "k.elf".into(), function: Some("main".into()) }
        );
        assert_eq!(words("run --help").unwrap(), Command::Help);
    }

    #[test]
    fn mistakes_are_named() {
        let refusal = |line| words(line).unwrap_err().to_string();
        assert_eq!(refusal("--threads many x"), "--threads is 'many', but must be a whole number");
        assert!(refusal("--fast x").contains("--fast"));
        assert!(refusal("run").contains("nothing"));
        assert!(refusal("disasm a b c").contains("one file"));
    }
}
