//! A mixture of experts: the few feed-forward layers that each token takes.
//!
//! The router's logits choose a token's experts and give their weights. Then each expert multiplies the tokens that take it, all at
//! once, and an expert that no token takes is not read. A token's output is the sum of its experts' in the order of their numbers,
//! so that its bits do not depend on the other tokens.

use regard::{Activation, Linear};

use super::Rows;
use super::run::{Runner, product};
use crate::weights::FeedForward;
use crate::{ClampedGate, Error, Experts, Place};

impl Runner<'_> {
    /// The output \[tokens, width\] of the experts for x \[tokens, width\]. `of_weights` and `of_indices` are their places.
    pub(super) fn mixture(
        &mut self,
        [of_weights, of_indices]: [Place; 2],
        (router, each): (&Linear, &[FeedForward]),
        (experts, activation): (&Experts, Activation),
        x: &Rows,
    ) -> Result<Rows, Error> {
        let Experts { count, used, .. } = *experts;
        let mut weights = x.map(|x| product(router, x))?;
        let mut taken = Vec::with_capacity(weights.data.len() / count * used);
        for logits in weights.data.chunks_exact_mut(count) {
            let own = largest(logits, used);
            weigh(logits, &own, experts);
            taken.extend(own);
        }
        self.place(of_weights, &[count], &mut weights)?;
        if self.changes(of_weights) {
            taken = weights.data.chunks_exact(count).flat_map(|row| largest(row, used)).collect();
        }
        let numbers = taken.iter().map(|expert| *expert as f32).collect();
        let mut indices = Rows { data: numbers, ..weights };
        self.place(of_indices, &[used], &mut indices)?;

        let (mut x, runs) = (x.clone(), indices.runs.max(x.runs));
        for rows in [&mut x, &mut weights, &mut indices] {
            rows.part(runs);
        }
        let width = router.inputs().max(1);
        let mut tokens_of = vec![Vec::new(); count];
        for (i, index) in indices.data.iter().enumerate() {
            let expert = *index as usize;
            if expert as f32 != *index || expert >= count {
                return Err(Error::Range(format!(
                    "{of_indices} has {index}, which is no number of the {count} experts"
                )));
            }
            tokens_of[expert].push(i / used);
        }
        let mut out = Rows { data: vec![0.0; x.data.len()], ..x };
        let taken = tokens_of.iter().zip(each).enumerate();
        for (expert, (tokens, layer)) in taken.filter(|(_, (tokens, _))| !tokens.is_empty()) {
            let of_token = |token: &usize| &x.data[token * width..][..width];
            let own: Vec<f32> = tokens.iter().flat_map(of_token).copied().collect();
            let added = output(layer, &own, activation, experts.gate)?;
            for (token, added) in tokens.iter().zip(added.chunks_exact(width)) {
                let weight = weights.data[token * count + expert];
                let sum = &mut out.data[token * width..][..width];
                sum.iter_mut().zip(added).for_each(|(sum, added)| *sum += weight * added);
            }
        }
        Ok(out)
    }
}

/// The places of the largest numbers, the largest first, and of equal ones the first.
fn largest(numbers: &[f32], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|i, j| numbers[*j].total_cmp(&numbers[*i]));
    order.truncate(count);
    order
}

/// The output of the feed-forward layer that all tokens take, times the sigmoid of its weight, for each row of x.
pub(super) fn of_all_tokens(
    (layer, weight): &(FeedForward, Linear),
    x: &[f32],
    activation: Activation,
) -> Result<Vec<f32>, Error> {
    let (mut out, mut powers) = (output(layer, x, activation, None)?, product(weight, x)?);
    for x in &mut powers {
        *x = -*x;
    }
    regard_kernels::exp(&mut powers);
    let rows = out.chunks_exact_mut(layer.down.outputs().max(1));
    for (row, power) in rows.zip(powers) {
        for x in row {
            *x /= 1.0 + power;
        }
    }
    Ok(out)
}

/// Puts weights in the place of a token's logits: those of the experts that it takes, and 0 for the others.
fn weigh(logits: &mut [f32], taken: &[usize], experts: &Experts) {
    let wide: Vec<f64> = logits.iter().map(|x| f64::from(*x)).collect();
    let most = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let power = |expert: usize| (wide[expert] - most).exp();
    if let Some(near) = experts.near {
        logits.fill(0.0);
        for (i, expert) in taken.iter().enumerate() {
            let own = wide[*expert];
            let is_near = |x: f64| (own - x) / x.abs().max(own) <= near;
            let others = (0..wide.len()).filter(|other| !taken[..i].contains(other));
            let sum: f64 = others.filter(|other| is_near(wide[*other])).map(power).sum();
            logits[*expert] = (power(*expert) / sum) as f32;
        }
        return;
    }
    let sum: f64 = if experts.normalized {
        taken.iter().map(|expert| power(*expert)).sum()
    } else {
        (0..wide.len()).map(power).sum()
    };
    logits.fill(0.0);
    for expert in taken {
        logits[*expert] = (power(*expert) / sum) as f32;
    }
}

/// The output of an expert for each row of x.
fn output(
    layer: &FeedForward,
    x: &[f32],
    activation: Activation,
    clamped: Option<ClampedGate>,
) -> Result<Vec<f32>, Error> {
    let FeedForward { gate, up, down } = layer;
    let mut hidden = product(gate.as_ref().unwrap_or(up), x)?;
    let up = gate.as_ref().map(|_| product(up, x)).transpose()?.unwrap_or_default();
    if let Some(ClampedGate { slope, limit }) = clamped {
        let mut powers: Vec<f32> = hidden.iter().map(|gate| -slope * gate.min(limit)).collect();
        regard_kernels::exp(&mut powers);
        for ((gate, up), power) in hidden.iter_mut().zip(&up).zip(powers) {
            *gate = gate.min(limit) / (1.0 + power) * (up.clamp(-limit, limit) + 1.0);
        }
    } else {
        activation.apply(&mut hidden);
        hidden.iter_mut().zip(&up).for_each(|(gate, up)| *gate *= up);
    }
    product(down, &hidden)
}
