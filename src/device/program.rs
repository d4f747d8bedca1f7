//! A command list in device memory.

use super::session::Session;
use crate::command::{self, et_command};
use anyhow::Result;
use std::sync::Arc;

/// Bytes of a word, the unit in which changes are sent.
const WORD: usize = size_of::<u64>();

/// A command list that stays on the device from launch to launch.
pub struct Program {
    session: Arc<Session>,
    address: u64,
    /// What the device has.
    commands: Vec<et_command>,
    /// Scratch memory that its neediest command takes.
    workspace: u64,
    /// Words sent since the last call of `take_sent`.
    sent: u64,
}

impl Program {
    /// Sends `commands` to `session`'s device: all, or what differs from those of `like`, which are copied there.
    /// `workspace` is the scratch memory that the neediest of them takes, in bytes.
    pub fn new(
        session: &Arc<Session>,
        commands: &[et_command],
        workspace: u64,
        like: Option<&Program>,
    ) -> Result<Program> {
        let address = session.take(size_of_val(commands) as u64, "commands")?;
        let mut program = Program { session: session.clone(), address, commands: Vec::new(), workspace, sent: 0 };
        match like.filter(|like| like.commands.len() == commands.len()) {
            Some(like) => {
                session.driver().copy(address, like.address, size_of_val(commands) as u64)?;
                program.commands = like.commands.clone();
                program.change(commands)?;
            }
            None => {
                session.driver().write(address, command::slice(commands))?;
                program.sent = (size_of_val(commands) / WORD) as u64;
                program.commands = commands.to_vec();
            }
        }
        Ok(program)
    }

    /// Where the device finds the commands.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Number of commands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Scratch memory that it takes, in bytes.
    pub fn workspace(&self) -> u64 {
        self.workspace
    }

    /// Words sent to the device for it since the last call.
    pub fn take_sent(&mut self) -> u64 {
        std::mem::take(&mut self.sent)
    }

    /// Tells the commands that take scratch memory where it is.
    pub fn place_workspace(&mut self, address: u64) -> Result<()> {
        let moved = |command: &et_command| command.workspace_size != 0 && command.workspace != address;
        if !self.commands.iter().any(moved) {
            return Ok(());
        }
        let mut commands = self.commands.clone();
        commands.iter_mut().filter(|command| moved(command)).for_each(|command| command.workspace = address);
        self.change(&commands)
    }

    /// Sends the words in which `commands` differ from what the device has.
    fn change(&mut self, commands: &[et_command]) -> Result<()> {
        let (old, new) = (command::slice(&self.commands), command::slice(commands));
        let differ = |word: usize| old[word * WORD..][..WORD] != new[word * WORD..][..WORD];
        let words = new.len() / WORD;
        let mut at = 0;
        while let Some(first) = (at..words).find(|&word| differ(word)) {
            at = (first..words).find(|&word| !differ(word)).unwrap_or(words);
            self.session.driver().write(self.address + (first * WORD) as u64, &new[first * WORD..at * WORD])?;
            self.sent += (at - first) as u64;
        }
        self.commands.copy_from_slice(commands);
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.session.give(self.address);
    }
}
