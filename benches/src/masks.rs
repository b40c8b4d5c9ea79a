//! Attention under each kind of mask, on the same numbers. The first has no mask, so the ratios show a mask's cost or saving.

use core::hint::black_box;
use std::rc::Rc;

use anyhow::Result;
use regard::{Attention, Mask, MaskTensor, Position, Threads, Window, alibi_slopes};

use crate::tensors::Tensors;
use crate::{Shape, Subject, numbers};

/// The tensors that masks refer to.
struct Parts {
    /// \[queries, keys\].
    shape: [usize; 2],
    /// \[queries, keys\]: one key in four is hidden.
    allowed: Vec<bool>,
    /// \[queries, keys\].
    bias: Vec<f32>,
    /// \[batch\]: three quarters of the keys each.
    lengths: Vec<usize>,
    /// \[heads\].
    slopes: Vec<f32>,
    /// \[heads\].
    sinks: Vec<f32>,
}

type Describe = for<'a> fn(Attention<'a>, &'a Parts) -> Result<Attention<'a>>;

const KINDS: [(&str, Describe); 9] = [
    ("none", |attention, _| Ok(attention)),
    ("causal", |attention, _| Ok(attention.mask(Mask::CAUSAL))),
    ("window-128", |attention, _| {
        let window = Window { left: Some(127), right: None };
        Ok(attention.mask(Mask::CAUSAL.window(END, window)))
    }),
    ("key-length", |attention, parts| Ok(attention.mask(Mask::NONE.key_lengths(&parts.lengths)))),
    ("boolean", |attention, parts| {
        let allowed = MaskTensor::new(&parts.allowed, &parts.shape)?;
        Ok(attention.mask(Mask::NONE.allowed(allowed)))
    }),
    ("additive", |attention, parts| {
        let bias = MaskTensor::new(&parts.bias, &parts.shape)?;
        Ok(attention.mask(Mask::NONE.bias(bias)))
    }),
    ("alibi", |attention, parts| Ok(attention.mask(Mask::NONE.alibi(END, &parts.slopes)))),
    ("sink", |attention, parts| Ok(attention.sinks(&parts.sinks))),
    ("soft-cap", |attention, _| Ok(attention.softcap(30.0))),
];

/// The last query is at the position of the last key.
const END: Position = Position::BottomRight;

/// The multi-head layer under each kind of mask. The number of operations is that without a mask.
///
/// # Errors
/// If the threads cannot be started.
pub(crate) fn subjects(shape: Shape) -> Result<Vec<Subject>> {
    let Shape { batch, heads, queries, keys, .. } = shape;
    let bias = numbers(queries * keys, 0.4);
    let parts = Rc::new(Parts {
        shape: [queries, keys],
        allowed: bias.iter().map(|x| *x > -0.5).collect(),
        bias,
        lengths: vec![keys - keys / 4; batch],
        slopes: alibi_slopes(heads),
        sinks: vec![0.5; heads],
    });
    let (tensors, threads) = (Rc::new(Tensors::new(shape)), Threads::new(shape.threads)?);
    let subject = |(name, describe): (_, Describe)| {
        let (parts, tensors, threads) = (Rc::clone(&parts), Rc::clone(&tensors), threads.clone());
        let count = threads.count();
        let call = move || {
            let attention = describe(Attention::new(), black_box(&parts))?;
            let [q, k, v] = black_box(&tensors).views()?;
            black_box(threads.install(|| attention.forward(q, k, v))?);
            Ok(())
        };
        Subject::new(name, call).threads(count)
    };
    Ok(KINDS.into_iter().map(subject).collect())
}
