//! Every hidden state, attention and logit of a model against the expected ones.

use anyhow::{Context as _, Result, ensure};
use regard::{Attention, Encoder, Keep, LayerWorkspace, Sequences, Tensor};

use crate::files::Files;

/// From hidden states to logits.
pub type Head = dyn Fn(Sequences<'_>) -> Result<Vec<f32>>;

/// From the ids of tokens that follow so many others to what the first block takes.
pub type Embed = dyn Fn(&[u32], usize) -> Result<Vec<f32>>;

/// How the heads of a layer attend.
pub type Attend = dyn Fn(usize) -> Attention<'static>;

/// A model of one stack.
pub struct Model {
    pub embed: Box<Embed>,
    pub encoder: Encoder,
    pub attention: Box<Attend>,
    pub head: Box<Head>,
}

impl Model {
    /// Whether the states, the attentions and the logits are the expected ones.
    pub fn check(&self, files: &Files) -> Result<()> {
        let ids = files.ids("input_ids")?;
        let x = (self.embed)(&ids, 0)?;
        let (n, features) = (ids.len(), x.len() / ids.len());
        let x = Sequences::new("x", &x, [1, n, features])?;
        let mut run = self.encoder.forward_with(x, &self.attention, Keep::ALL)?;

        // transformers gives the last state after the norm.
        *run.states.last_mut().context("a state")? = run.output.clone();
        compare_all("hidden state", &run.states, &files.expected("hidden_states")?, features)?;
        compare_all("attentions of layer", &run.weights, &files.expected("attentions")?, n)?;
        let logits = (self.head)(run.output.sequences())?;
        let expected = files.expected("logits")?;
        compare("logits", &logits, &expected, expected.len() / n)
    }

    /// Whether the model writes the expected tokens, the largest logit first: a prompt, then token by token after it.
    pub fn check_generated(&self, files: &Files) -> Result<()> {
        let (mut ids, expected) = (files.ids("input_ids")?, files.ids("generated")?);
        let mut caches = self.encoder.caches(1, ids.len() + expected.len())?;
        let (mut generated, mut first) = (Vec::new(), 0);
        let (mut workspace, mut y) = (LayerWorkspace::new(), Vec::new());
        while generated.len() < expected.len() {
            let x = (self.embed)(&ids, first)?;
            let shape = [1, ids.len(), x.len() / ids.len()];
            y.resize(x.len(), 0.0);
            let x = Sequences::new("x", &x, shape)?;
            let attention = &self.attention;
            self.encoder.forward_into(x, Some(&mut caches), attention, &mut y, &mut workspace)?;
            let logits = (self.head)(Sequences::new("x", &y, shape)?)?;
            let last = &logits[logits.len() - logits.len() / ids.len()..];
            first += ids.len();
            ids = vec![largest(last).context("a logit")?];
            generated.push(ids[0]);
        }
        ensure!(generated == expected, "{generated:?} instead of {expected:?}");
        Ok(())
    }
}

/// The place of the largest number.
pub fn largest(x: &[f32]) -> Option<u32> {
    (0..x.len()).max_by(|a, b| x[*a].total_cmp(&x[*b])).map(|i| i as u32)
}

/// Each of `found`, one a layer, against its part of the expected ones.
pub fn compare_all<const N: usize>(
    what: &str,
    found: &[Tensor<N>],
    expected: &[f32],
    row: usize,
) -> Result<()> {
    ensure!(!found.is_empty(), "no {what}");
    let len = expected.len() / found.len();
    for (layer, (found, expected)) in found.iter().zip(expected.chunks(len)).enumerate() {
        compare(&format!("{what} {layer}"), found, expected, row)?;
    }
    Ok(())
}

/// Each row of `found` within 1e-5 of the expected one's length, and each element within 1e-4 of its size, except for those
/// that are so much smaller than the row's largest that `f32` cannot tell them.
pub fn compare(what: &str, found: &[f32], expected: &[f32], row: usize) -> Result<()> {
    ensure!(
        found.len() == expected.len(),
        "{what}: {} elements, not {}",
        found.len(),
        expected.len()
    );
    let (mut worst_row, mut worst) = (0.0_f64, 0.0_f64);
    for (found, expected) in found.chunks(row).zip(expected.chunks(row)) {
        let largest = expected.iter().fold(0.0_f64, |m, x| m.max(f64::from(x.abs())));
        let (mut error, mut length) = (0.0, 0.0);
        for (f, e) in found.iter().zip(expected) {
            let (f, e) = (f64::from(*f), f64::from(*e));
            error += (f - e) * (f - e);
            length += e * e;
            let tolerance = 1e-4 * e.abs() + 1e-6 * largest;
            ensure!((f - e).abs() <= tolerance, "{what}: {f} instead of {e} ± {tolerance:e}");
            worst = worst.max((f - e).abs() / (e.abs() + 1e-2 * largest));
        }
        worst_row = worst_row.max((error / length).sqrt());
    }
    println!("{what}: rows within {worst_row:.1e}, elements within {worst:.1e}, relatively");
    ensure!(worst_row < 1e-5, "{what}: a row is {worst_row:e} off");
    Ok(())
}
