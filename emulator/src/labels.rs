//! What a launch's memory and commands are called. To the emulator these are texts for its reports; nothing depends on them.

use serde::{Deserialize, Serialize};

/// The names that belong to one launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// What the kernel does, step by step, in order.
    #[serde(default)]
    pub commands: Vec<Command>,
    /// The memory that is in use on the device. No two overlap; what lies between them belongs to nobody.
    #[serde(default)]
    pub buffers: Vec<Extent>,
    /// Address of `u64[commands + 1]` where the kernel leaves hpmcounter3 at its start and after each command, if it does.
    #[serde(default, with = "crate::hex::optional", skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<u64>,
}

/// One step of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The kernel function.
    pub kernel: String,
    /// The operation that it computes.
    pub op: String,
    /// How many of the commands after this one it does as well.
    #[serde(default, skip_serializing_if = "zero")]
    pub also: u32,
    /// The tensors that it touches, its result first.
    #[serde(default)]
    pub operands: Vec<Extent>,
}

fn zero(number: &u32) -> bool {
    *number == 0
}

impl Command {
    /// The name of its result, empty when it has none.
    pub fn tensor(&self) -> &str {
        self.operands.first().map_or("", |result| &result.name)
    }
}

/// A named range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// First byte.
    #[serde(with = "crate::hex")]
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// What it is.
    pub name: String,
}

impl Extent {
    /// Whether a byte lies inside.
    pub fn contains(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.address) < self.bytes
    }
}

impl Labels {
    /// What lies at `addr` when all commands have run: the result written there last, else an operand, else a buffer.
    pub fn at_end(&self, addr: u64) -> Option<&Extent> {
        let find = |operands: fn(&Command) -> &[Extent]| {
            self.commands.iter().rev().find_map(|command| operands(command).iter().find(|o| o.contains(addr)))
        };
        find(|command| command.operands.get(..1).unwrap_or_default())
            .or_else(|| find(|command| &command.operands))
            .or_else(|| self.buffers.iter().find(|buffer| buffer.contains(addr)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(address: u64, name: &str) -> Extent {
        Extent { address, bytes: 16, name: name.into() }
    }

    #[test]
    fn the_last_writer_names_an_address() {
        let command = |operands: &[(u64, &str)]| Command {
            operands: operands.iter().map(|&(address, name)| extent(address, name)).collect(),
            ..Command::default()
        };
        let labels = Labels {
            commands: vec![
                command(&[(0x100, "a"), (0x200, "w")]),
                command(&[(0x108, "b"), (0x100, "a")]),
                command(&[(0x300, "c"), (0x108, "b (view)")]),
            ],
            buffers: vec![Extent { bytes: 0x1000, ..extent(0, "buffer") }],
            timestamps: None,
        };
        let name = |addr| labels.at_end(addr).map(|extent| extent.name.as_str());
        assert_eq!(name(0x107), Some("a"));
        assert_eq!(name(0x108), Some("b"));
        assert_eq!(name(0x20F), Some("w"));
        assert_eq!(name(0x210), Some("buffer"));
        assert_eq!(name(0x1000), None);
    }
}
