//! Checks whether a model fits a part, and finds what would fit.

use regard_embed::Shape;
use regard_kernels::attention_scratch_len;

use super::float::Tensors;
use super::{Options, Stored, int8};
use crate::{Error, Model};

/// The memory of a microcontroller, in bytes, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Flash.
    pub flash: Option<usize>,
    /// RAM.
    pub ram: Option<usize>,
}

/// The bytes of flash that are reserved for code. The runtime and the kernels take less on a Cortex-M4F; the rest is for the
/// program.
pub(super) const CODE: usize = 32 << 10;
/// The bytes of RAM that are reserved for the stack.
pub(super) const STACK: usize = 4 << 10;

/// The sizes of a model for texts of up to `context` tokens.
pub(super) fn shape(model: &Model, context: usize) -> Shape {
    let description = model.description();
    let (stack, block) = (&description.stack, &description.stack.block);
    Shape {
        layers: stack.layers(),
        context,
        patch: description.embedding.patches.map_or(0, |patches| patches.numbers()),
        width: description.width,
        heads: block.heads,
        kv_heads: block.kv_heads,
        head_size: block.head_size,
        hidden: block.hidden,
        outputs: model.outputs(),
    }
}

/// An upper bound of the bytes of the state: those on this machine, which needs more scratch memory.
pub(super) fn state_bytes(model: &Model, stored: Stored, context: usize) -> usize {
    let shape = shape(model, context);
    let d = shape.head_size;
    let queries = shape.block();
    let (narrow, scratch) = if stored == Stored::Int8 {
        let here = regard_kernels::int8::attention_scratch_len(queries, context, d, d);
        // Cores with the DSP extension widen the queries.
        (1, here + queries.min(4) * d.div_ceil(4) * 2)
    } else {
        (4, attention_scratch_len(queries, context, d, d))
    };
    let bytes = size_of::<usize>() + 4 * shape.wide(scratch) + narrow * shape.narrow();
    bytes.next_multiple_of(align_of::<usize>())
}

/// `Ok` if the weights fit the part's flash, and the state its RAM.
pub(super) fn check(
    model: &Model,
    context: usize,
    tensors: &Tensors,
    stored: Stored,
    options: &Options,
) -> Result<(), Error> {
    let refuse = |what: String| Err(Error::Part(what));
    let kib = |bytes: usize| bytes.div_ceil(1 << 10);
    let integers = int8::check(model);
    if stored == Stored::Int8 {
        integers.as_ref().map_err(|e| Error::Unsupported(e.to_string()))?;
    }
    if let Some(flash) = options.part.flash {
        let needed = |stored| {
            CODE + match stored {
                Stored::F32 => tensors.bytes::<f32>(),
                Stored::Bf16 => tensors.bytes::<u16>(),
                Stored::Int8 => int8::bytes(model, context),
            }
        };
        if needed(stored) > flash {
            let (all, code, has) = (kib(needed(stored)), kib(CODE), kib(flash));
            let least = if integers.is_ok() { Stored::Int8 } else { Stored::Bf16 };
            let fits = [Stored::Bf16, least].into_iter().find(|stored| needed(*stored) <= flash);
            let smallest = kib(needed(least));
            let would = fits.map_or_else(
                || format!("the least is {smallest} KiB, with --weights {least}"),
                |fits| format!("--weights {fits} takes {} KiB and fits", kib(needed(fits))),
            );
            return refuse(format!(
                "the model takes {all} KiB of flash ({code} KiB of them are left for code), and the part has {has} KiB; {would}"
            ));
        }
    }
    if let Some(ram) = options.part.ram {
        let needed = |context| state_bytes(model, stored, context) + STACK;
        if needed(context) > ram {
            let (all, stack, has) = (kib(needed(context)), kib(STACK), kib(ram));
            let longest = (1..context).rev().find(|context| needed(*context) <= ram);
            let would = match longest {
                _ if model.description().embedding.patches.is_some() => String::new(),
                Some(context) => format!("; --context {context} fits"),
                None => format!("; a context of 1 token takes {} KiB", kib(needed(1))),
            };
            return refuse(format!(
                "{context} tokens take {all} KiB of RAM ({stack} KiB of them are left for the stack), and the part has {has} KiB{would}"
            ));
        }
    }
    Ok(())
}
