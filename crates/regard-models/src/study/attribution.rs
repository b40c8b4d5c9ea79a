//! Direct logit attribution: what each head and each layer adds to a logit (Elhage et al. 2021, "A Mathematical Framework for
//! Transformer Circuits").
//!
//! The residual stream at a position is a sum: the embedding, and each sublayer's output. The final norm divides it by one
//! number, the standard deviation or the root mean square. This number is fixed at its value in this run; the rest of the norm
//! and the unembedding are linear. So a logit is a sum too, with a term for each part of the stream. A head's term is the dot
//! product of its output z with a vector. This vector is the logit's direction u, taken back through the norm and the output
//! projection:
//!
//! ```text
//! u = W_U[A] − W_U[B]                              the difference of two rows of the unembedding, or one row
//! d = (1/σ) · γ ⊙ u, less its mean in layer norm     a part p of the stream adds d·p to the logit
//! d' = the same with the norm of the sublayer's output, if the family has one (Gemma 2)
//! v = W_Oᵀ d'                                      head h adds v_h · z_h, over its own features of z
//! ```
//!
//! All of this is computed in `f64`, from the `f32` numbers of the run.

use regard::{Embedding, Linear, Norm};
use serde::{Deserialize, Serialize};

use crate::weights::{AttentionWeights, Layer};
use crate::{
    AttentionPlace, ClassPosition, EmbeddingPlace, Error, Input, LayerPlace, Model, NormPlace,
    OutputHead, Pass, Place, Placement, StackName, StreamPlace, Trace,
};

/// The terms that the parts of a model add to a logit, or to the difference of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attribution {
    /// The position whose logits are read.
    pub position: usize,
    /// The token A, or the class.
    pub plus: usize,
    /// The token B whose logit is subtracted.
    pub minus: Option<usize>,
    /// The logit of A, or that of A minus that of B, before a soft cap. The parts add up to it within the rounding errors of
    /// the run.
    pub logit: f64,
    /// The term of the embedding of the position's token.
    pub embedding: f64,
    /// The term of the learned vector of the position, if the model has one.
    pub positions: Option<f64>,
    /// The terms of each layer.
    pub layers: Vec<LayerAttribution>,
    /// The term of the biases of the final norm and of the head.
    pub bias: f64,
}

/// The terms that the parts of a layer add to a logit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerAttribution {
    /// The term of each head.
    pub heads: Vec<f64>,
    /// The term of each head from decoder to encoder, if the layer has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cross: Vec<f64>,
    /// The term of the biases of the output projections.
    pub bias: f64,
    /// The term of the feed-forward layer, with its bias.
    pub feed_forward: f64,
}

impl Attribution {
    /// The sum of all parts.
    pub fn sum(&self) -> f64 {
        let layers = self.layers.iter().map(LayerAttribution::sum).sum::<f64>();
        self.embedding + self.positions.unwrap_or(0.0) + layers + self.bias
    }
}

impl LayerAttribution {
    /// The sum of the layer's parts.
    pub fn sum(&self) -> f64 {
        self.heads.iter().chain(&self.cross).sum::<f64>() + self.bias + self.feed_forward
    }
}

