//! The parts of models of images: the tokens before the patches, their positions, and what reads the whole image.

use regard::{Linear, Norm, Sequences};

use super::linear::UnpackedLinear;
use super::{FeedForward, Loader};
use crate::{ClassPosition, Cubic, Error, OutputHead, Patches, Stack, Tensor};

/// A learned query that attends to all patches, and the feed-forward layer after it (SigLIP).
#[derive(Debug)]
pub(crate) struct Probe {
    /// Its queries \[width\].
    pub(crate) query: Vec<f32>,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    pub(crate) out: Linear,
    pub(crate) norm: Norm,
    pub(crate) feed_forward: FeedForward,
}

impl Loader<'_> {
    /// The vectors \[tokens, width\] of the tokens before the patches.
    pub(super) fn before_patches(&self, patches: &Patches) -> Result<Option<Tensor>, Error> {
        let (names, width) = (&self.names, self.description.width);
        let parts = [
            (usize::from(patches.class), &names.types),
            (usize::from(patches.distilled), &names.distillation),
            (patches.registers, &names.registers),
        ];
        let mut all = Vec::new();
        for (rows, name) in parts.into_iter().filter(|(rows, _)| *rows > 0) {
            all.extend(self.rows_of(&self.full(name), [rows, width])?.to_f32());
        }
        let rows = if self.checks { 0 } else { patches.before() };
        Ok((rows > 0).then(|| Tensor::of_numbers(all, vec![rows, width])))
    }

    /// The vectors \[tokens, width\] of positions. Those of registers are 0, and those of another grid are resized.
    pub(super) fn positions_of_patches(&self, patches: &Patches) -> Result<Tensor, Error> {
        let (name, width) = (self.full(&self.names.positions), self.description.width);
        let before = patches.before() - patches.registers;
        let (from, cubic) = patches.resized_from.unwrap_or_else(|| (patches.grid(), Cubic::Sharp));
        let table = self.rows_of(&name, [before + from[0] * from[1], width])?;
        if self.checks || patches.registers == 0 && from == patches.grid() {
            return Ok(table);
        }
        let (tokens, most) = (patches.tokens(), self.most_bytes() / 4);
        if (tokens as u64).saturating_mul(width as u64) > most {
            let what = format!("would have {tokens} rows, which are too many for the file");
            return Err(Error::tensor(self.checkpoint.path(), &name, what));
        }
        let mut all = table.to_f32();
        let own = all.split_off(before * width);
        all.resize(patches.before() * width, 0.0);
        all.extend(resized(&own, from, patches.grid(), cubic));
        Ok(Tensor::of_numbers(all, vec![patches.tokens(), width]))
    }

    /// A table that a file may have with one dimension, two or three, as a weight or under its bare name.
    fn rows_of(&self, name: &str, [rows, width]: [usize; 2]) -> Result<Tensor, Error> {
        let kind = self.kind(name);
        let found = self.found(name, kind).and_then(|name| self.checkpoint.shape(&name));
        let shape = match found.map_or(3, |shape| shape.len()) {
            1 if rows == 1 => vec![width],
            2 => vec![rows, width],
            _ => vec![1, rows, width],
        };
        let table = self.tensor(name, kind, &shape)?;
        // One that is checked alone has no numbers.
        Ok(if self.checks { table } else { table.reshaped(vec![rows, width]) })
    }

    /// The linear layer of a vector of the whole input, if the file has it.
    pub(super) fn pooled(&self) -> Result<Option<Linear>, Error> {
        let name = &self.full(&self.names.pooled);
        let name = if self.found(name, "weight").is_some() { name } else { &self.names.pooled };
        // The vector of a sentence is a state or the mean of all states, without BERT's pooler.
        if let OutputHead::Pooled {
            position: ClassPosition::Mean | ClassPosition::First,
            norm: None,
            activation: None,
        } = self.description.head
        {
            self.note(name, "weight");
            self.note(name, "bias");
            return Ok(None);
        }
        let shape = self.found(name, "weight").and_then(|name| self.checkpoint.shape(&name));
        let Some([outputs, _]) = shape else { return Ok(None) };
        self.linear(name, [*outputs, self.description.width], true).map(Some)
    }

    /// The mean of the logits of two heads: half of each, side by side.
    pub(super) fn two_classes(&self) -> Result<Linear, Error> {
        let (names, width) = (&self.names.two_classes, self.description.width);
        let shape = self.found(&names[0], "weight").and_then(|name| self.checkpoint.shape(&name));
        let classes = shape.and_then(|shape| shape.first().copied()).unwrap_or(0);
        let mut halves = Vec::new();
        let mut bias = vec![0.0; classes];
        for name in names {
            halves.push(self.table(name, &[classes, width])?.to_f32());
            let own = self.bias(name, classes)?.unwrap_or_else(|| vec![0.0; classes]);
            bias.iter_mut().zip(own).for_each(|(bias, own)| *bias += 0.5 * own);
        }
        let row = |half: &Vec<f32>, class: usize| {
            let row = half.get(class * width..(class + 1) * width).unwrap_or_default();
            row.iter().map(|x| 0.5 * x).collect::<Vec<f32>>()
        };
        let all =
            (0..classes).flat_map(|class| halves.iter().flat_map(move |half| row(half, class)));
        let columns = if self.checks { 0 } else { 2 * width };
        let weight = Tensor::of_numbers(all.collect(), vec![classes, columns]);
        self.layer(&names[0], UnpackedLinear::new(weight, false, Some(bias)))
    }

    /// The query that reads the whole image, with its attention and its feed-forward layer.
    pub(super) fn probe(&self, stack: &Stack) -> Result<Probe, Error> {
        let (width, hidden) = (self.description.width, stack.block.hidden);
        let names = self.names.probe.each_ref().map(|name| self.full(name));
        let [probe, weight, bias, out, norm, up, down] = &names;
        let all = UnpackedLinear::new(
            self.plain_table(weight, &[3 * width, width])?,
            false,
            Some(self.plain_table(bias, &[3 * width])?.to_f32()),
        );
        let part = |part: usize| {
            let rows: Vec<usize> = (part * width..(part + 1) * width).collect();
            self.layer(weight, self.memory(weight, all.select(&rows))?)
        };
        let mut query = self.rows_of(probe, [1, width])?.to_f32();
        if !self.checks {
            query =
                part(0)?.forward(Sequences::new("the query", &query, [1, 1, width])?)?.into_vec();
        }
        Ok(Probe {
            query,
            key: part(1)?,
            value: part(2)?,
            out: self.linear(out, [width, width], true)?,
            norm: self.norm(norm, stack.block.norm, width)?,
            feed_forward: FeedForward {
                gate: None,
                up: self.linear(up, [hidden, width], true)?,
                down: self.linear(down, [width, hidden], true)?,
            },
        })
    }
}

