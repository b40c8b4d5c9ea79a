//! The weights of a model, in the type of the file, and in one layout for all families.

mod experts;
mod linear;
mod names;
mod patches;

use core::iter::once;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use regard::{Embedding as Table, Linear, Norm, Sequences, Threads};

pub(crate) use self::experts::{FeedForward, FeedForwards};
use self::linear::UnpackedLinear;
pub(crate) use self::names::unknown;
use self::names::{AttentionNames, LayerNames, Layout, Names};
pub(crate) use self::patches::Probe;
use crate::read::{Beside, Settings};
use crate::{
    Block, Checkpoint, ClassPosition, Description, Error, Frames, Frequencies, LearnedPositions,
    NormKind, NormSettings, NumberFormat, OutputHead, Placement, QkNorm, Stack, StackName, Tensor,
};

#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) tokens: TokenEmbedding,
    /// \[positions, width\]
    pub(crate) positions: Option<Tensor>,
    /// \[types, width\]; of a model of images, the tokens before its patches.
    pub(crate) types: Option<Tensor>,
    pub(crate) embedding_norm: Option<Norm>,
    /// The positions and the norm of the encoder's tokens.
    pub(crate) encoder_positions: Option<Tensor>,
    pub(crate) encoder_embedding_norm: Option<Norm>,
    /// From the features of the tables to the width.
    pub(crate) projection: Option<Linear>,
    pub(crate) frames: Option<Convolutions>,
    pub(crate) encoder: Option<StackWeights>,
    pub(crate) stack: StackWeights,
    pub(crate) transform: Option<(Linear, Norm)>,
    /// The query that reads a vector of a whole image.
    pub(crate) probe: Option<Probe>,
    /// The linear layer before the head of a model that classifies, or after which a vector of the whole input is read.
    pub(crate) pooler: Option<Linear>,
    pub(crate) pooler_norm: Option<Norm>,
    pub(crate) head: Option<Linear>,
    /// The divisors of [`Frequencies::Stored`].
    pub(crate) divisors: Option<Vec<f32>>,
    /// The tensors of the checkpoint that the model does not use.
    pub(crate) unused: Vec<String>,
}

/// Turns an input into the residual stream.
#[derive(Debug)]
pub(crate) enum TokenEmbedding {
    /// A table \[vocabulary, width\].
    Rows(Tensor),
    /// The table of a model whose head has the same matrix. It is in memory once.
    Tied(Table),
    /// The projection of an image's patches.
    Patches(Linear),
}

/// The layers that turn frames of sound into an encoder's stream.
#[derive(Debug)]
pub(crate) struct Convolutions {
    /// Each layer reads the numbers \[channels, 3\] of three frames.
    pub(crate) layers: [Linear; 2],
    /// \[positions, width\]
    pub(crate) positions: Tensor,
}

#[derive(Debug)]
pub(crate) struct StackWeights {
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Option<Norm>,
    /// \[buckets, heads\]
    pub(crate) relative: Option<Vec<f32>>,
    /// The rows of distances of [`Disentangled`](crate::Disentangled), after their norm: \[rows, width\].
    pub(crate) distances: Option<Vec<f32>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The norms before both sublayers, or after both sums.
    pub(crate) norm_1: Option<Norm>,
    pub(crate) norm_2: Option<Norm>,
    /// The norms of both sublayers' outputs.
    pub(crate) after: Option<(Norm, Norm)>,
    pub(crate) attention: AttentionWeights,
    pub(crate) cross: Option<(Norm, AttentionWeights)>,
    pub(crate) feed_forward: FeedForwards,
}

#[derive(Clone, Debug)]
pub(crate) struct AttentionWeights {
    pub(crate) q: Linear,
    pub(crate) k: Linear,
    pub(crate) v: Linear,
    pub(crate) out: Linear,
    /// The norms of queries and keys.
    pub(crate) qk_norm: Option<(Norm, Norm)>,
    /// The layers of the keys and of the queries of distances.
    pub(crate) of_positions: [Option<Linear>; 2],
    /// The score of each query head's sink.
    pub(crate) sinks: Option<Vec<f32>>,
}

impl Weights {
    /// The bytes of the weights by which each token of the stack is multiplied.
    pub(crate) fn product_bytes(&self) -> usize {
        let of_layer = |layer: &Layer| {
            let AttentionWeights { q, k, v, out, .. } = &layer.attention;
            let attention = [q, k, v, out].map(Linear::weight_bytes).into_iter().sum::<usize>();
            let cross = layer
                .cross
                .as_ref()
                .map_or(0, |(_, cross)| cross.q.weight_bytes() + cross.out.weight_bytes());
            attention + cross + layer.feed_forward.product_bytes()
        };
        let head = self.head.as_ref().map_or(0, Linear::weight_bytes);
        self.stack.layers.iter().map(of_layer).sum::<usize>() + head
    }
}

