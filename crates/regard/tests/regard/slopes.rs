//! Attention and its gradients by the formulas, in `f64`, with bounds for the errors of the same numbers in `f32`.

use regard::Window;

use crate::bounded::{Num, softmax};
use crate::common::numbers;

/// The shape and the description of an attention. Queries stand at the end of their entry's keys.
#[derive(Clone, Debug)]
pub struct Case {
    pub batch: usize,
    pub kv_heads: usize,
    pub group: usize,
    pub n_q: usize,
    pub n_k: usize,
    pub d_k: usize,
    pub d_v: usize,
    pub causal: bool,
    pub window: Option<Window>,
    /// The key lengths of the batch entries. Empty if there are none.
    pub key_lengths: Vec<usize>,
    /// A slope for each head. Empty if there are none.
    pub slopes: Vec<f32>,
    pub sinks: bool,
    pub scale: Option<f32>,
    pub softcap: Option<f32>,
    pub temperature: f32,
    /// The shape of the additive mask.
    pub bias: Option<[usize; 4]>,
    pub threads: usize,
}

/// All inputs that have a gradient, or all gradients.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// \[batch, heads, n_q, d_k\].
    pub q: Vec<Num>,
    /// \[batch, kv_heads, n_k, d_k\].
    pub k: Vec<Num>,
    /// \[batch, kv_heads, n_k, d_v\].
    pub v: Vec<Num>,
    /// One number.
    pub scale: Vec<Num>,
    pub bias: Vec<Num>,
    /// \[heads\], or empty.
    pub sinks: Vec<Num>,
}

/// A query: the keys that it sees, their scores after the soft cap, their weights, and the weight of the sink.
struct Row {
    seen: Vec<usize>,
    capped: Vec<Num>,
    weights: Vec<Num>,
    of_sink: Option<Num>,
}

impl Case {
    pub fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn key_len(&self, entry: usize) -> usize {
        self.key_lengths.get(entry).copied().unwrap_or(self.n_k)
    }

    /// Whether query i of an entry sees key j.
    fn sees(&self, entry: usize, i: usize, j: usize) -> bool {
        let Window { left, right } = self.window.unwrap_or_default();
        let to_right = (j + self.n_q) as isize - (i + self.key_len(entry)) as isize;
        let within = |n: Option<usize>, far: isize| n.is_none_or(|n| far <= n as isize);
        j < self.key_len(entry)
            && (!self.causal || to_right <= 0)
            && within(left, -to_right)
            && within(right, to_right)
    }

    /// The index of a pair of query and key in the additive mask.
    fn bias_at(&self, entry: usize, head: usize, i: usize, j: usize) -> Option<usize> {
        let [b, h, rows, keys] = self.bias?;
        let at = |n: usize, i: usize| if n == 1 { 0 } else { i };
        Some(((at(b, entry) * h + at(h, head)) * rows + at(rows, i)) * keys + at(keys, j))
    }

    fn row(&self, x: &Inputs, entry: usize, head: usize, i: usize) -> Row {
        let inverse_temperature = Num::constant(1.0 / f64::from(self.temperature));
        let q = vector(&x.q, (entry * self.heads() + head) * self.n_q + i, self.d_k);
        let capped_score = |j: &usize| {
            let score = Num::dot(pairs(q, self.key(&x.k, entry, head, *j))).times(x.scale[0]);
            match self.softcap.map(f64::from) {
                // tanh has a slope of at most 1, and lies between 0 and its argument.
                Some(cap) => score.apply(1.0, |score| cap * (score / cap).tanh()),
                None => score,
            }
        };
        let seen: Vec<usize> = (0..self.n_k).filter(|j| self.sees(entry, i, *j)).collect();
        let capped: Vec<Num> = seen.iter().map(capped_score).collect();
        let masked = |(j, score): (&usize, &Num)| {
            let mut score = *score;
            if let Some(at) = self.bias_at(entry, head, i, *j) {
                score = Num::sum([score, x.bias[at]]);
            }
            if let Some(slope) = self.slopes.get(head) {
                let distance = (i + self.key_len(entry)).abs_diff(j + self.n_q);
                score = score.minus(Num::exact(*slope).times(Num::exact(distance as f32)));
            }
            score.times(inverse_temperature)
        };
        let mut scores: Vec<Num> = seen.iter().zip(&capped).map(masked).collect();
        scores.extend(x.sinks.get(head).map(|sink| sink.times(inverse_temperature)));
        let mut weights = softmax(&scores);
        let of_sink = if x.sinks.is_empty() { None } else { weights.pop() };
        Row { seen, capped, weights, of_sink }
    }