/// A table \[rows · columns, width\] for another grid: cubic convolution (Keys 1981) along the rows and along the columns, as
/// `torch.nn.functional.interpolate` computes it, in f64.
fn resized(table: &[f32], from: [usize; 2], to: [usize; 2], cubic: Cubic) -> Vec<f32> {
    let width = table.len() / (from[0] * from[1]).max(1);
    let [rows, columns] = [0, 1].map(|axis| taps(from[axis], to[axis], cubic));
    let mut out = Vec::with_capacity(to[0] * to[1] * width);
    for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)))
    {
        let mut sums = vec![0.0; width];
        for ((i, y), (j, x)) in
            row.iter().flat_map(|tap| column.iter().map(move |other| (tap, other)))
        {
            let at = (i * from[1] + j) * width;
            sums.iter_mut()
                .zip(&table[at..at + width])
                .for_each(|(sum, z)| *sum += y * x * f64::from(*z));
        }
        out.extend(sums.into_iter().map(|sum| sum as f32));
    }
    out
}

/// For each of `to` places, the places between 0 and `from` that it reads, with their weights.
fn taps(from: usize, to: usize, cubic: Cubic) -> Vec<Vec<(usize, f64)>> {
    let scale = from as f64 / to as f64;
    let (a, stretch) = match cubic {
        Cubic::Sharp => (-0.75, 1.0),
        Cubic::Smooth => (-0.5, scale.max(1.0)),
    };
    let curve = |x: f64| match x.abs() {
        x if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        x if x < 2.0 => a * (((x - 5.0) * x + 8.0) * x - 4.0),
        _ => 0.0,
    };
    let place = |i: usize| {
        let centre = (i as f64 + 0.5) * scale;
        let ends = [-1.0, 1.0].map(|side| (centre + side * 2.0 * stretch).floor() as i64);
        let last = from as i64 - 1;
        let taps = (ends[0]..=ends[1]).filter_map(|j| {
            // Beyond the edge a sharp curve reads the edge, and a smooth one nothing.
            let inside = j.clamp(0, last);
            let weight = curve((j as f64 + 0.5 - centre) / stretch);
            (weight != 0.0 && (cubic == Cubic::Sharp || inside == j))
                .then_some((inside as usize, weight))
        });
        let taps: Vec<(usize, f64)> = taps.collect();
        let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
        taps.into_iter().map(|(j, weight)| (j, weight / sum)).collect()
    };
    (0..to).map(place).collect()
}
