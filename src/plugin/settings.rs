//! The environment variables. docs/user-guide.md has the table.

use crate::graph::fuse::Fusions;
use et_emulator::{Config, Mode};
use regex_lite::Regex;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Which kind of device is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A board, if there is one.
    Auto,
    /// A board, asked for by name.
    Pcie,
    /// The vendor's simulator.
    Sysemu,
    /// The emulator in this library.
    Emulator,
    /// None: nothing is computed.
    Null,
}

/// What the environment says.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `GGML_ET_DEVICE`.
    pub choice: Choice,
    /// `GGML_ET_EMU`, `GGML_ET_EMU_JIT`, `GGML_ET_EMU_SEED`, `GGML_ET_EMU_SHIRES`, `GGML_ET_EMU_MEMORY`,
    /// `GGML_ET_EMU_THREADS`.
    pub emulator: Config,
    /// `GGML_ET_SHIRE_MASK`.
    pub shires: Option<u64>,
    /// `GGML_ET_KERNELS_PATH`.
    pub kernels: Option<PathBuf>,
    /// `GGML_ET_UBERKERNEL`.
    pub uberkernel: bool,
    /// `GGML_ET_ASYNC`: computations return before they are done.
    pub asynchronous: bool,
    /// `GGML_ET_FUSION`.
    pub fusions: Fusions,
    /// `GGML_ET_PLANS`: how many plans a stream keeps.
    pub plans: Option<usize>,
    /// `GGML_ET_PERF`.
    pub perf: bool,
    /// `GGML_ET_SHOW_PLANS`.
    pub show_plans: bool,
    /// `GGML_ET_PROFILE`.
    pub profile: Option<PathBuf>,
    /// `GGML_ET_EXPLAIN`.
    pub explain: bool,
    /// `GGML_ET_CAPTURE` and `GGML_ET_CAPTURE_LAUNCHES`: where to, and which.
    pub capture: Option<(PathBuf, RangeInclusive<u64>)>,
    /// `GGML_ET_OPFILTER`.
    pub filter: Option<Regex>,
}

impl Settings {
    /// Reads the variables through `get`. The error names the variable, its value and what is allowed. A variable that
    /// is set but empty counts as not set.
    pub fn read(get: impl Fn(&str) -> Option<OsString>) -> Result<Settings, String> {
        let env = Env { get };
        let choice = match env.text("GGML_ET_DEVICE")?.as_deref() {
            None | Some("auto") => Choice::Auto,
            Some("pcie") => Choice::Pcie,
            Some("sysemu") => Choice::Sysemu,
            Some("emulator") => Choice::Emulator,
            Some("null") => Choice::Null,
            Some(other) => return Err(wrong("GGML_ET_DEVICE", other, "auto, pcie, sysemu, emulator or null")),
        };
        let default = Config::default();
        let most = Config::MAX_SHIRES;
        let allowed = format!("a number from 1 to {most}");
        let shires = env.parse("GGML_ET_EMU_SHIRES", &allowed, |text| {
            text.parse().ok().filter(|shires| (1..=most).contains(shires))
        })?;
        let (least, most) = (Config::MIN_DRAM, Config::MAX_DRAM);
        let allowed = format!("a size such as 512M or 16G, from {}M to {}G", least >> 20, most >> 30);
        let memory = env.parse("GGML_ET_EMU_MEMORY", &allowed, |text| {
            size(text).filter(|bytes| (least..=most).contains(bytes) && bytes % 4096 == 0)
        })?;
        let threads = env.parse("GGML_ET_EMU_THREADS", "a number from 0 (all cores) to 1024", |text| {
            text.parse().ok().filter(|&threads| threads <= 1024)
        })?;
        let seed = env.parse("GGML_ET_EMU_SEED", "a number", |text| text.parse().ok())?;
        let mode = match env.text("GGML_ET_EMU")?.as_deref() {
            None | Some("fast") => Mode::Fast,
            Some("strict") => Mode::Strict { seed: seed.unwrap_or_else(any_seed) },
            Some("timing") => Mode::Timing,
            Some(other) => return Err(wrong("GGML_ET_EMU", other, "fast, strict or timing")),
        };
        let jit = env.switch("GGML_ET_EMU_JIT", true)?;
        let mask = env.parse("GGML_ET_SHIRE_MASK", "a bit mask such as 0xff, with at least one bit", |text| {
            let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => text.parse(),
            };
            number.ok().filter(|&mask| mask != 0)
        })?;
        let allowed = "a number or a range such as 3-5, counted from 1";
        let launches = env.parse("GGML_ET_CAPTURE_LAUNCHES", allowed, range)?;
        let capture = env.value("GGML_ET_CAPTURE").map(PathBuf::from);
        if capture.is_none() && launches.is_some() {
            return Err(
                "GGML_ET_CAPTURE_LAUNCHES is set, but GGML_ET_CAPTURE, the directory to write to, is not".into()
            );
        }
        let names: Vec<&str> = Fusions::names().collect();
        let allowed =
            format!("all, none, or some of {} with commas between, each with a '-' to leave it out", names.join(", "));
        let fusions = env.parse("GGML_ET_FUSION", &allowed, Fusions::parse)?;
        let plans = env.parse("GGML_ET_PLANS", "a number from 0 to 1024", |text| {
            text.parse().ok().filter(|&plans| plans <= 1024)
        })?;
        let filter = env.parse("GGML_ET_OPFILTER", "a regular expression", |text| Regex::new(text).ok())?;
        Ok(Settings {
            choice,
            emulator: Config {
                shires: shires.unwrap_or(default.shires),
                dram_bytes: memory.unwrap_or(default.dram_bytes),
                threads: threads.unwrap_or(default.threads),
                mode,
                translate_after: if jit { default.translate_after } else { None },
            },
            shires: mask,
            kernels: env.value("GGML_ET_KERNELS_PATH").map(PathBuf::from),
            uberkernel: env.switch("GGML_ET_UBERKERNEL", true)?,
            // Who looks for faults wants to know at once whose they are.
            asynchronous: env.switch("GGML_ET_ASYNC", mode == Mode::Fast)?,
            fusions: fusions.unwrap_or_default(),
            plans,
            perf: env.switch("GGML_ET_PERF", false)?,
            show_plans: env.switch("GGML_ET_SHOW_PLANS", false)?,
            profile: env.value("GGML_ET_PROFILE").map(PathBuf::from),
            explain: env.switch("GGML_ET_EXPLAIN", false)?,
            capture: capture.map(|directory| (directory, launches.unwrap_or(1..=u64::MAX))),
            filter,
        })
    }
}

