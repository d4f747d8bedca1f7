//! Work in order: a thread that does one job after the other while the host goes on.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Something to do. It logs what goes wrong, and remembers it where the next computation looks.
pub type Job = Box<dyn FnOnce() + Send>;

/// Jobs of a device, done one at a time in the order in which they came. Dropping it waits for them.
pub struct Queue {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Jobs that came, and jobs that were done, so far.
    came: u64,
    done: u64,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            let Some(job) = state.jobs.pop_front() else {
                if state.ended {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            // The panic hook has said what happened; those behind must not wait for ever.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = self.lock();
            state.done += 1;
            self.changed.notify_all();
        }
    }
}

impl Queue {
    /// An empty queue. The error says why there is no thread.
    pub fn new() -> std::io::Result<Queue> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let worker = Builder::new().name("ggml-et device".into()).spawn(move || own.work())?;
        Ok(Queue { shared, worker: Some(worker) })
    }

    /// Adds a job; its number counts from 1.
    pub fn add(&self, job: Job) -> u64 {
        let mut state = self.shared.lock();
        state.jobs.push_back(job);
        state.came += 1;
        self.shared.changed.notify_all();
        state.came
    }

    /// The number of the last job that was added, 0 before the first.
    pub fn last(&self) -> u64 {
        self.shared.lock().came
    }

    /// Waits until job `number` and all before it are done. `false`: not within `patience`.
    pub fn wait(&self, number: u64, patience: Duration) -> bool {
        let end = Instant::now().checked_add(patience);
        let mut state = self.shared.lock();
        while state.done < number {
            let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        let Some(worker) = self.worker.take() else { return };
        // The last job may have been the last user.
        if worker.thread().id() != std::thread::current().id() {
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_are_done_in_order_while_others_are_added() {
        let queue = Queue::new().unwrap();
        let (sender, receiver) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        let first = queue.add(Box::new(move || gate.recv().unwrap()));
        for i in 0..10 {
            let sender = sender.clone();
            queue.add(Box::new(move || sender.send(i).unwrap()));
        }
        assert_eq!((first, queue.last()), (1, 11));
        assert!(!queue.wait(1, Duration::from_millis(5)), "the gate is shut");
        assert!(queue.wait(0, Duration::ZERO));
        open.send(()).unwrap();
        assert!(queue.wait(11, Duration::from_secs(60)));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_panics_stops_nobody() {
        let queue = Queue::new().unwrap();
        queue.add(Box::new(|| panic!("on purpose")));
        let (sender, receiver) = mpsc::channel();
        let last = queue.add(Box::new(move || sender.send(()).unwrap()));
        assert!(queue.wait(last, Duration::from_secs(60)));
        assert_eq!(receiver.try_recv(), Ok(()));
    }

    #[test]
    fn dropping_it_does_what_is_left_even_from_inside() {
        let (sender, receiver) = mpsc::channel();
        let queue = Arc::new(Queue::new().unwrap());
        let own = queue.clone();
        let (open, gate) = mpsc::channel::<()>();
        queue.add(Box::new(move || {
            gate.recv().unwrap();
            drop(own);
        }));
        queue.add(Box::new(move || sender.send(()).unwrap()));
        drop(queue);
        open.send(()).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(()));
    }
}
