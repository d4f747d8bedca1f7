//! `et-replay`: runs captured and hand-written launches on the emulator. docs/capture.md describes both kinds of files.

mod calibrate;
mod disassemble;
mod files;
mod launch_file;
mod measure;
mod options;
mod replay;
mod run;
mod show;
mod timing;

use options::Command;
use std::process::ExitCode;

/// Whether all was as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// A fault, or memory that differs.
    Bad,
}

fn main() -> ExitCode {
    let command = match options::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("et-replay: {error:#}; 'et-replay --help' shows the usage");
            return ExitCode::from(2);
        }
    };
    let done = match &command {
        Command::Help => {
            print!("{}", options::USAGE);
            Ok(Verdict::Good)
        }
        Command::Replay { captures, options } => replay::replay(captures, options),
        Command::Run { files, options } => run::run(files, options),
        Command::Show { captures } => show::show(captures),
        Command::Disassemble { file, function } => disassemble::disassemble(file, function.as_deref()),
    };
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(1),
        Err(error) => {
            eprintln!("et-replay: {error:#}");
            ExitCode::from(2)
        }
    }
}