/// A part of a model that has a name of its own.
pub(crate) enum Parameter<'w> {
    Linear(&'w Linear),
    Norm(&'w Norm),
    Table(&'w Tensor),
}

impl Weights {
    /// The part of this name, as [`Model::parameter`](crate::Model::parameter) lists them.
    pub(crate) fn part(&self, name: &str) -> Option<Parameter<'_>> {
        let own = if self.encoder.is_some() { StackName::Decoder } else { StackName::Only };
        let encoder = self.encoder.as_ref().map(|stack| (StackName::Encoder, stack));
        for (of, stack) in encoder.into_iter().chain([(own, &self.stack)]) {
            if name == of.final_norm() {
                return stack.norm.as_ref().map(Parameter::Norm);
            }
            if let Some((layer, part)) = name
                .strip_prefix(of.name())
                .and_then(|rest| rest.strip_prefix('.')?.split_once('.'))
            {
                return stack.layers.get(layer.parse::<usize>().ok()?)?.part(part);
            }
        }
        match (name, &self.tokens) {
            ("tokens", TokenEmbedding::Rows(table)) => Some(Parameter::Table(table)),
            ("tokens", TokenEmbedding::Patches(linear)) => Some(Parameter::Linear(linear)),
            ("tokens" | "head", _) => self.head.as_ref().map(Parameter::Linear),
            ("positions", _) => self.positions.as_ref().map(Parameter::Table),
            _ => None,
        }
    }
}

impl Layer {
    fn part(&self, name: &str) -> Option<Parameter<'_>> {
        let norm = match (name, &self.cross, &self.after) {
            ("ln1", ..) => self.norm_1.as_ref(),
            ("ln2", Some((norm, _)), _)
            | ("ln1_post", _, Some((norm, _)))
            | ("ln2_post", _, Some((_, norm))) => Some(norm),
            ("ln2", None, _) | ("ln3", Some(_), _) => self.norm_2.as_ref(),
            _ => None,
        };
        match (name.split_once('.'), &self.cross) {
            (None, _) => norm.map(Parameter::Norm),
            (Some(("mlp", part)), _) => self.feed_forward.part(part).map(Parameter::Linear),
            (Some(("attn", part)), _) => self.attention.part(part),
            (Some(("cross_attn", part)), Some((_, cross))) => cross.part(part),
            _ => None,
        }
    }
}

impl AttentionWeights {
    fn part(&self, name: &str) -> Option<Parameter<'_>> {
        Some(match (name, &self.qk_norm) {
            ("q", _) => Parameter::Linear(&self.q),
            ("k", _) => Parameter::Linear(&self.k),
            ("v", _) => Parameter::Linear(&self.v),
            ("out", _) => Parameter::Linear(&self.out),
            ("q_norm", Some((norm, _))) | ("k_norm", Some((_, norm))) => Parameter::Norm(norm),
            _ => return None,
        })
    }
}

/// Reads weights by their names, and records which ones have been read.
struct Loader<'a> {
    checkpoint: &'a Checkpoint,
    description: &'a Description,
    names: Names,
    used: Mutex<BTreeSet<String>>,
    /// The bytes of the layers that have been made.
    made: AtomicU64,
    /// Whether names, types and shapes are checked alone, without reading numbers. The weights are then empty.
    checks: bool,
}

impl Weights {
    /// Reads all weights that the description asks for, and checks their shapes.
    pub(crate) fn load(checkpoint: &Checkpoint, description: &Description) -> Result<Self, Error> {
        Self::with(checkpoint, description, false)
    }

    /// Checks that there are such weights, without reading their numbers. Returns the tensors that are not used.
    pub(crate) fn check(
        checkpoint: &Checkpoint,
        description: &Description,
    ) -> Result<Vec<String>, Error> {
        Ok(Self::with(checkpoint, description, true)?.unused)
    }

    fn with(
        checkpoint: &Checkpoint,
        description: &Description,
        checks: bool,
    ) -> Result<Self, Error> {
        let has = |name: &str| checkpoint.shape(name).is_some();
        let names = match checkpoint.settings() {
            Settings::Config(_) => names::hugging_face(description, has),
            Settings::Gguf(_) => names::gguf(description, has),
        };
        let names = names.ok_or_else(|| {
            let family = &description.family;
            Error::file(checkpoint.path(), format!("the family {family:?} is not known"))
        })?;
        let (used, made) = Default::default();
        let loader = Loader { checkpoint, description, names, used, made, checks };
        loader.weights().map_err(|error| match quantized(checkpoint) {
            Some(advice) => {
                let path = checkpoint.path().join(Beside::CONFIG.name());
                Error::file(&path, format!("{advice} ({error})"))
            }
            None => error,
        })
    }
}