impl Pass<'_> {
    /// Runs the model. Returns what each of its parts adds to the logit of the token (or class) `plus`, or to that of `plus`
    /// minus that of `minus`, at a position.
    ///
    /// A change of the residual stream or of an attention's output is not a part of the model. The parts then add up to the
    /// logit minus what the change adds.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); [`Error::Unsupported`] if the model has no head, or if its head is not linear (BERT's
    /// has an activation); and [`Error::Missing`] if there is no such token or position. A model that classifies has logits
    /// only at [`Description::class_position`](crate::Description::class_position).
    ///
    /// ```
    /// use regard_models::{Ablation, Change, Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let input = Input::tokens([7, 8, 9]);
    /// let parts = model.pass().attribute(&input, 2, 40, Some(41))?;
    /// let logits = model.pass().run(&input)?.logits().unwrap().last().to_vec();
    /// assert!((parts.sum() - f64::from(logits[40] - logits[41])).abs() < 1e-5);
    ///
    /// let ablated = model.pass().change(Change::Ablate { head: "1.3".parse()?, to: Ablation::Zero });
    /// assert_eq!(ablated.attribute(&input, 2, 40, None)?.layers[1].heads[3], 0.0);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn attribute(
        &self,
        input: &Input,
        position: usize,
        plus: usize,
        minus: Option<usize>,
    ) -> Result<Attribution, Error> {
        let model = self.model;
        let (description, weights) = (model.description(), &model.weights().stack);
        let (unembedding, bias) = model.unembedding(plus, minus)?;
        let (stack_name, stack) = description.last_stack();
        let at = |layer: usize, place: LayerPlace| stack_name.place(layer, place);
        let [own, cross] =
            [LayerPlace::Attention, LayerPlace::Cross].map(|of| of(AttentionPlace::Output));
        let feed_forward = LayerPlace::Stream(StreamPlace::FeedForwardOut);
        let of_positions = Place::Embedding(EmbeddingPlace::Positions);
        let first = stack_name.place(0, StreamPlace::Pre);
        let last = stack_name.place(stack.layers().saturating_sub(1), stack.layer_output());
        let normed = weights.norm.as_ref().map(|_| Place::FinalNorm(stack_name, NormPlace::Out));
        let normed = normed.unwrap_or(last);
        let positions = description.embedding.positions.is_some() && stack_name == StackName::Only;
        let mut keep = vec![first, last, normed];
        keep.extend(positions.then_some(of_positions));
        for layer in 0..stack.layers() {
            keep.extend([own, feed_forward].map(|place| at(layer, place)));
            keep.extend(stack.cross.then(|| at(layer, cross)));
        }
        let pass = Self { keep: Vec::new(), last_only: true, ..self.clone() };
        let trace = pass.keep(keep).run(input)?;
        let read = description.class_position(input);
        if description.classifies() && position != read {
            let what = format!("the logits of classes are read at position {read}, not {position}");
            return Err(Error::Missing(what));
        }
        let row = |place: Place| row(&trace, place, position);

        let stream = wide(row(last)?);
        let (direction, normed_bias) = match &weights.norm {
            Some(norm) => (before(norm, &stream, &unembedding), shift(norm, &unembedding)),
            None => (unembedding.clone(), 0.0),
        };
        let out = row(normed)?;
        let vector = if positions { Some(row(of_positions)?) } else { None };
        let vector = vector.map(|vector| dot(&direction, vector));
        let count = stack.block.heads;
        // The factor of what a sublayer adds to the stream.
        let scale = f64::from(stack.block.output_scale);
        let scaled: Vec<f64> = direction.iter().map(|d| d * scale).collect();
        let layer = |(layer, of_layer): (usize, &Layer)| {
            let after = of_layer.after.as_ref().map(|(after, _)| after);
            let z = row(at(layer, own))?;
            let (heads, mut bias) = by_head(&of_layer.attention, after, z, &scaled, count)?;
            let mut crossing = Vec::new();
            if let Some((_, attention)) = &of_layer.cross {
                let z = row(at(layer, cross))?;
                let more;
                (crossing, more) = by_head(attention, None, z, &scaled, count)?;
                bias += more;
            }
            let added = dot(&direction, row(at(layer, feed_forward))?);
            Ok(LayerAttribution { heads, cross: crossing, bias, feed_forward: added })
        };
        let layers = weights.layers.iter().enumerate().map(layer).collect::<Result<_, Error>>()?;
        Ok(Attribution {
            position,
            plus,
            minus,
            logit: dot(&unembedding, out) + bias,
            embedding: dot(&direction, row(first)?) - vector.unwrap_or(0.0),
            positions: vector,
            layers,
            bias: normed_bias + bias,
        })
    }
}

