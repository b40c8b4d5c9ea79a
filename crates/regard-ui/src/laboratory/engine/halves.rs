//! The engine in two halves: a worker that shares no memory with the window computes, and the window's engine keeps the result as
//! if it had computed it itself.

use std::sync::{Arc, Mutex, PoisonError};

use regard_heads::packed;
use serde::{Deserialize, Serialize};

use super::super::tokens::Tokens;
use super::super::{LaboratoryInputs, Request};
use super::{Engine, Error};
use crate::desk::{Desk, Question, Steps, once};

/// A request, and what of its results the window lacks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Compute {
    request: Request,
    /// Queries and keys, scores, weights, and the weights of A.
    missing: [bool; 4],
}

/// The lists of numbers that answer a question: see [`Engine::answer`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Lists(#[serde(with = "packed::lists")] pub Vec<Vec<f32>>);

/// The place of the engine of a desk: there is one, for the one laboratory of a page.
const ENGINE: u64 = 0;

impl Question for Compute {
    type Answer = Lists;
    const NAME: &'static str = "laboratory";

    fn begin(self, desk: Arc<Desk>) -> impl Steps<Lists> {
        once(move |tell| {
            let engine = desk.held::<Mutex<Engine>>(ENGINE).unwrap_or_else(|_| {
                let engine = Arc::new(Mutex::new(Engine::new(Arc::clone(&desk.host))));
                desk.hold(ENGINE, Arc::clone(&engine));
                engine
            });
            let mut engine = engine.lock().unwrap_or_else(PoisonError::into_inner);
            let progress = |part: f32| {
                // Work that has begun is finished: a moving slider would show nothing otherwise.
                let _ = tell(part);
            };
            engine.answer(self, &progress).map(Lists).map_err(|e| e.to_string())
        })
    }
}

impl Engine {
    /// What has to be computed for a request, which is limited to what its files have. `None` means that all is known.
    ///
    /// # Errors
    /// [`Error::File`] if a file cannot be read.
    pub fn question(&mut self, request: &mut Request) -> Result<Option<Compute>, Error> {
        self.prepare(request)?;
        let inputs = &request.inputs;
        let lacks_a =
            |a: &LaboratoryInputs| self.pinned.get(a).or_else(|| self.weights.get(a)).is_none();
        let missing = [
            self.tokens.get(&inputs.of_tokens()).is_none(),
            self.scores.get(&inputs.of_scores()).is_none(),
            self.weights.get(inputs).is_none(),
            request.pinned.as_deref().is_some_and(lacks_a),
        ];
        let lacks = missing.contains(&true);
        Ok(lacks.then(|| Compute { request: request.clone(), missing }))
    }

    /// Computes what the window lacks: queries \[n, width\], keys \[n, width\], scores \[n, n\], weights \[n, n\], and the weights of
    /// A. What is not asked for is empty.
    ///
    /// # Errors
    /// If a file cannot be read, or if the kernels refuse the inputs.
    pub fn answer(
        &mut self,
        question: Compute,
        progress: &(dyn Fn(f32) + Sync),
    ) -> Result<Vec<Vec<f32>>, Error> {
        let Compute { mut request, missing } = question;
        self.prepare(&mut request)?;
        let [lacks_tokens, lacks_scores, lacks_weights, lacks_a] = missing;
        let mut numbers = vec![Vec::new(); 5];
        if let Some(a) = request.pinned.filter(|_| lacks_a) {
            numbers[4] = self.pinned(&a, progress)?.to_vec();
        }
        if lacks_tokens {
            let tokens = self.tokens(&request.inputs, progress)?;
            (numbers[0], numbers[1]) = (tokens.queries.clone(), tokens.keys.clone());
        }
        let scores = self.scores(&request.inputs, progress)?;
        if lacks_weights {
            numbers[3] = self.weights(&request.inputs, &scores).to_vec();
        }
        if lacks_scores {
            numbers[2] = scores.to_vec();
        }
        Ok(numbers)
    }

    /// Keeps the answer to a question.
    pub fn learn(&mut self, question: &Compute, numbers: Vec<Vec<f32>>) {
        let Compute { request, missing } = question;
        let mut numbers = numbers.into_iter();
        let mut next = || numbers.next().unwrap_or_default();
        let [queries, keys, scores, weights, of_a] = [next(), next(), next(), next(), next()];
        let inputs = &request.inputs;
        if missing[0] {
            let width = queries.len() / inputs.tokens.max(1);
            let tokens = Tokens { width, queries, keys };
            self.tokens.replace(inputs.of_tokens(), Arc::new(tokens));
        }
        if missing[1] {
            self.scores.replace(inputs.of_scores(), Arc::new(scores));
        }
        if missing[2] {
            self.weights.replace(inputs.clone(), Arc::new(weights));
        }
        if let Some(a) = request.pinned.as_deref().filter(|_| missing[3]) {
            self.pinned.replace(a.clone(), Arc::new(of_a));
        }
    }

    /// Reads the files of a request, and limits it to what they have.
    fn prepare(&mut self, request: &mut Request) -> Result<(), Error> {
        self.files.keep_for(request);
        self.limit(&mut request.inputs, &|_| ())?;
        if let Some(a) = &mut request.pinned {
            self.limit(a, &|_| ())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::Shown;
    use crate::test_host::TestHost;

    /// Through bytes alone, the window shows what one engine would.
    #[test]
    fn two_halves_compute_what_one_engine_computes() {
        let host = || Arc::new(TestHost::DEFAULT);
        let (mut whole, mut window, desk) =
            (Engine::new(host()), Engine::new(host()), Desk::new(host()));
        let inputs = |tokens, temperature: f32| LaboratoryInputs {
            tokens,
            temperature: regard_kernels::Temperature::new(temperature).unwrap(),
            ..LaboratoryInputs::default()
        };
        let a = || Some(Box::new(inputs(40, 2.0)));
        // A second temperature needs no new scores, and another view needs nothing at all.
        let cases = [
            (inputs(40, 1.0), None, Shown::Weights, Some([true, true, true, false])),
            (inputs(40, 0.5), None, Shown::Weights, Some([false, false, true, false])),
            (inputs(40, 0.5), None, Shown::Scores, None),
            (inputs(40, 0.5), a(), Shown::Difference, Some([false, false, false, true])),
            (inputs(50, 0.5), a(), Shown::Weights, Some([true, true, true, false])),
        ];
        for (inputs, pinned, shown, missing) in cases {
            let mut request = Request { inputs, pinned, shown };
            let question = window.question(&mut request).unwrap();
            assert_eq!(question.as_ref().map(|question| question.missing), missing);
            if let Some(question) = question {
                let Lists(numbers) = crate::desk::answered(&desk, question.clone());
                window.learn(&question, numbers);
            }
            assert!(window.question(&mut request).unwrap().is_none(), "nothing is left to compute");
            let [whole, window] =
                [&mut whole, &mut window].map(|e| e.run(request.clone(), &|_| ()).unwrap());
            assert_eq!(whole.numbers, window.numbers);
            assert_eq!(whole.weights, window.weights);
            assert_eq!(whole.pinned, window.pinned);
            assert_eq!(whole.tokens.queries, window.tokens.queries);
            assert_eq!(whole.tokens.width, window.tokens.width);
        }
    }
}
