//! The engine at work in a thread, while the window keeps running.

use core::ops::ControlFlow;
use std::sync::Arc;

use egui::Context;
use web_time::Instant;

use super::Request;
use super::engine::{Engine, Lists, Outcome};
use crate::desk::Sent;
use crate::task::Task;
use crate::{Desk, Host};

/// A request and its result.
pub type Answer = (Request, Result<Outcome, String>);

/// The engine returns from its thread with the result.
type Finished = (Engine, Result<Outcome, String>);

/// Computes the latest request. Requests that are replaced before their work begins are skipped.
///
/// Work that has begun is finished. If each move of a slider began anew, a moving slider would show nothing.
pub struct Worker {
    desk: Arc<Desk>,
    /// `None` while it is at work.
    engine: Option<Engine>,
    task: Option<(Request, Task<Finished>)>,
    next: Option<Request>,
}

impl Worker {
    /// A worker with nothing to do. `host` runs its threads and opens its files.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self { desk: Desk::new(host), engine: None, task: None, next: None }
    }

    /// Makes a request, in place of the one that waits.
    pub fn ask(&mut self, ctx: &Context, request: Request) {
        self.next = Some(request);
        self.begin(ctx);
    }

    /// The answer that has arrived since the last call, if any. Starts the request that waits.
    pub fn take(&mut self, ctx: &Context) -> Option<Answer> {
        let result = self.task.as_ref()?.1.take()?;
        let (request, _) = self.task.take()?;
        let outcome = result.and_then(|(engine, outcome)| {
            self.engine = Some(engine);
            outcome
        });
        self.begin(ctx);
        Some((request, outcome))
    }

    /// Whether a request waits or is at work.
    pub fn is_busy(&self) -> bool {
        self.next.is_some() || self.task.as_ref().is_some_and(|(_, task)| task.is_running())
    }

    /// The share of the work that is done, from 0 to 1.
    pub fn progress(&self) -> f32 {
        self.task.as_ref().map_or(0.0, |(_, task)| task.progress())
    }

    fn begin(&mut self, ctx: &Context) {
        if self.task.is_some() {
            return;
        }
        let Some(request) = self.next.take() else { return };
        let engine = self.engine.take();
        let mut engine = engine.unwrap_or_else(|| Engine::new(Arc::clone(&self.desk.host)));
        let theirs = request.clone();
        if self.desk.host.remote().is_some() {
            self.task = Some((request, elsewhere(&self.desk, ctx, engine, theirs)));
            return;
        }
        let task = Task::start(&*self.desk.host, ctx, "laboratory", move |promise| {
            let progress = |part: f32| {
                // Work that has begun is finished, even if the task is dropped.
                let _ = promise.tell(part);
            };
            let outcome = engine.run(theirs, &progress).map_err(|e| e.to_string());
            Ok((engine, outcome))
        });
        self.task = Some((request, task));
    }
}

/// Has a request computed by a worker that shares no memory with this engine.
fn elsewhere(
    desk: &Arc<Desk>,
    ctx: &Context,
    mut engine: Engine,
    mut request: Request,
) -> Task<Finished> {
    let start = Instant::now();
    let (task, promise) = Task::promise(ctx);
    let question = match engine.question(&mut request) {
        Ok(question) => question,
        Err(e) => {
            promise.fulfil(Ok((engine, Err(e.to_string()))));
            return task;
        }
    };
    let finish = move |mut engine: Engine, known: Result<(), String>| {
        let outcome = known.and_then(|()| engine.run(request, &|_| ()).map_err(|e| e.to_string()));
        let outcome = outcome.map(|outcome| Outcome { took: start.elapsed(), ..outcome });
        Ok((engine, outcome))
    };
    let Some(question) = question else {
        promise.fulfil(finish(engine, Ok(())));
        return task;
    };
    let learned = question.clone();
    let mut waiting = Some((promise, engine, finish));
    desk.send(question, move |sent| {
        match (sent, &waiting) {
            (Sent::Progress(part), Some((promise, ..))) => {
                // Work that has begun is finished, even if the task is dropped.
                let _ = promise.tell(part);
            }
            (Sent::Done(answer), _) => {
                if let Some((promise, mut engine, finish)) = waiting.take() {
                    let known = answer.map(|Lists(numbers)| engine.learn(&learned, numbers));
                    promise.fulfil(finish(engine, known));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    task
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::{LaboratoryInputs, Shown};
    use crate::test_host::TestHost;

    #[test]
    fn the_latest_request_wins() {
        let ctx = Context::default();
        let mut worker = Worker::new(Arc::new(TestHost::DEFAULT));
        let request = |seed| {
            let inputs = LaboratoryInputs { tokens: 300, seed, ..LaboratoryInputs::default() };
            Request { inputs, pinned: None, shown: Shown::Weights }
        };
        for seed in 0..50 {
            worker.ask(&ctx, request(seed));
        }
        let mut answers = Vec::new();
        while worker.is_busy() || answers.is_empty() {
            answers.extend(worker.take(&ctx));
            std::thread::yield_now();
        }
        answers.extend(worker.take(&ctx));
        let seeds: Vec<_> = answers.iter().map(|(asked, _)| asked.inputs.seed).collect();
        assert_eq!(seeds, [0, 49], "the one that was begun with, and the latest");
        for (asked, outcome) in answers {
            assert_eq!(asked, outcome.unwrap().request);
        }
    }
}
