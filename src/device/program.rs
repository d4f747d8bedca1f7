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
    /// What the device has once they are sent.
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
        commands: Vec<et_command>,
        workspace: u64,
        like: Option<&Program>,
    ) -> Result<Program> {
        let bytes = size_of_val(&commands[..]) as u64;
        let address = session.take(bytes, "commands")?;
        let mut program = Program { session: session.clone(), address, commands, workspace, sent: 0 };
        match like.filter(|like| like.commands.len() == program.commands.len()) {
            Some(like) => {
                session.driver().copy(address, like.address, bytes)?;
                program.sent = program.send_changes(&like.commands)?;
            }
            None => {
                session.driver().write(address, command::slice(&program.commands))?;
                program.sent = bytes / WORD as u64;
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
        let old = self.commands.clone();
        self.commands.iter_mut().filter(|command| moved(command)).for_each(|command| command.workspace = address);
        self.sent += self.send_changes(&old)?;
        Ok(())
    }

    /// Sends the words in which the commands differ from `old`, which the device has, and counts them.
    fn send_changes(&self, old: &[et_command]) -> Result<u64> {
        let mut sent = 0;
        for (i, (old, new)) in old.iter().zip(&self.commands).enumerate() {
            let (old, new) = (command::bytes(old), command::bytes(new));
            if old == new {
                continue;
            }
            let words = new.len() / WORD;
            let differ = |word: usize| old[word * WORD..][..WORD] != new[word * WORD..][..WORD];
            let mut at = 0;
            while let Some(first) = (at..words).find(|&word| differ(word)) {
                at = (first..words).find(|&word| !differ(word)).unwrap_or(words);
                let address = self.address + (i * new.len() + first * WORD) as u64;
                self.session.driver().write(address, &new[first * WORD..at * WORD])?;
                sent += (at - first) as u64;
            }
        }
        Ok(sent)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.session.give(self.address);
    }
}