impl Loader<'_> {
    fn weights(&self) -> Result<Weights, Error> {
        let Description { width, embedding, stack, .. } = self.description;
        let (width, names) = (*width, &self.names);
        let features = embedding.features.unwrap_or(width);
        let (tokens, types) = if let Some(patches) = &embedding.patches {
            let name = self.full(&names.tokens);
            let shape = [width, patches.channels, patches.patch_height, patches.patch_width];
            let weight = self.table(&name, &shape)?.reshaped(vec![width, patches.numbers()]);
            let bias = self.bias(&name, width)?;
            let projection = self.layer(&name, UnpackedLinear::new(weight, false, bias))?;
            (TokenEmbedding::Patches(projection), self.before_patches(patches)?)
        } else {
            let types = match embedding.types {
                0 => None,
                types => Some(self.table(&self.full(&names.types), &[types, features])?),
            };
            (self.tokens()?, types)
        };
        let name = self.full(&names.positions);
        let positions = match (embedding.positions, embedding.patches) {
            (Some(positions), None) => Some(self.positions(&name, positions, features)?),
            (Some(_), Some(patches)) => Some(self.positions_of_patches(&patches)?),
            (None, _) => None,
        };
        let of_encoder = embedding.positions.filter(|_| !names.encoder_positions.is_empty());
        let of_encoder = of_encoder.map(|positions| {
            self.positions(&self.full(&names.encoder_positions), positions, features)
        });
        let encoder = self.description.encoder.as_ref();
        let encoder =
            encoder.map(|encoder| self.stack(&names.encoder, &names.encoder_norm, encoder));
        let weights = Weights {
            encoder: encoder.transpose()?,
            stack: self.stack(&names.layer, &names.norm, stack)?,
            embedding_norm: self.embedding_norm(&names.embedding_norm)?,
            encoder_embedding_norm: match names.encoder_embedding_norm.as_str() {
                "" => None,
                name => self.embedding_norm(name)?,
            },
            encoder_positions: of_encoder.transpose()?,
            projection: match embedding.features {
                Some(features) => {
                    Some(self.linear(&self.full(&names.projection), [width, features], true)?)
                }
                None => None,
            },
            frames: embedding.frames.map(|frames| self.convolutions(frames)).transpose()?,
            transform: match self.description.head {
                OutputHead::Tokens { transform: Some((_, norm)), .. } => {
                    let (linear, name) = &names.transform;
                    let linear = self.linear(linear, [features, width], true)?;
                    Some((linear, self.norm(name, norm, features)?))
                }
                _ => None,
            },
            probe: match self.description.head {
                OutputHead::Pooled { position: ClassPosition::Probe, .. } => {
                    Some(self.probe(stack)?)
                }
                _ => None,
            },
            pooler: match self.description.head {
                OutputHead::Classes { pooler: Some(_), .. } => {
                    Some(self.linear(&names.classes.0, [width, width], true)?)
                }
                OutputHead::Pooled { .. } => self.pooled()?,
                _ => None,
            },
            pooler_norm: match self.description.head {
                OutputHead::Pooled { norm: Some(norm), .. } => {
                    Some(self.norm(&self.full(&names.pooled_norm), norm, width)?)
                }
                OutputHead::Classes { norm: Some(norm), .. } => {
                    Some(self.norm(&names.transform.1, norm, width)?)
                }
                _ => None,
            },
            head: self.head(&tokens)?,
            divisors: self.divisors()?,
            tokens,
            positions,
            types,
            unused: Vec::new(),
        };
        self.note(&self.full(&names.mask), "");
        let used = self.used();
        let unused = self.checkpoint.names().filter(|name| !used.contains(*name));
        let unused = unused.filter(|name| !names::of_images(name));
        let family = &self.description.family;
        let unused = unused.filter(|name| !crate::towers::is_of_another(name, family));
        Ok(Weights { unused: unused.map(str::to_owned).collect(), ..weights })
    }

    /// The table of learned positions.
    fn positions(
        &self,
        name: &str,
        positions: LearnedPositions,
        features: usize,
    ) -> Result<Tensor, Error> {
        let shape = [positions.count, features];
        if !positions.sines || self.found(name, "weight").is_some() {
            return self.table(name, &shape);
        }
        let numbers = (positions.count as u64).saturating_mul(features as u64);
        if numbers > self.most_bytes() / 4 {
            let what = format!("would have the shape {shape:?}, which is too large for the file");
            return Err(Error::tensor(self.checkpoint.path(), name, what));
        }
        if self.checks {
            return self.memory(name, Tensor::empty(NumberFormat::F32, &shape));
        }
        let half = features.div_ceil(2);
        let number = |t: usize, i: usize| {
            let pair = if i < half { i } else { i - half };
            let angle = t as f64 / 10_000_f64.powf((2 * pair) as f64 / features as f64);
            (if i < half { angle.sin() } else { angle.cos() }) as f32
        };
        let rows = (0..positions.count).flat_map(|t| (0..features).map(move |i| number(t, i)));
        Ok(Tensor::of_numbers(rows.collect(), shape.to_vec()))
    }

    /// The most bytes that small parts may take in memory.
    fn most_bytes(&self) -> u64 {
        self.checkpoint.bytes().saturating_mul(2).saturating_add(32 << 20)
    }

    fn embedding_norm(&self, name: &str) -> Result<Option<Norm>, Error> {
        let Description { width, embedding, .. } = self.description;
        let features = embedding.features.unwrap_or(*width);
        embedding.norm.map(|norm| self.norm(&self.full(name), norm, features)).transpose()
    }

    fn convolutions(&self, frames: Frames) -> Result<Convolutions, Error> {
        let width = self.description.width;
        let [first, second, positions] = &self.names.frames;
        let layer = |name: &str, channels| {
            let name = self.full(name);
            let weight = self.table(&name, &[width, channels, 3])?;
            let weight = weight.reshaped(vec![width, 3 * channels]);
            self.layer(&name, UnpackedLinear::new(weight, false, self.bias(&name, width)?))
        };
        Ok(Convolutions {
            layers: [layer(first, frames.bands)?, layer(second, width)?],
            positions: self.table(&self.full(positions), &[frames.positions(), width])?,
        })
    }

    /// The full name of an embedding, of a layer's tensor or of a final norm, as in the file of a model with a head.
    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.names.prefix)
    }

    /// The tokens' matrix. A file may have it only under the head's name. If the file has a head with other numbers, that head
    /// is the model's, as in transformers.
    fn tokens(&self) -> Result<TokenEmbedding, Error> {
        let Description { vocabulary, width, tied, .. } = *self.description;
        let shape = [vocabulary, self.description.embedding.features.unwrap_or(width)];
        let Names { tokens, copies, head, .. } = &self.names;
        let name = self.full(tokens);
        let there = |name: &&String| self.found(name, "weight").is_some();
        let own = once(&name).chain(copies).find(there);
        for copy in copies {
            self.note(copy, "weight");
        }
        let head = Some(head).filter(|_| tied).filter(there);
        let table = self.table(own.or(head).unwrap_or(&name), &shape)?;
        let tied = match (own, head) {
            (Some(_), Some(head)) => self.table(head, &shape)?.equals(&table),
            _ => tied,
        };
        if !tied {
            return Ok(TokenEmbedding::Rows(table));
        }
        let head = self.layer(&name, UnpackedLinear::new(table, false, None))?;
        Ok(TokenEmbedding::Tied(Table::tied_to(&head)))
    }

    fn head(&self, tokens: &TokenEmbedding) -> Result<Option<Linear>, Error> {
        let (names, vocabulary) = (&self.names, self.description.vocabulary);
        let (name, outputs, bias) = match &self.description.head {
            OutputHead::None | OutputHead::Pooled { .. } | OutputHead::Other { .. } => {
                return Ok(None);
            }
            OutputHead::Classes { position: ClassPosition::FirstTwo, .. } => {
                return self.two_classes().map(Some);
            }
            OutputHead::Tokens { .. } => {
                let mut bias = None;
                for name in &names.head_bias {
                    self.note(name, "");
                    bias = bias.or(self.vector(name, vocabulary)?);
                }
                (&names.head, vocabulary, bias)
            }
            OutputHead::Classes { .. } => {
                let name = &names.classes.1;
                let shape =
                    self.found(name, "weight").and_then(|name| self.checkpoint.shape(&name));
                let classes = shape.and_then(|shape| shape.first().copied()).unwrap_or(0);
                let bias = if names.classes_bias { self.bias(name, classes)? } else { None };
                (name, classes, bias)
            }
        };
        let head = if let TokenEmbedding::Tied(table) = tokens {
            match bias {
                Some(bias) => table.output_head().with_bias(bias)?,
                None => table.output_head(),
            }
        } else {
            let width = self.description.width;
            let inputs = match self.description.head {
                OutputHead::Tokens { .. } => self.description.embedding.features.unwrap_or(width),
                OutputHead::Classes { position: ClassPosition::FirstAndPatches, .. } => 2 * width,
                _ => width,
            };
            let weight = self.table(name, &[outputs, inputs])?;
            self.layer(name, UnpackedLinear::new(weight, false, bias))?
        };
        Ok(Some(head))
    }

    fn divisors(&self) -> Result<Option<Vec<f32>>, Error> {
        // Files with tensors for this purpose have one rotary embedding.
        let Some(rotary) = self.description.stack.rotary.first() else { return Ok(None) };
        match rotary.scaling {
            Frequencies::Stored => {
                let divisors = self.table("rope_freqs", &[rotary.features / 2])?;
                Ok(Some(divisors.to_f32()))
            }
            Frequencies::LongRope { .. } => {
                // The description already has the numbers of a GGUF file's tensors.
                self.note("rope_factors_long", "weight");
                self.note("rope_factors_short", "weight");
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn stack(&self, names: &LayerNames, norm: &str, stack: &Stack) -> Result<StackWeights, Error> {
        let block = &stack.block;
        let name = |layer: usize| {
            let start = self.full(&names.start.replace("{}", &layer.to_string()));
            move |name: &str| format!("{start}{name}")
        };
        let relative = block.relative.map(|relative| {
            let shape = [relative.buckets, block.heads];
            let table = match self.names.relative.as_str() {
                "" => name(0)(&names.relative),
                table => self.full(table),
            };
            Ok::<_, Error>(self.table(&table, &shape)?.to_f32())
        });
        let own = stack.groups.unwrap_or_else(|| stack.layers());
        // The threads work side by side, because reading waits for memory.
        let mut layers = Threads::current()
            .map(own, |layer| self.layer_of(&name(layer), names, (stack, layer)))?;
        if own < stack.layers() {
            // The clones share the memory of their products.
            let all = stack.layers();
            layers = (0..all).map(|layer| layers[layer * own / all].clone()).collect();
        }
        let distances = block.disentangled.map(|of| {
            let (table, width) = (&self.names.distances, self.description.width);
            let mut rows = self.table(&self.full(&table.0), &[2 * of.span, width])?.to_f32();
            if of.normed {
                let norm = self.norm(&self.full(&table.1), block.norm, width)?;
                if !self.checks {
                    let x =
                        Sequences::new("the rows of distances", &rows, [1, 2 * of.span, width])?;
                    rows = norm.forward(x)?.into_vec();
                }
            }
            Ok::<_, Error>(rows)
        });
        Ok(StackWeights {
            layers,
            distances: distances.transpose()?,
            norm: self.optional_norm(norm, stack.final_norm)?,
            relative: relative.transpose()?,
        })
    }

    fn layer_of(
        &self,
        name: &impl Fn(&str) -> String,
        names: &LayerNames,
        (stack, layer): (&Stack, usize),
    ) -> Result<Layer, Error> {
        let (block, width) = (&stack.block, self.description.width);
        let norm = |own: &str| match own {
            "" => plain_norm(block.norm, width),
            own => self.norm(&name(own), block.norm, width),
        };
        // Sublayers that read the same stream may read it through the same norm.
        let second = &names.norm_2;
        let shared = block.parallel && self.found(&name(second), "weight").is_none();
        let second = if shared { &names.norm_1 } else { second };
        let own = block.placement != Placement::Output;
        Ok(Layer {
            norm_1: (own && !(layer == 0 && stack.begins_bare))
                .then(|| norm(&names.norm_1))
                .transpose()?,
            norm_2: own.then(|| norm(second)).transpose()?,
            after: if block.placement.has_after() {
                Some((norm(&names.after_1)?, norm(&names.after_2)?))
            } else {
                None
            },
            attention: self.attention(name, (&names.attention, &names.scales[0]), block, width)?,
            cross: if stack.cross {
                let attention = self.attention(name, (&names.cross, ""), block, width)?;
                Some((norm(&names.cross_norm)?, attention))
            } else {
                None
            },
            feed_forward: match stack.experts_of(layer) {
                Some(experts) => self.experts(name, &names.experts, block, experts)?,
                None => FeedForwards::One(self.feed_forward(name, names, block)?),
            },
        })
    }

    /// The feed-forward layer of all tokens.
    fn feed_forward(
        &self,
        name: &impl Fn(&str) -> String,
        names: &LayerNames,
        block: &Block,
    ) -> Result<FeedForward, Error> {
        let (width, hidden, bias) = (self.description.width, block.hidden, block.biases.hidden);
        let linear = |name: &str| self.linear(name, [hidden, width], bias);
        let scales = &names.scales[1];
        let down = || self.scaled((&name(&names.down), [width, hidden]), bias, (name, scales));
        if !block.gated {
            return Ok(FeedForward { gate: None, up: linear(&name(&names.up))?, down: down()? });
        }
        let gate = name(&names.gate);
        if !names.gate_up.is_empty() && self.found(&gate, "weight").is_none() {
            let fused = name(&names.gate_up);
            let both = self.matrix(&fused, [2 * hidden, width], bias)?;
            let rows = |first| {
                let rows = both.select(&(first..first + hidden).collect::<Vec<_>>());
                self.layer(&fused, self.memory(&fused, rows)?)
            };
            return Ok(FeedForward { gate: Some(rows(0)?), up: rows(hidden)?, down: down()? });
        }
        let gate = Some(linear(&gate)?);
        Ok(FeedForward { gate, up: linear(&name(&names.up))?, down: down()? })
    }

    fn attention(
        &self,
        name: &impl Fn(&str) -> String,
        (names, scales): (&AttentionNames, &str),
        block: &Block,
        width: usize,
    ) -> Result<AttentionWeights, Error> {
        let (q_rows, kv_rows) = (block.heads * block.head_size, block.kv_heads * block.head_size);
        let fused = name(&names.qkv);
        let fused_rows = q_rows + 2 * kv_rows;
        let [q, k, v] = if !names.qkv.is_empty() && self.found(&fused, "weight").is_some() {
            let all = self.matrix(&fused, [fused_rows, width], block.biases.qkv)?;
            let part = |part: usize| {
                let rows: Vec<usize> = match self.names.layout {
                    Layout::ByHead => {
                        // The query heads that share a key/value head, then this one's key and value.
                        let shared = block.heads / block.kv_heads;
                        let heads = match part {
                            0 => 0..shared,
                            part => shared + part - 1..shared + part,
                        };
                        let row = |group: usize, head: usize| {
                            let first = (group * (shared + 2) + head) * block.head_size;
                            first..first + block.head_size
                        };
                        (0..block.kv_heads)
                            .flat_map(|group| heads.clone().flat_map(move |head| row(group, head)))
                            .collect()
                    }
                    _ => match part {
                        0 => (0..q_rows).collect(),
                        _ => (q_rows + (part - 1) * kv_rows..q_rows + part * kv_rows).collect(),
                    },
                };
                self.layer(&fused, self.memory(&fused, all.select(&rows))?)
            };
            [part(0)?, part(1)?, part(2)?]
        } else {
            let turned = |name: &str, heads| {
                let stored =
                    self.matrix(name, [heads * block.head_size, width], block.biases.qkv)?;
                if self.names.layout != Layout::Neighbours {
                    return self.layer(name, stored);
                }
                let rows = halves_of_neighbours(heads, block.head_size);
                self.layer(name, self.memory(name, stored.select(&rows))?)
            };
            let q = turned(&name(&names.q), block.heads)?;
            let k = turned(&name(&names.k), block.kv_heads)?;
            [q, k, self.linear(&name(&names.v), [kv_rows, width], block.biases.qkv)?]
        };
        let qk_norm = |(norm, part, heads): (QkNorm, &str, usize)| {
            let heads = if norm == QkNorm::Heads { heads } else { 1 };
            self.norm(&name(part), block.norm, heads * block.head_size)
        };
        let qk_norm = block.qk_norm.map(|norm| -> Result<_, Error> {
            let q = qk_norm((norm, &names.q_norm, block.heads))?;
            Ok((q, qk_norm((norm, &names.k_norm, block.kv_heads))?))
        });
        let of_positions = match block.disentangled {
            Some(of) if of.shared => [(of.to_position, &k), (of.from_position, &q)]
                .map(|(is_there, layer)| is_there.then(|| layer.clone())),
            Some(of) => {
                let layer = |is_there: bool, of: &str| {
                    is_there.then(|| self.linear(&name(of), [q_rows, width], true)).transpose()
                };
                let [key, query] = &names.of_positions;
                [layer(of.to_position, key)?, layer(of.from_position, query)?]
            }
            None => [None, None],
        };
        Ok(AttentionWeights {
            of_positions,
            q,
            k,
            v,
            out: self.scaled(
                (&name(&names.out), [width, q_rows]),
                block.biases.out,
                (name, scales),
            )?,
            sinks: if block.sinks {
                let name = name(&names.sinks);
                Some(self.tensor(&name, self.kind(&name), &[block.heads])?.to_f32())
            } else {
                None
            },
            qk_norm: qk_norm.transpose()?,
        })
    }

    /// A linear layer with these numbers of outputs and inputs, and with the bias if the file has one.
    fn linear(&self, name: &str, shape: [usize; 2], bias: bool) -> Result<Linear, Error> {
        self.layer(name, self.matrix(name, shape, bias)?)
    }

    /// A linear layer whose outputs are multiplied by factors, if the family has any.
    fn scaled(
        &self,
        (own, shape): (&str, [usize; 2]),
        bias: bool,
        (name, scales): (&impl Fn(&str) -> String, &str),
    ) -> Result<Linear, Error> {
        let stored = self.matrix(own, shape, bias)?;
        if scales.is_empty() {
            return self.layer(own, stored);
        }
        let factors = self.plain_table(&name(scales), &shape[..1])?.to_f32();
        if self.checks {
            return self.layer(own, stored);
        }
        self.layer(own, self.memory(own, stored.times(&factors))?)
    }

    /// The weight and bias of such a layer, as the file has them.
    fn matrix(
        &self,
        name: &str,
        [outputs, inputs]: [usize; 2],
        bias: bool,
    ) -> Result<UnpackedLinear, Error> {
        let by_columns = self.names.layout == Layout::Columns;
        let shape = if by_columns { [inputs, outputs] } else { [outputs, inputs] };
        let weight = self.table(name, &shape)?;
        let bias = if bias { self.bias(name, outputs)? } else { None };
        Ok(UnpackedLinear::new(weight, by_columns, bias))
    }

    /// A linear layer. Small ones take more memory than their numbers, so their sum is bounded by the size of the file.
    fn layer(&self, name: &str, stored: UnpackedLinear) -> Result<Linear, Error> {
        if self.checks {
            let outputs = stored.outputs().max(1);
            return Ok(Linear::from_pytorch(vec![0.0; outputs], [outputs, 1])?);
        }
        let refuse = |what: String| Error::tensor(self.checkpoint.path(), name, what);
        let before = self.made.fetch_add(stored.layer_bytes(), Ordering::Relaxed);
        if before > self.most_bytes() {
            let what = "is one of too many small layers: they would take more memory than twice the file and 32 MiB";
            return Err(refuse(what.to_owned()));
        }
        stored.layer().map_err(|e| refuse(format!("makes no layer: {e}")))
    }

    /// The norm of a stream before or after all layers, if there is one.
    fn optional_norm(&self, name: &str, norm: Option<NormSettings>) -> Result<Option<Norm>, Error> {
        let width = self.description.width;
        norm.map(|norm| match name {
            "" => plain_norm(norm, width),
            name => self.norm(&self.full(name), norm, width),
        })
        .transpose()
    }

    fn norm(&self, name: &str, norm: NormSettings, features: usize) -> Result<Norm, Error> {
        let mut gamma = self.table(name, &[features])?.to_f32();
        if matches!(norm.kind, NormKind::RmsPlusOne | NormKind::LayerPlusOne) {
            for x in &mut gamma {
                *x += 1.0;
            }
        }
        let made = match norm.kind {
            NormKind::Layer | NormKind::LayerPlusOne => {
                let beta = self.bias(name, features)?.unwrap_or_else(|| vec![0.0; features]);
                Norm::layer(gamma, beta, norm.epsilon)
            }
            NormKind::Rms | NormKind::RmsPlusOne => Norm::rms(gamma, norm.epsilon),
        };
        made.map_err(|e| Error::tensor(self.checkpoint.path(), name, format!("makes no norm: {e}")))
    }

    /// A weight of this shape.
    fn table(&self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        self.tensor(name, "weight", shape)
    }

    /// A table whose name ends with neither `.weight` nor `.bias`, and that may have dimensions of 1 before its rows.
    fn plain_table(&self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        self.tensor(name, "", shape)
    }

    fn bias(&self, name: &str, outputs: usize) -> Result<Option<Vec<f32>>, Error> {
        self.vector(&format!("{name}.bias"), outputs)
    }

    fn vector(&self, name: &str, len: usize) -> Result<Option<Vec<f32>>, Error> {
        let (stem, kind) = name.rsplit_once('.').unwrap_or((name, ""));
        let Some(found) = self.found(stem, kind) else { return Ok(None) };
        // Some files have it as a matrix of one row.
        let flat = self.checkpoint.shape(&found).is_none_or(|shape| shape.len() != 2);
        let shape = if flat { vec![len] } else { vec![1, len] };
        let mut numbers = self.tensor(stem, kind, &shape)?.to_f32();
        numbers.resize(len, 0.0); // a matrix that is not read has none
        Ok(Some(numbers))
    }

    fn tensor(&self, name: &str, kind: &str, shape: &[usize]) -> Result<Tensor, Error> {
        self.part(name, kind, shape, None)
    }

    /// A tensor of this shape, or an entry of it.
    fn part(
        &self,
        name: &str,
        kind: &str,
        shape: &[usize],
        entry: Option<usize>,
    ) -> Result<Tensor, Error> {
        let found = self.found(name, kind).unwrap_or_else(|| joined(name, kind));
        self.used().insert(found.clone());
        match self.checkpoint.shape(&found) {
            Some(other) if other != shape => {
                let what = format!("has the shape {other:?}, but the model needs {shape:?}");
                Err(Error::tensor(&self.checkpoint.file_of(&found), &found, what))
            }
            None => Err(self.missing(&found)),
            _ if self.checks => {
                let format = self.checkpoint.format(&found)?;
                self.memory(&found, Tensor::empty(format, &shape[usize::from(entry.is_some())..]))
            }
            _ => self.checkpoint.read_part(&found, entry),
        }
    }

    /// The error for a tensor that the file lacks. It lists those that the file has and no family knows.
    fn missing(&self, name: &str) -> Error {
        let others = unknown(self.checkpoint.names());
        let list = others.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if others.len() > 4 { " …" } else { "" };
        let what = match others.len() {
            0 => "is missing".to_owned(),
            _ => format!("is missing; no known family has the file's tensors {list}{more}"),
        };
        Error::tensor(self.checkpoint.path(), name, what)
    }

    /// Records that a tensor is used, if it exists.
    fn note(&self, name: &str, kind: &str) {
        let (name, kind) = if kind.is_empty() {
            name.rsplit_once('.').unwrap_or((name, ""))
        } else {
            (name, kind)
        };
        let found = self.found(name, kind);
        self.used().extend(found);
    }

    /// The end of the name of a tensor that safetensors files store under the bare name, and GGUF files as a weight.
    fn kind(&self, name: &str) -> &'static str {
        if self.found(name, "weight").is_some() { "weight" } else { "" }
    }

    /// The name in the file. A base model's names lack the prefix, some classes with a head call it `transformer`, and old
    /// norms call weight and bias gamma and beta.
    fn found(&self, name: &str, kind: &str) -> Option<String> {
        if name.is_empty() {
            return None;
        }
        let old = match kind {
            "weight" => "gamma",
            "bias" => "beta",
            other => other,
        };
        let base = name.strip_prefix(&self.names.prefix).unwrap_or(name);
        let stems = [name, base, &format!("transformer.{base}")];
        let names = stems.iter().flat_map(|stem| [kind, old].map(|kind| joined(stem, kind)));
        names.into_iter().find(|name| self.checkpoint.shape(name).is_some())
    }

    fn used(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of an operation on a tensor, or an error if memory has no room for it.
    fn memory<T>(&self, name: &str, made: Option<T>) -> Result<T, Error> {
        made.ok_or_else(|| Error::tensor(self.checkpoint.path(), name, "does not fit in memory"))
    }
}

/// What to run for weights that another program has quantized, if config.json says that one has.
fn quantized(checkpoint: &Checkpoint) -> Option<String> {
    let Settings::Config(config) = checkpoint.settings() else { return None };
    let method = config.get("quantization_config")?.get("quant_method")?.as_str()?;
    let folder = format!("{:?}", checkpoint.path().display().to_string());
    let write = |what: String| {
        format!(
            "write them in BF16 with transformers: AutoModelForCausalLM.from_pretrained({folder}{what}.save_pretrained(\"NEW\")"
        )
    };
    let how = match method {
        "mxfp4" => return None,
        "fp8" => write(", quantization_config=FineGrainedFP8Config(dequantize=True))".to_owned()),
        "bitsandbytes" => write(").dequantize()".to_owned()),
        _ => "open the model that they were made from, or a GGUF file of it".to_owned(),
    };
    Some(format!("the weights are quantized ({method}), which is not read: {how}"))
}

/// A norm without weights (OLMo).
fn plain_norm(norm: NormSettings, features: usize) -> Result<Norm, Error> {
    let ones = vec![1.0; features];
    Ok(match norm.kind {
        NormKind::Layer | NormKind::LayerPlusOne => {
            Norm::layer(ones, vec![0.0; features], norm.epsilon)?
        }
        NormKind::Rms | NormKind::RmsPlusOne => Norm::rms(ones, norm.epsilon)?,
    })
}

fn joined(name: &str, kind: &str) -> String {
    if kind.is_empty() { name.to_owned() } else { format!("{name}.{kind}") }
}

/// The order of a matrix's rows in a file that has pairs of a head's features as neighbours: row h·D + j·D/2 + i of the matrix
/// is row h·D + 2i + j of the file.
fn halves_of_neighbours(heads: usize, head_size: usize) -> Vec<usize> {
    let half = head_size / 2;
    let row = |head: usize, j: usize, i: usize| head * head_size + 2 * i + j;
    (0..heads)
        .flat_map(|head| (0..2).flat_map(move |j| (0..half).map(move |i| row(head, j, i))))
        .collect()
}