    /// Row j of the keys or values that a query head uses.
    fn key<'x>(&self, x: &'x [Num], entry: usize, head: usize, j: usize) -> &'x [Num] {
        let width = x.len() / (self.batch * self.kv_heads * self.n_k);
        let kv_head = entry * self.kv_heads + head / self.group;
        vector(x, kv_head * self.n_k + j, width)
    }

    /// The output of a query: its weights times the values.
    fn output(&self, x: &Inputs, row: &Row, entry: usize, head: usize) -> Vec<Num> {
        let element = |c: usize| {
            let value = |j: &usize| self.key(&x.v, entry, head, *j)[c];
            Num::dot(row.weights.iter().copied().zip(row.seen.iter().map(value)))
        };
        (0..self.d_v).map(element).collect()
    }

    /// The indices of every query of every head of every entry.
    fn rows(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let (heads, n_q) = (self.heads(), self.n_q);
        (0..self.batch * heads * n_q).map(move |r| (r / n_q / heads, r / n_q % heads, r % n_q))
    }

    /// \[batch, heads, n_q, d_v\].
    pub fn forward(&self, x: &Inputs) -> Vec<Num> {
        self.rows()
            .flat_map(|(entry, head, i)| {
                let row = self.row(x, entry, head, i);
                self.output(x, &row, entry, head)
            })
            .collect()
    }

    /// The gradients of Σ d_out ∘ output.
    pub fn backward(&self, x: &Inputs, d_out: &[Num]) -> Inputs {
        let inverse_temperature = Num::constant(1.0 / f64::from(self.temperature));
        // Sums of products, kept as lists of terms until all terms are known.
        let terms = |x: &[Num]| vec![Vec::new(); x.len()];
        let mut q = Vec::new();
        let (mut k, mut v, mut scale) = (terms(&x.k), terms(&x.v), Vec::new());
        let (mut bias, mut sinks) = (terms(&x.bias), terms(&x.sinks));
        let one = Num::exact(1.0);
        for (entry, head, i) in self.rows() {
            let index = (entry * self.heads() + head) * self.n_q + i;
            let (query, d_out) = (vector(&x.q, index, self.d_k), vector(d_out, index, self.d_v));
            let row = self.row(x, entry, head, i);
            let mean = Num::dot(pairs(d_out, &self.output(x, &row, entry, head)));
            let mut d_dots = Vec::new();
            for ((j, weight), capped) in row.seen.iter().zip(&row.weights).zip(&row.capped) {
                let of_value = Num::dot(pairs(d_out, self.key(&x.v, entry, head, *j)));
                let d_score = weight.times(of_value.minus(mean)).times(inverse_temperature);
                if let Some(at) = self.bias_at(entry, head, i, *j) {
                    bias[at].push((d_score, one));
                }
                d_dots.push(match self.softcap {
                    Some(cap) => {
                        let share = capped.times(Num::constant(1.0 / f64::from(cap)));
                        d_score.times(one.minus(share.times(share)))
                    }
                    None => d_score,
                });
                let first = self.first(entry, head, *j);
                for (c, d_out) in d_out.iter().enumerate() {
                    v[first * self.d_v + c].push((*weight, *d_out));
                }
                let d_scaled = d_dots.last().unwrap().times(x.scale[0]);
                for (c, query) in query.iter().enumerate() {
                    k[first * self.d_k + c].push((d_scaled, *query));
                }
            }
            if let Some(of_sink) = row.of_sink {
                let d_score = of_sink.times(Num::exact(0.0).minus(mean)).times(inverse_temperature);
                sinks[head].push((d_score, one));
            }
            let unscaled: Vec<Num> = (0..self.d_k)
                .map(|c| {
                    let key = |j: &usize| self.key(&x.k, entry, head, *j)[c];
                    Num::dot(d_dots.iter().copied().zip(row.seen.iter().map(key)))
                })
                .collect();
            scale.extend(pairs(query, &unscaled));
            q.extend(unscaled.iter().map(|d| d.times(x.scale[0])));
        }
        let sum = |terms: Vec<Vec<(Num, Num)>>| terms.into_iter().map(Num::dot).collect();
        let scale = vec![Num::dot(scale)];
        Inputs { q, k: sum(k), v: sum(v), scale, bias: sum(bias), sinks: sum(sinks) }
    }

    /// The index of a key among all keys.
    fn first(&self, entry: usize, head: usize, j: usize) -> usize {
        (entry * self.kv_heads + head / self.group) * self.n_k + j
    }
}

/// Row `index` of a matrix with `width` columns.
fn vector(x: &[Num], index: usize, width: usize) -> &[Num] {
    &x[index * width..(index + 1) * width]
}

fn pairs(a: &[Num], b: &[Num]) -> impl Iterator<Item = (Num, Num)> {
    a.iter().copied().zip(b.iter().copied())
}

/// Asserts that `gradient` is that of `loss` at x, along one direction of each of its parts.
///
/// D(h) = (loss(x + hu) − loss(x − hu)) / 2h has an error of c·h² plus terms of h⁴. So D(2h) − D(h) is three times the error of
/// D(h), and bounds it. Rounding adds an error of the loss divided by h. The loss takes chains of less than 1000 operations, on
/// numbers whose sum of magnitudes is `size`.
#[track_caller]
pub fn assert_slopes<const N: usize>(
    loss: impl Fn([&[f64]; N]) -> f64,
    x: [&[Num]; N],
    gradient: [&[Num]; N],
    size: f64,
) {
    const H: f64 = 1e-4;
    let x = x.map(|part| part.iter().map(|x| x.x).collect::<Vec<f64>>());
    for (part, gradient) in gradient.into_iter().enumerate() {
        let direction = numbers(gradient.len(), 77 + part as u64);
        let expected: f64 = gradient.iter().zip(&direction).map(|(g, u)| g.x * f64::from(*u)).sum();
        let at = |h: f64| {
            let mut x = x.clone();
            for (x, u) in x[part].iter_mut().zip(&direction) {
                *x += h * f64::from(*u);
            }
            loss(x.each_ref().map(Vec::as_slice))
        };
        let difference = |h: f64| (at(h) - at(-h)) / (2.0 * h);
        let (near, far) = (difference(H), difference(2.0 * H));
        let bound = (far - near).abs() + 1000.0 * f64::EPSILON * size / H;
        let error = (near - expected).abs();
        assert!(error <= bound, "part {part}: {expected} is not {near} ± {bound:e}");
    }
}