struct Env<F> {
    get: F,
}

impl<F: Fn(&str) -> Option<OsString>> Env<F> {
    fn value(&self, name: &str) -> Option<OsString> {
        (self.get)(name).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        let text = self.value(name).map(OsString::into_string).transpose();
        text.map_err(|value| wrong(name, &value.to_string_lossy(), "plain text"))
    }

    fn parse<T>(&self, name: &str, allowed: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, String> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        parse(text.trim()).map(Some).ok_or_else(|| wrong(name, &text, allowed))
    }

    fn switch(&self, name: &str, default: bool) -> Result<bool, String> {
        let value = self.parse(name, "0 or 1", |text| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        })?;
        Ok(value.unwrap_or(default))
    }
}

fn wrong(name: &str, value: &str, allowed: &str) -> String {
    format!("{name} is '{value}', but must be {allowed}")
}

/// The numbers of "3" or "3-5".
fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse().ok()?..=last.parse().ok()?;
    (*range.start() > 0 && !range.is_empty()).then_some(range)
}

/// A seed that is another one each time.
fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.subsec_nanos().into())
}

/// Bytes of "4096", "512K", "512M", "16G", "16GiB".
fn size(text: &str) -> Option<u64> {
    let text = text.to_ascii_uppercase();
    let text = text.strip_suffix("IB").or(text.strip_suffix('B')).unwrap_or(&text);
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn an_empty_environment_means_boards_only() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.choice, Choice::Auto);
        assert_eq!(settings.emulator, Config::default());
        assert!(
            settings.uberkernel
                && !settings.perf
                && !settings.explain
                && settings.filter.is_none()
                && settings.shires.is_none()
        );
        assert_eq!(read(&[("GGML_ET_DEVICE", "")]).unwrap().choice, Choice::Auto);
    }

    #[test]
    fn every_value_has_its_forms() {
        let settings = read(&[
            ("GGML_ET_DEVICE", "emulator"),
            ("GGML_ET_EMU_SHIRES", "32"),
            ("GGML_ET_EMU_MEMORY", "512M"),
            ("GGML_ET_EMU_THREADS", "0"),
            ("GGML_ET_SHIRE_MASK", "0xF0"),
            ("GGML_ET_UBERKERNEL", "0"),
            ("GGML_ET_PERF", "1"),
            ("GGML_ET_CAPTURE", "captures"),
            ("GGML_ET_CAPTURE_LAUNCHES", "3-5"),
            ("GGML_ET_OPFILTER", "^(ADD|MUL)$"),
        ])
        .unwrap();
        assert_eq!(settings.choice, Choice::Emulator);
        assert_eq!(settings.emulator, Config { shires: 32, dram_bytes: 512 << 20, threads: 0, ..Config::default() });
        assert_eq!(settings.shires, Some(0xf0));
        assert!(!settings.uberkernel && settings.perf);
        assert_eq!(settings.capture, Some(("captures".into(), 3..=5)));
        assert_eq!(read(&[("GGML_ET_CAPTURE", "x")]).unwrap().capture, Some(("x".into(), 1..=u64::MAX)));
        assert_eq!(range("4"), Some(4..=4));
        assert!(settings.filter.unwrap().is_match("MUL"));
        assert_eq!(read(&[("GGML_ET_EMU_MEMORY", "2GiB")]).unwrap().emulator.dram_bytes, 2 << 30);
        assert_eq!(read(&[("GGML_ET_EMU_JIT", "0")]).unwrap().emulator.translate_after, None);
    }

    #[test]
    fn wrong_values_are_named_in_one_line() {
        for (name, value) in [
            ("GGML_ET_DEVICE", "gpu"),
            ("GGML_ET_EMU", "slow"),
            ("GGML_ET_EMU_SEED", "x"),
            ("GGML_ET_EMU_SHIRES", "0"),
            ("GGML_ET_EMU_SHIRES", "33"),
            ("GGML_ET_EMU_MEMORY", "1T"),
            ("GGML_ET_EMU_MEMORY", "1M"),
            ("GGML_ET_EMU_MEMORY", "99999999999999999999G"),
            ("GGML_ET_EMU_THREADS", "-1"),
            ("GGML_ET_EMU_JIT", "2"),
            ("GGML_ET_SHIRE_MASK", "0"),
            ("GGML_ET_SHIRE_MASK", "all"),
            ("GGML_ET_UBERKERNEL", "yes"),
            ("GGML_ET_PERF", "2"),
            ("GGML_ET_CAPTURE_LAUNCHES", "0-3"),
            ("GGML_ET_CAPTURE_LAUNCHES", "5-3"),
            ("GGML_ET_CAPTURE_LAUNCHES", "all"),
            ("GGML_ET_OPFILTER", "("),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name} is '{value}', but must be ")), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
