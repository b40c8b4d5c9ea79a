//! Direct logit attribution against an independent computation in f64, from a trace and the weights.

use regard_models::{Model, OutputHead, Placement, Trace};

use crate::common::{input, open};

/// The families whose head is linear.
const FAMILIES: &str = "gemma2 gemma3_text gpt2 gpt_neox gpt_oss granite llama mistral olmo2 olmo3 phi3 qwen2 qwen3 qwen3_moe smollm3 t5 t5-gated vit";

/// The unit roundoff of `f32`.
const U: f64 = f32::EPSILON as f64 / 2.0;

/// A weight or a bias of the model in f64.
fn parameter(model: &Model, name: &str) -> Option<Vec<f64>> {
    let found = model.parameter(name).unwrap()?;
    Some(found.data.into_iter().map(f64::from).collect())
}

fn row(trace: &Trace, place: &str, position: usize) -> Vec<f64> {
    let values = trace.get(place).unwrap();
    let len = values.data.len() / values.shape[0];
    values.data[position * len..(position + 1) * len].iter().map(|x| f64::from(*x)).collect()
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn length(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn absolute(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| x.abs()).collect()
}

/// The final norm, with its mean and divisor fixed at those of a stream, and the logit's direction after it.
struct Direction {
    u: Vec<f64>,
    gamma: Vec<f64>,
    beta: Option<Vec<f64>>,
    sigma: f64,
}

impl Direction {
    /// The term of a part of the stream.
    fn of(&self, part: &[f64]) -> f64 {
        let mean = if self.beta.is_some() { mean(part) } else { 0.0 };
        let terms = self.u.iter().zip(&self.gamma).zip(part);
        terms.map(|((u, gamma), x)| u * gamma * (x - mean) / self.sigma).sum()
    }

    /// A bound of the absolute value of that, for a part whose elements are at most as large as these.
    fn at_most(&self, part: &[f64]) -> f64 {
        let mean = if self.beta.is_some() { mean(part) } else { 0.0 };
        let terms = self.u.iter().zip(&self.gamma).zip(part);
        terms.map(|((u, gamma), x)| (u * gamma).abs() * (x + mean) / self.sigma).sum()
    }
}

/// An attention's output at a position: of each head, of the bias, and the sums of absolute products Σ|W·z|.
struct Output {
    heads: Vec<Vec<f64>>,
    bias: Vec<f64>,
    sizes: Vec<f64>,
}

impl Output {
    fn new(weight: &[f64], bias: Option<Vec<f64>>, z: &[f64], heads: usize, scale: f64) -> Self {
        let (inputs, width) = (z.len(), weight.len() / z.len());
        let at = |o: usize, i: usize| scale * weight[o * inputs + i];
        let size = inputs / heads;
        let head = |h: usize| {
            let of = |o: usize| (h * size..(h + 1) * size).map(|i| at(o, i) * z[i]).sum::<f64>();
            (0..width).map(of).collect::<Vec<f64>>()
        };
        let bias = bias.unwrap_or_else(|| vec![0.0; width]);
        let bias: Vec<f64> = bias.into_iter().map(|x| x * scale).collect();
        let absolute = |o: usize| (0..inputs).map(|i| (at(o, i) * z[i]).abs()).sum::<f64>();
        let sizes = (0..width).map(|o| absolute(o) + bias[o].abs()).collect();
        Self { heads: (0..heads).map(head).collect(), bias, sizes }
    }

    /// Through the RMS norm of the sublayer's output, and the factor by which rounding grows in it.
    fn normed(&mut self, gamma: &[f64], epsilon: f64) -> f64 {
        let mut all = self.bias.clone();
        for head in &self.heads {
            all.iter_mut().zip(head).for_each(|(x, y)| *x += y);
        }
        let divisor = (mean(&all.iter().map(|x| x * x).collect::<Vec<_>>()) + epsilon).sqrt();
        let growth = 1.0 + length(&self.sizes) / length(&all);
        for part in self.heads.iter_mut().chain([&mut self.bias, &mut self.sizes]) {
            part.iter_mut().zip(gamma).for_each(|(x, gamma)| *x *= gamma / divisor);
        }
        self.sizes = absolute(&self.sizes);
        growth
    }
}

fn check(name: &str) {
    let model = open(name);
    let description = model.description();
    let (stack, width, input) = (&description.stack, description.width, input(&model));
    let prefix = if description.encoder.is_some() { "decoder" } else { "blocks" };
    let trace = model.pass().keep(["*"]).run(&input).unwrap();
    let logits = trace.logits().unwrap();
    let classes = description.classifies();
    let position = if classes { 0 } else { logits.shape[0] - 1 };
    let (plus, minus) = (1, 4);
    let block = &stack.block;
    let after = matches!(block.placement, Placement::Both | Placement::Output);
    let place = |layer: usize, place: &str| format!("{prefix}.{layer}.{place}");

    let table = parameter(&model, "head").unwrap();
    let scale = match description.head {
        OutputHead::Tokens { scale, .. } => f64::from(scale),
        _ => 1.0,
    };
    let u_of = |id: usize| table[id * width..(id + 1) * width].iter().map(move |x| x * scale);
    let biases = parameter(&model, "head.bias");
    let bias_of = |id: usize| biases.as_ref().map_or(0.0, |bias| bias[id]);

    let stream = row(&trace, &place(stack.layers() - 1, "hook_resid_post"), position);
    let final_norm = if prefix == "decoder" { "decoder_final_ln" } else { "ln_final" };
    let beta = parameter(&model, &format!("{final_norm}.bias"));
    let centre = if beta.is_some() { mean(&stream) } else { 0.0 };
    let squares: Vec<f64> = stream.iter().map(|x| (x - centre).powi(2)).collect();
    let norm = stack.final_norm.unwrap();
    let path = Direction {
        u: u_of(plus).zip(u_of(minus)).map(|(x, y)| x - y).collect(),
        gamma: parameter(&model, final_norm).unwrap(),
        beta,
        sigma: (mean(&squares) + f64::from(norm.epsilon)).sqrt(),
    };

    let found = model.pass().attribute(&input, position, plus, Some(minus)).unwrap();
    // Numbers that are computed in f64 in two ways differ by the rounding of sums of at most 4 · width terms, in which the sizes of the
    // terms count.
    let wide = |size: f64| 8.0 * width as f64 * f64::EPSILON * size;
    let assert_equal = |found: f64, expected: f64, size: f64, what: &str| {
        let (bound, off) = (wide(size), (found - expected).abs());
        assert!(off <= bound, "{name}: {what} {found} is not {expected} ± {bound}");
    };
    let first = row(&trace, &place(0, "hook_resid_pre"), position);
    let embedding = found.embedding + found.positions.unwrap_or(0.0);
    let size = 2.0 * path.at_most(&absolute(&first));
    assert_equal(embedding, path.of(&first), size, "the embedding");
    // The sizes of all parts of the stream, and the bound of what the run rounds in them.
    let (mut sizes, mut errors) = (absolute(&first), vec![0.0; width]);
    for (layer, parts) in found.layers.iter().enumerate() {
        let mut bias = 0.0;
        for cross in [false, true] {
            let expected = if cross { &parts.cross } else { &parts.heads };
            if cross && expected.is_empty() {
                continue;
            }
            let attention = place(layer, if cross { "cross_attn" } else { "attn" });
            let z = row(&trace, &format!("{attention}.hook_z"), position);
            let weight = parameter(&model, &format!("{attention}.out")).unwrap();
            let bias_of_out = parameter(&model, &format!("{attention}.out.bias"));
            let scale = f64::from(block.output_scale);
            let mut out = Output::new(&weight, bias_of_out, &z, block.heads, scale);
            // Σ of k products in f32, and a factor: γ = (k + 2) u of the sum of their sizes; a norm after it adds (width + 8) u.
            let mut gamma = (z.len() + 2) as f64 * U;
            if after {
                let weight = parameter(&model, &place(layer, "ln1_post")).unwrap();
                gamma =
                    gamma * out.normed(&weight, f64::from(norm.epsilon)) + (width + 8) as f64 * U;
            }
            for (head, (part, found)) in out.heads.iter().zip(expected).enumerate() {
                let what = format!("head {head} of layer {layer}");
                assert_equal(*found, path.of(part), path.at_most(&out.sizes), &what);
            }
            bias += path.of(&out.bias);
            for i in 0..width {
                sizes[i] += out.sizes[i];
                errors[i] += 1.01 * gamma * out.sizes[i];
            }
        }
        assert_equal(parts.bias, bias, path.at_most(&sizes), "a bias");
        let mlp = row(&trace, &place(layer, "hook_mlp_out"), position);
        let size = path.at_most(&absolute(&mlp));
        assert_equal(parts.feed_forward, path.of(&mlp), size, "a feed-forward layer");
        sizes.iter_mut().zip(&mlp).for_each(|(size, x)| *size += x.abs());
    }
    // Each of at most 3 sums a layer rounds a number that is no larger than the sum of all sizes.
    for (error, size) in errors.iter_mut().zip(&sizes) {
        *error += (3 * stack.layers() + 1) as f64 * 1.01 * U * size;
    }
    // The final norm in f32: γ of the mean and of the square, and the difference from the mean.
    let around: Vec<f64> = stream.iter().map(|x| x.abs() + mean(&absolute(&stream))).collect();
    let shift = |sign: fn(f64) -> f64| {
        let beta = path.beta.iter().flatten();
        path.u.iter().zip(beta).map(|(u, beta)| sign(u * beta)).sum::<f64>()
    };
    let norm_error = (width + 8) as f64 * U * (path.at_most(&around) + shift(f64::abs));
    let bound = path.at_most(&errors) + norm_error;
    assert!((found.sum() - found.logit).abs() <= bound, "{name}: {found:?}, bound {bound}");
    let biases = shift(|x| x) + bias_of(plus) - bias_of(minus);
    assert_equal(found.bias, biases, shift(f64::abs) + 1.0, "biases");

    // The logit itself, of one token: a sum of `width` products more, then the soft cap, which is no steeper than 1.
    let one = model.pass().attribute(&input, position, plus, None).unwrap();
    let normed = row(&trace, &format!("{final_norm}.hook_out"), position);
    let size: f64 = u_of(plus).zip(&normed).map(|(u, x)| (u * x).abs()).sum();
    let logit = f64::from(logits.data[if classes { 0 } else { position * logits.shape[1] } + plus]);
    let capped = match description.head {
        OutputHead::Tokens { softcap: Some(cap), .. } => {
            f64::from(cap) * (one.logit / f64::from(cap)).tanh()
        }
        _ => one.logit,
    };
    let bound = (width + 12) as f64 * U * (size + bias_of(plus).abs() + logit.abs());
    assert!((capped - logit).abs() <= bound, "{name}: {capped} is not {logit} ± {bound}");
}

#[test]
fn parts_add_up_to_the_logit_in_every_family() {
    for family in FAMILIES.split(' ') {
        check(&format!("tiny-{family}"));
    }
}

#[test]
fn an_attribution_that_means_nothing_is_refused() {
    let refused = |name: &str, position: usize, plus: usize, part: &str| {
        let model = open(name);
        let error =
            model.pass().attribute(&input(&model), position, plus, None).unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error}");
    };
    refused("tiny-bert", 0, 1, "the model's head has an activation");
    refused("tiny-gpt2", 9, 1, "no position 9");
    refused("tiny-gpt2", 0, 320, "no logit 320: the model has 320");
    refused("tiny-vit", 1, 0, "position 0");
}

#[test]
fn an_attribution_serialises() {
    let model = open("tiny-t5");
    let parts = model.pass().attribute(&input(&model), 3, 5, Some(6)).unwrap();
    let text = serde_json::to_string(&parts).unwrap();
    let read: regard_models::Attribution = serde_json::from_str(&text).unwrap();
    assert_eq!((read.position, read.minus, read.layers[0].cross.len()), (3, Some(6), 5));
}
