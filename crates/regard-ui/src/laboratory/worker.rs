//! The engine at work in a thread while the window goes on.

use egui::Context;

use super::{Engine, Outcome, Request};
use crate::Host;
use crate::task::Task;

/// What was asked for, and what came of it.
pub type Answer = (Request, Result<Outcome, String>);

/// The engine comes back with its outcome.
type Finished = (Engine, Result<Outcome, String>);

/// Computes the latest request; those that it could not begin with before the next came are left out.
///
/// What it has begun it ends: a slider that is dragged on and on would never show anything else.
#[derive(Default)]
pub struct Worker {
    /// Rests here between two requests, with what it keeps.
    engine: Engine,
    task: Option<(Request, Task<Finished>)>,
    next: Option<Request>,
}

impl Worker {
    /// Asks for something, instead of what was asked for before.
    pub fn ask(&mut self, host: &dyn Host, ctx: &Context, request: Request) {
        self.next = Some(request);
        self.begin(host, ctx);
    }

    /// What was computed since this was last asked; begins with the next request, if there is one.
    pub fn take(&mut self, host: &dyn Host, ctx: &Context) -> Option<Answer> {
        let result = self.task.as_ref()?.1.take()?;
        let (request, _) = self.task.take()?;
        let outcome = match result {
            Ok((engine, outcome)) => {
                self.engine = engine;
                outcome
            }
            Err(e) => Err(e),
        };
        self.begin(host, ctx);
        Some((request, outcome))
    }

    /// Whether something is still to be computed.
    pub fn is_busy(&self) -> bool {
        self.next.is_some() || self.task.as_ref().is_some_and(|(_, task)| task.is_running())
    }

    /// What part of it is done, from 0 to 1.
    pub fn progress(&self) -> f32 {
        self.task.as_ref().map_or(0.0, |(_, task)| task.progress())
    }

    fn begin(&mut self, host: &dyn Host, ctx: &Context) {
        if self.task.is_some() {
            return;
        }
        let Some(request) = self.next.take() else { return };
        let (mut engine, theirs) = (core::mem::take(&mut self.engine), request.clone());
        let task = Task::start(host, ctx, "laboratory", move |promise| {
            let progress = |part: f32| {
                // What was begun is ended, even if nobody waits for it.
                let _ = promise.tell(part);
            };
            let outcome = engine.run(theirs, &progress).map_err(|e| e.to_string());
            Ok((engine, outcome))
        });
        self.task = Some((request, task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::{Inputs, Shown};
    use crate::test_host::TestHost;

    #[test]
    fn the_latest_request_wins() {
        let (host, ctx) = (TestHost::DEFAULT, Context::default());
        let mut worker = Worker::default();
        let request = |seed| {
            let inputs = Inputs { tokens: 300, seed, ..Inputs::default() };
            Request { inputs, pinned: None, shown: Shown::Weights }
        };
        for seed in 0..50 {
            worker.ask(&host, &ctx, request(seed));
        }
        let mut answers = Vec::new();
        while worker.is_busy() || answers.is_empty() {
            answers.extend(worker.take(&host, &ctx));
            std::thread::yield_now();
        }
        answers.extend(worker.take(&host, &ctx));
        let seeds: Vec<_> = answers.iter().map(|(asked, _)| asked.inputs.seed).collect();
        assert_eq!(seeds, [0, 49], "the one that was begun with, and the latest");
        for (asked, outcome) in answers {
            assert_eq!(asked, outcome.unwrap().request);
        }
    }
}
