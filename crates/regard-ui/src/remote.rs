//! Jobs for a worker that shares no memory with the window.
//!
//! A browser has such workers where other systems have threads. A job is a text, and its result is lists of numbers. The window's
//! side asks through [`Remote`](crate::host::Remote); the worker's side is a [`Desk`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Host;
use crate::laboratory::{Engine, Question};

/// What a worker can do.
#[derive(Serialize, Deserialize)]
pub(crate) enum Job {
    /// Computes attention for the laboratory.
    Laboratory(Question),
}

impl Job {
    /// The job as a text.
    pub fn text(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|e| e.to_string())
    }
}

/// The worker's side: it does one job after another, and keeps what the next may need again.
pub struct Desk {
    engine: Engine,
}

impl Desk {
    /// A desk without work. `host` opens the files that jobs name.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self { engine: Engine::new(host) }
    }

    /// Does a job. `progress` is told the share of it that is done, from 0 to 1.
    ///
    /// # Errors
    /// Why the job cannot be done, in words for the user.
    pub fn work(
        &mut self,
        job: &str,
        progress: &(dyn Fn(f32) + Sync),
    ) -> Result<Vec<Vec<f32>>, String> {
        match serde_json::from_str(job).map_err(|e| e.to_string())? {
            Job::Laboratory(question) => {
                self.engine.answer(question, progress).map_err(|e| e.to_string())
            }
        }
    }
}
