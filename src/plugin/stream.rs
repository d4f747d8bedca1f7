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
use et_emulator::labels::Command;
use ggml_abi::face::{Backend, HostBytes, Mark, TensorRef};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Plans that a stream keeps: prompts of a few lengths, and decoding with a few lengths of context.
const PLANS_MAX: usize = 16;

/// A host's backend object. Keeps the device open.
pub struct EtStream {
    session: Arc<Session>,
    /// Commands per launch.
    limit: usize,
    fusions: Fusions,
    perf: bool,
    show_plans: bool,
    asynchronous: bool,
    plans: Mutex<Plans>,
}

/// What is kept between computations.
struct Plans {
    cache: Cache<Arc<Plan>>,
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
    program: Mutex<Program>,
    origins: Vec<Origin>,
    /// What messages call each command: its operation and its tensor.
    titles: Vec<(&'static str, String)>,
    meetings: usize,
}

/// One computation of a graph.
struct Computation {
    session: Arc<Session>,
    plan: Arc<Plan>,
    cached: bool,
    /// Nodes in the graph.
    nodes: usize,
    /// `ET_PERF` lines are wanted.
    perf: bool,
    /// For each launch what its commands are, if times are wanted.
    nodes_timed: Option<Vec<Vec<Node>>>,
    /// For each launch its commands' names, if they may be wanted.
    names: Vec<Vec<Command>>,
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
            show_plans: settings.show_plans,
            asynchronous: settings.asynchronous,
            plans: Mutex::new(plans),
        }
    }

    /// The plan for `graph`, and whether it was there already.
    fn plan(&self, graph: &[TensorRef<'_>], uid: u64) -> Result<(Arc<Plan>, bool), String> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let Plans { cache, given, words } = &mut *plans;
        let now = self.session.given();
        if *given != now {
            *given = now;
            let there = |range: &Range<u64>| self.session.block(range.start).as_ref() == Some(range);
            cache.retain(|plan| plan.memory.iter().all(there));
        }
        if let Some(plan) = cache.by_uid(uid) {
            return Ok((plan.clone(), true));
        }
        words.clear();
        graph.iter().for_each(|tensor| tensor.fingerprint(words));
        if let Some(plan) = cache.by_words(words, uid) {
            return Ok((plan.clone(), true));
        }
        let plan = Arc::new(self.make(graph, cache)?);
        cache.insert(words, uid, plan.clone());
        Ok((plan, false))
    }

    fn make(&self, graph: &[TensorRef<'_>], cache: &Cache<Arc<Plan>>) -> Result<Plan, String> {
        // Nodes without the flag are in the graph for their shape only.
        let wanted = graph.iter().map(|tensor| tensor.read()).enumerate().filter(|(_, tensor)| tensor.compute);
        let mut items =
            items(wanted.map(|(i, tensor)| (i, Box::new(Node::read(&tensor)))), ops::lower).map_err(|refused| {
                let (node, refusal) = *refused;
                format!("{} can't be computed on ET0: {refusal}", title(&(node.label(), node.name)))
            })?;
        let memory = self.memory(&items);
        let mut launches = Vec::new();
        for (i, list) in plan(&items, self.limit, &self.fusions).into_iter().enumerate() {
            let alike = |part: &Part| part.origins.len() == list.commands.len();
            let like = cache.plans().find_map(|plan| plan.launches.get(i).filter(|part| alike(part)));
            let like = like.map(|part| part.lock());
            let meetings = list.meetings();
            if self.show_plans {
                let name = |index: usize| graph[index].read().name.to_string_lossy().into_owned();
                list.text(name).lines().for_each(|line| log::debug!(target: perf::TARGET, "ET_PLAN|{line}"));
            }
            let program = Program::new(&self.session, list.commands, list.workspace, like.as_deref())
                .map_err(|error| format!("there is no place for the graph's commands: {error:#}"))?;
            let title = |origin: &Origin| {
                let item = items.binary_search_by_key(&origin.index, |item| item.index).ok()?;
                let node = &mut items[item].node;
                Some((node.label(), std::mem::take(&mut node.name)))
            };
            let titles = list.origins.iter().filter_map(title).collect();
            let program = Mutex::new(program);
            launches.push(Part { program, titles, meetings, origins: list.origins });
        }
        Ok(Plan { launches, memory })
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

    fn try_compute(&self, graph: &[TensorRef<'_>], uid: u64) -> Result<(), String> {
        if let Some(lost) = self.session.take_lost() {
            return Err(format!("nothing was computed, because something before it went wrong: {lost}"));
        }
        let (plan, cached) = self.plan(graph, uid)?;
        let node = |origin: &Origin| Node::read(&graph[origin.index].read());
        let timed = self.perf || self.session.timeline().is_some();
        let nodes_timed =
            timed.then(|| plan.launches.iter().map(|part| part.origins.iter().map(node).collect()).collect());
        let names = match self.session.driver().wants_names() {
            true => plan.launches.iter().map(|part| names(graph, &part.origins)).collect(),
            false => Vec::new(),
        };
        let session = self.session.clone();
        let computation =
            Computation { session, plan, cached, nodes: graph.len(), perf: self.perf, nodes_timed, names };
        if self.asynchronous {
            self.session.add(Box::new(move || {
                if let Err(reason) = computation.run() {
                    computation.session.lose(reason);
                }
            }));
            return Ok(());
        }
        self.session.settle();
        computation.run()
    }

    /// Adds work that may fail.
    fn add(&self, what: &'static str, work: impl FnOnce(&Session) -> anyhow::Result<()> + Send + 'static) {
        let session = self.session.clone();
        self.session.add(Box::new(move || {
            if let Err(error) = work(&session) {
                session.lose(format!("{what} failed: {error:#}"));
            }
        }));
    }
}

impl Computation {
    fn run(&self) -> Result<(), String> {
        let mut words = 0;
        for (i, part) in self.plan.launches.iter().enumerate() {
            let mut program = part.lock();
            let spans = self
                .session
                .run(&mut program, self.nodes_timed.is_some(), &|| self.names.get(i).cloned().unwrap_or_default());
            words += program.take_sent();
            let spans = spans.map_err(|failure| part.explain(failure))?;
            let Some(nodes) = self.nodes_timed.as_ref().map(|launches| &launches[i]) else { continue };
            let commands = nodes.iter().zip(part.origins.iter().copied()).zip(spans);
            let commands = commands.map(|((node, origin), span)| (node, origin, span));
            if self.perf {
                for (node, origin, span) in commands.clone() {
                    log::debug!(target: perf::TARGET, "{}", perf::line(node, origin.kernel, span));
                }
            }
            if let Some(timeline) = self.session.timeline() {
                timeline.launch(commands);
            }
        }
        let sum = |of: fn(&Part) -> usize| self.plan.launches.iter().map(of).sum::<usize>();
        log::debug!(
            target: perf::TARGET,
            "ET_GRAPH|nodes={}|commands={}|launches={}|meetings={}|words={words}|cached={}",
            self.nodes,
            sum(|part| part.origins.len()),
            self.plan.launches.len(),
            // That at the end of each launch included.
            sum(|part| part.meetings + 1),
            u8::from(self.cached),
        );
        Ok(())
    }
}

impl Part {
    fn lock(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What went wrong, in a line.
    fn explain(&self, failure: Failure) -> String {
        let Part { origins, titles, .. } = self;
        match failure {
            Failure::Kernel { index, code } => match origins.get(index) {
                Some(Origin { kernel, .. }) => {
                    format!("{} failed: its kernel {kernel} returned code {code}", title(&titles[index]))
                }
                None => format!("command {index} failed with code {code}"),
            },
            Failure::Device { index, error } => {
                let count = titles.len();
                let index = if count == 1 { Some(0) } else { index };
                let place = match index.and_then(|index| Some((index, titles.get(index)?))) {
                    Some((0, only)) if count == 1 => title(only),
                    Some((index, at)) => {
                        format!(
                            "a launch of {count} operations, at or just after {} (number {}),",
                            title(at),
                            index + 1
                        )
                    }
                    None => format!("a launch of {count} operations"),
                };
                format!("{place} failed: {error:#}")
            }
        }
    }
}

fn title((label, name): &(&str, String)) -> String {
    format!("{label} '{name}'")
}

impl Backend for EtStream {
    fn compute(&self, graph: &[TensorRef<'_>], uid: u64) -> bool {
        let done = self.try_compute(graph, uid);
        if let Err(reason) = &done {
            log::error!("{reason}");
        }
        done.is_ok()
    }

    fn write(&self, addr: u64, data: &[u8]) {
        // The host may use its memory again before the device has come to this.
        let data = data.to_vec();
        self.add("writing to the device", move |session| session.driver().write(addr, &data));
    }

    fn read(&self, addr: u64, mut out: HostBytes) {
        self.add("reading from the device", move |session| session.read(addr, out.bytes()));
    }

    fn copy(&self, dst: u64, src: u64, len: u64) {
        self.add("copying inside the device", move |session| session.driver().copy(dst, src, len));
    }

    fn synchronize(&self) {
        self.session.settle();
    }

    fn mark(&self) -> Mark {
        let (session, number) = (self.session.clone(), self.session.last());
        Mark(Arc::new(move || session.wait(number)))
    }
}
