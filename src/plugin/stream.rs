//! A stream of work: computes graphs on a session.

use super::settings::Settings;
use crate::device::session::{Failure, Session, COMMANDS_MAX};
use crate::graph::list::{self, lists, List};
use crate::graph::names::names;
use crate::graph::Node;
use crate::ops;
use crate::perf;
use ggml_abi::face::{Backend, TensorRef};
use std::sync::Arc;

/// A host's backend object. Keeps the device open.
pub struct EtStream {
    session: Arc<Session>,
    /// Commands per launch.
    limit: usize,
    perf: bool,
}

impl EtStream {
    /// A stream on `session`.
    pub fn new(session: Arc<Session>, settings: &Settings) -> EtStream {
        EtStream { session, limit: if settings.uberkernel { COMMANDS_MAX } else { 1 }, perf: settings.perf }
    }

    fn run(&self, graph: &[TensorRef<'_>], list: &mut List) -> Result<(), String> {
        let mut commands = std::mem::take(&mut list.commands);
        match self.session.run(&mut commands, list.workspace, self.perf, &|| names(graph, list)) {
            Ok(spans) => {
                for (span, (node, kernel)) in spans.into_iter().zip(&list.origins) {
                    log::debug!(target: perf::TARGET, "{}", perf::line(node, kernel, span));
                }
                Ok(())
            }
            Err(Failure::Kernel { index, code }) => Err(match list.origins.get(index) {
                Some((node, kernel)) => format!("{} failed: its kernel {kernel} returned code {code}", describe(node)),
                None => format!("command {index} failed with code {code}"),
            }),
            Err(Failure::Device { index, error }) => {
                let count = list.origins.len();
                let place = match index.and_then(|index| Some((index, list.origins.get(index)?))) {
                    Some((0, (node, _))) if count == 1 => describe(node),
                    Some((index, (node, _))) => {
                        format!(
                            "a launch of {count} operations, at or just after {} (number {}),",
                            describe(node),
                            index + 1
                        )
                    }
                    None => format!("a launch of {count} operations"),
                };
                Err(format!("{place} failed: {error:#}"))
            }
        }
    }
}

fn describe(node: &Node) -> String {
    format!("{} '{}'", node.label(), node.name)
}

impl Backend for EtStream {
    fn compute(&self, graph: &[TensorRef<'_>]) -> bool {
        if let Some(lost) = self.session.take_lost() {
            log::error!("nothing was computed, because a transfer before it went wrong: {lost}");
            return false;
        }
        // Nodes without the flag are in the graph for their shape only.
        let wanted = graph.iter().map(|tensor| tensor.read()).filter(|tensor| tensor.compute);
        let lists = match lists(wanted.map(|tensor| list::node(&tensor)), self.limit, ops::lower) {
            Ok(lists) => lists,
            Err(refused) => {
                let (node, refusal) = *refused;
                log::error!("{} can't be computed on ET0: {refusal}", describe(&node));
                return false;
            }
        };
        for mut list in lists {
            if let Err(reason) = self.run(graph, &mut list) {
                log::error!("{reason}");
                return false;
            }
        }
        true
    }

    fn synchronize(&self) {}
}