impl Model {
    /// The direction u \[width\] of a logit, or of the difference of two, in the stream after the final norm; and the number
    /// that the head's bias adds.
    fn unembedding(&self, plus: usize, minus: Option<usize>) -> Result<(Vec<f64>, f64), Error> {
        let description = self.description();
        let refuse = |what: &str| Err(Error::Unsupported(what.into()));
        let Some(head) = &self.weights().head else {
            return refuse("the model has no head, and no logits");
        };
        let scale = match &description.head {
            OutputHead::Tokens { transform: None, scale, .. } => f64::from(*scale),
            OutputHead::Classes {
                pooler: None,
                position: ClassPosition::First | ClassPosition::Last { .. },
                ..
            } => 1.0,
            OutputHead::Classes { pooler: None, .. } => {
                return refuse(
                    "the logits are no sum of parts of one position: the model's head reads several",
                );
            }
            _ => {
                return refuse(
                    "the logits are no sum of parts: the model's head has an activation",
                );
            }
        };
        if description.stack.block.placement == Placement::After {
            return refuse("the logits are no sum of parts: each layer's sum goes through a norm");
        }
        let outputs = head.outputs();
        if let Some(wrong) = [Some(plus), minus].into_iter().flatten().find(|id| *id >= outputs) {
            return Err(Error::Missing(format!(
                "there is no logit {wrong}: the model has {outputs}"
            )));
        }
        let (rows, biases) = (Embedding::tied_to(head), biases(head));
        let row = |id: usize| Ok::<_, Error>(wide(rows.forward(&[id as u32])?.as_slice()));
        let mut direction = row(plus)?;
        let mut bias = biases[plus];
        if let Some(minus) = minus {
            direction.iter_mut().zip(row(minus)?).for_each(|(x, y)| *x -= y);
            bias -= biases[minus];
        }
        for x in &mut direction {
            *x *= scale;
        }
        Ok((direction, bias))
    }
}

/// The term of each head, from its output z \[heads · head size\] at the position; and the term of the output projection's
/// bias. `after` is the norm of the attention's output.
fn by_head(
    attention: &AttentionWeights,
    after: Option<&Norm>,
    z: &[f32],
    direction: &[f64],
    heads: usize,
) -> Result<(Vec<f64>, f64), Error> {
    let out = &attention.out;
    let (ids, biases) = ((0..out.outputs() as u32).collect::<Vec<_>>(), biases(out));
    let weight = Embedding::tied_to(out).forward(&ids)?; // [width, heads · head size]
    let rows = || weight.as_slice().chunks_exact(out.inputs().max(1));
    let after = after.map(|norm| {
        let output = |(row, bias): (&[f32], &f64)| dot(&wide(z), row) + bias;
        before(norm, &rows().zip(&biases).map(output).collect::<Vec<_>>(), direction)
    });
    let direction = after.as_deref().unwrap_or(direction);
    let mut back = vec![0.0; out.inputs()];
    for (row, d) in rows().zip(direction) {
        back.iter_mut().zip(row).for_each(|(back, weight)| *back += d * f64::from(*weight));
    }
    let size = (z.len() / heads.max(1)).max(1);
    let parts = back.chunks_exact(size).zip(z.chunks_exact(size)).map(|(v, z)| dot(v, z));
    let bias = direction.iter().zip(&biases).map(|(d, bias)| d * bias).sum();
    Ok((parts.collect(), bias))
}

/// A direction after a norm, taken back to the stream x before it. The norm's mean and divisor stay at their values for x.
fn before(norm: &Norm, x: &[f64], direction: &[f64]) -> Vec<f64> {
    let mean_of = |x: &[f64]| x.iter().sum::<f64>() / x.len().max(1) as f64;
    let centred = norm.beta().is_some();
    let mean = if centred { mean_of(x) } else { 0.0 };
    let square = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len().max(1) as f64;
    let divisor = (square + f64::from(norm.epsilon())).sqrt();
    let scaled =
        norm.gamma().iter().zip(direction).map(|(gamma, d)| f64::from(*gamma) * d / divisor);
    let mut back: Vec<f64> = scaled.collect();
    if centred {
        let mean = mean_of(&back);
        for x in &mut back {
            *x -= mean;
        }
    }
    back
}

/// The term of a norm's bias in a direction after it.
fn shift(norm: &Norm, direction: &[f64]) -> f64 {
    norm.beta().map_or(0.0, |beta| dot(direction, beta))
}

/// The biases of a layer, 0 if it has none.
fn biases(layer: &Linear) -> Vec<f64> {
    layer.bias().map_or_else(|| vec![0.0; layer.outputs()], wide)
}

/// The row of a kept place that belongs to a position.
fn row(trace: &Trace, place: Place, position: usize) -> Result<&[f32], Error> {
    let values = trace.at(place);
    let missing = || Error::Unsupported(format!("the model has no place {place}"));
    let values = values.ok_or_else(missing)?;
    let rows = values.shape.first().copied().unwrap_or(0);
    let len = values.data.len().checked_div(rows).unwrap_or(0);
    let row = values.data.get(position * len..(position + 1) * len);
    let missing = || Error::Missing(format!("there is no position {position}: there are {rows}"));
    row.filter(|_| position < rows).ok_or_else(missing)
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

fn dot(x: &[f64], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * f64::from(*y)).sum()
}
