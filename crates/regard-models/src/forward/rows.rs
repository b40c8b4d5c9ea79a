//! The numbers of runs that go through the layers together.

use core::convert::Infallible;
use core::mem::{replace, take};

use super::memory::{leave, numbers};
use crate::Error;

/// A row of numbers for each token of each run, one run after another.
///
/// Runs that have not differed yet share their rows, and count as one run here.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(super) runs: usize,
    /// The tokens of each run.
    pub(super) tokens: usize,
    pub(super) data: Vec<f32>,
}

impl Clone for Rows {
    fn clone(&self) -> Self {
        let copy = |out: &mut [f32]| {
            out.copy_from_slice(&self.data);
            Ok(())
        };
        let Ok(data) = numbers::<Infallible>(self.data.len(), || Ok(self.data.clone()), copy);
        Self { data, ..*self }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        leave(take(&mut self.data));
    }
}

impl Rows {
    /// The rows of one run.
    pub(crate) fn new(tokens: usize, data: Vec<f32>) -> Self {
        Self { runs: 1, tokens, data }
    }

    /// The numbers of all runs.
    pub(super) fn into_vec(mut self) -> Vec<f32> {
        take(&mut self.data)
    }

    /// The numbers of each run.
    pub(super) fn each(&self) -> impl Iterator<Item = &[f32]> {
        self.data.chunks_exact((self.data.len() / self.runs).max(1))
    }

    /// The output of a layer for each row.
    pub(super) fn map(
        &self,
        layer: impl FnOnce(&[f32]) -> Result<Vec<f32>, Error>,
    ) -> Result<Self, Error> {
        Ok(Self { data: layer(&self.data)?, ..*self })
    }

    /// Gives each of `runs` runs rows of its own, if they share their rows.
    pub(super) fn part(&mut self, runs: usize) {
        if self.runs < runs {
            let data = self.data.repeat(runs / self.runs);
            leave(replace(&mut self.data, data));
            self.runs = runs;
        }
    }

    /// x ← x + y. The runs may share the rows of one of them.
    pub(super) fn add(&mut self, other: &Self) {
        self.part(other.runs);
        for x in self.data.chunks_exact_mut(other.data.len().max(1)) {
            x.iter_mut().zip(&other.data).for_each(|(x, y)| *x += y);
        }
    }

    /// x ← x · y, element by element.
    pub(super) fn multiply(&mut self, mut other: Self) {
        self.part(other.runs);
        other.part(self.runs);
        self.data.iter_mut().zip(&other.data).for_each(|(x, y)| *x *= y);
    }

    /// x ← x · factor.
    pub(super) fn scale(&mut self, factor: f32) {
        if factor != 1.0 {
            self.data.iter_mut().for_each(|x| *x *= factor);
        }
    }

    /// The last row of each run.
    pub(super) fn last(&self) -> Self {
        let row = |run: &[f32]| run[run.len() - run.len() / self.tokens..].to_vec();
        Self { tokens: 1, data: self.each().flat_map(row).collect(), ..*self }
    }
}
