//! A stream of work: computes graphs on a session.

use super::settings::Settings;
use crate::device::program::Program;
use crate::device::session::{Failure, Session, COMMANDS_MAX};
use crate::graph::cache::Cache;
use crate::graph::fuse::Fusions;
use crate::graph::names::names;
use crate::graph::plan::{items, plan, Item, Origin};
use crate::graph::Node;
use crate::ops;
use crate::perf;
use ggml_abi::face::{Backend, TensorRef};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Plans that a stream keeps: prompts of a few lengths, and decoding with a few lengths of context.
const PLANS_MAX: usize = 16;

/// A host's backend object. Keeps the device open.
pub struct EtStream {
    session: Arc<Session>,
    /// Commands per launch.
    limit: usize,
    fusions: Fusions,
    perf: bool,
    plans: Mutex<Plans>,
}

/// What is kept between computations.
struct Plans {
    cache: Cache<Plan>,
    /// `Session::given` when the cache was last looked through.
    given: u64,
    /// The present graph's fingerprint; kept for its memory.
    words: Vec<u64>,
}

/// How a graph is computed.
struct Plan {
    launches: Vec<Part>,
    /// The blocks of device memory that it uses.
    memory: Vec<Range<u64>>,
}

/// One launch.
struct Part {
    program: Program,
    origins: Vec<Origin>,
    meetings: usize,
}

/// What a computation took, for the debug line.
#[derive(Default)]
struct Count {
    cached: bool,
    words: u64,
}

impl EtStream {
    /// A stream on `session`.
    pub fn new(session: Arc<Session>, settings: &Settings) -> EtStream {
        let plans = Plans { cache: Cache::new(settings.plans.unwrap_or(PLANS_MAX)), given: 0, words: Vec::new() };
        EtStream {
            session,
            limit: if settings.uberkernel { COMMANDS_MAX } else { 1 },
            fusions: settings.fusions.clone(),
            perf: settings.perf,
            plans: Mutex::new(plans),
        }
    }

    /// The plan for `graph`, made or found.
    fn plan<'p>(
        &self,
        plans: &'p mut Plans,
        graph: &[TensorRef<'_>],
        uid: u64,
        count: &mut Count,
    ) -> Result<&'p mut Plan, String> {
        let Plans { cache, given, words } = plans;
        let now = self.session.given();
        if *given != now {
            *given = now;
            let there = |range: &Range<u64>| self.session.block(range.start).as_ref() == Some(range);
            cache.retain(|plan| plan.memory.iter().all(there));
        }
        count.cached = true;
        // Twice, since a borrow that is returned on one path counts for all.
        if cache.by_uid(uid).is_some() {
            return cache.by_uid(uid).ok_or_else(String::new);
        }
        words.clear();
        graph.iter().for_each(|tensor| tensor.fingerprint(words));
        if cache.by_words(words, uid).is_some() {
            return cache.by_words(words, uid).ok_or_else(String::new);
        }
        count.cached = false;
        let plan = self.make(graph, cache)?;
        Ok(cache.insert(words, uid, plan))
    }

    fn make(&self, graph: &[TensorRef<'_>], cache: &Cache<Plan>) -> Result<Plan, String> {
        // Nodes without the flag are in the graph for their shape only.
        let wanted = graph.iter().map(|tensor| tensor.read()).enumerate().filter(|(_, tensor)| tensor.compute);
        let items = items(wanted.map(|(i, tensor)| (i, Node::read(&tensor))), ops::lower).map_err(|refused| {
            let (node, refusal) = *refused;
            format!("{} can't be computed on ET0: {refusal}", describe(&node))
        })?;
        let mut launches = Vec::new();
        for (i, list) in plan(&items, self.limit, &self.fusions).into_iter().enumerate() {
            let alike =
                |plan: &&Plan| plan.launches.get(i).is_some_and(|part| part.program.len() == list.commands.len());
            let like = cache.plans().find(alike).map(|plan| &plan.launches[i].program);
            let program = Program::new(&self.session, &list.commands, list.workspace, like)
                .map_err(|error| format!("there is no place for the graph's commands: {error:#}"))?;
            launches.push(Part { program, meetings: list.meetings(), origins: list.origins });
        }
        Ok(Plan { launches, memory: self.memory(&items) })
    }

    /// The blocks of device memory that `items` use.
    fn memory(&self, items: &[Item]) -> Vec<Range<u64>> {
        let mut blocks: Vec<Range<u64>> = Vec::new();
        for Item { node, .. } in items {
            for operand in node.src.iter().flatten().chain([&node.dst]) {
                if !blocks.iter().any(|block| block.contains(&operand.addr)) {
                    blocks.extend(self.session.block(operand.addr));
                }
            }
        }
        blocks
    }

    fn run(&self, graph: &[TensorRef<'_>], part: &mut Part) -> Result<(), String> {
        let Part { program, origins, .. } = part;
        let node = |origin: &Origin| Node::read(&graph[origin.index].read());
        match self.session.run(program, self.perf, &|| names(graph, origins)) {
            Ok(spans) => {
                for (span, origin) in spans.into_iter().zip(origins.iter()) {
                    log::debug!(target: perf::TARGET, "{}", perf::line(&node(origin), origin.kernel, span));
                }
                Ok(())
            }
            Err(Failure::Kernel { index, code }) => Err(match origins.get(index) {
                Some(origin) => {
                    format!("{} failed: its kernel {} returned code {code}", describe(&node(origin)), origin.kernel)
                }
                None => format!("command {index} failed with code {code}"),
            }),
            Err(Failure::Device { index, error }) => {
                let count = origins.len();
                let place = match index.and_then(|index| Some((index, node(origins.get(index)?)))) {
                    Some((0, node)) if count == 1 => describe(&node),
                    Some((index, node)) => {
                        format!(
                            "a launch of {count} operations, at or just after {} (number {}),",
                            describe(&node),
                            index + 1
                        )
                    }
                    None => format!("a launch of {count} operations"),
                };
                Err(format!("{place} failed: {error:#}"))
            }
        }
    }

    fn try_compute(&self, graph: &[TensorRef<'_>], uid: u64) -> Result<(), String> {
        if let Some(lost) = self.session.take_lost() {
            return Err(format!("nothing was computed, because a transfer before it went wrong: {lost}"));
        }
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = Count::default();
        let plan = self.plan(&mut plans, graph, uid, &mut count)?;
        for part in &mut plan.launches {
            self.run(graph, part)?;
            count.words += part.program.take_sent();
        }
        let sum = |of: fn(&Part) -> usize| plan.launches.iter().map(of).sum::<usize>();
        log::debug!(
            target: perf::TARGET,
            "ET_GRAPH|nodes={}|commands={}|launches={}|meetings={}|words={}|cached={}",
            graph.len(),
            sum(|part| part.origins.len()),
            plan.launches.len(),
            // That at the end of each launch included.
            sum(|part| part.meetings + 1),
            count.words,
            u8::from(count.cached),
        );
        Ok(())
    }
}

fn describe(node: &Node) -> String {
    format!("{} '{}'", node.label(), node.name)
}

impl Backend for EtStream {
    fn compute(&self, graph: &[TensorRef<'_>], uid: u64) -> bool {
        let done = self.try_compute(graph, uid);
        if let Err(reason) = &done {
            log::error!("{reason}");
        }
        done.is_ok()
    }

    fn synchronize(&self) {}
}
