//! Checks whether a model fits a part, and finds what would fit.

use regard_embed::ModelShape;
use regard_kernels::microcontroller;

use super::float::Tensors;
use super::{EmbedOptions, Stored, int8};
use crate::{Error, Model};

/// The memory of a microcontroller, in bytes, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct BoardMemory {
    /// Flash.
    pub flash: Option<usize>,
    /// RAM.
    pub ram: Option<usize>,
}

/// The bytes of flash that are reserved for code. An image that prints takes 36 KiB with `f32` on RV32IMAC, which emulates floating
/// point, and less on other cores; the rest is for the program.
pub(super) const CODE: usize = 40 << 10;
/// The bytes of RAM that are reserved for the stack.
pub(super) const STACK: usize = 4 << 10;

/// The sizes of a model for texts of up to `context` tokens.
pub(super) fn shape(model: &Model, context: usize) -> ModelShape {
    let description = model.description();
    let (stack, block) = (&description.stack, &description.stack.block);
    ModelShape {
        layers: stack.layers(),
        context,
        encoder: !stack.causal,
        patch: description.embedding.patches.map_or(0, |patches| patches.numbers()),
        width: description.width,
        heads: block.heads,
        kv_heads: block.kv_heads,
        head_size: block.head_size,
        hidden: block.hidden,
        outputs: model.outputs(),
    }
}

/// The bytes of the state on a Cortex-M4F or M7. Other Cortex-M and RISC-V cores need as many in floating point, and without the
/// DSP extension a few less in integers. The crate does not compile for a core that needs more.
pub(super) fn state_bytes(model: &Model, stored: Stored, context: usize) -> usize {
    /// The bytes of a word of these cores.
    const WORD: usize = 4;
    let shape = shape(model, context);
    let (queries, d) = (shape.block(), shape.head_size);
    let (narrow, scratch) = if stored == Stored::Int8 {
        (1, microcontroller::int8_attention_scratch_len(queries, context, d, d))
    } else {
        (WORD, microcontroller::attention_scratch_len(queries, context, d, d))
    };
    (WORD + WORD * shape.wide(scratch) + narrow * shape.narrow()).next_multiple_of(WORD)
}

/// The bytes of the texts of all tokens in flash: each has its address and its length.
pub(super) fn word_bytes(model: &Model) -> usize {
    let Some(tokenizer) = model.tokenizer() else { return 0 };
    let ids = 0..u32::try_from(model.description().vocabulary).unwrap_or(u32::MAX);
    ids.map(|id| 8 + tokenizer.token(id).unwrap_or_default().len()).sum()
}

/// `Ok` if the weights and the words fit the part's flash, and the state its RAM.
pub(super) fn check(
    model: &Model,
    context: usize,
    tensors: &Tensors,
    stored: Stored,
    options: &EmbedOptions,
) -> Result<(), Error> {
    let refuse = |what: String| Err(Error::Part(what));
    let kib = |bytes: usize| bytes.div_ceil(1 << 10);
    let integers = int8::check(model);
    if stored == Stored::Int8 {
        integers.as_ref().map_err(|e| Error::Unsupported(e.to_string()))?;
    }
    if let Some(flash) = options.part.flash {
        let words = word_bytes(model);
        let needed = |stored, has_words| {
            let weights = match stored {
                Stored::F32 => tensors.bytes::<f32>(),
                Stored::Bf16 => tensors.bytes::<u16>(),
                Stored::Int8 => int8::bytes(model, context),
            };
            CODE + weights + if has_words { words } else { 0 }
        };
        let all = needed(stored, options.words);
        if all > flash {
            let least = if integers.is_ok() { Stored::Int8 } else { Stored::Bf16 };
            let ways = [stored, Stored::Bf16, least].into_iter();
            let ways = [true, false]
                .into_iter()
                .flat_map(|words| ways.clone().map(move |way| (way, words)));
            let mut ways = ways.filter(|(_, words)| options.words || !words);
            let in_words = |(way, has_words)| {
                let weights = (way != stored).then(|| format!("--weights {way}"));
                let words = (has_words != options.words).then(|| "--no-words".to_owned());
                let ways: Vec<String> = weights.into_iter().chain(words).collect();
                (ways.join(" "), kib(needed(way, has_words)))
            };
            let fits = ways.find(|(way, has_words)| needed(*way, *has_words) <= flash);
            let would = if let Some(way) = fits {
                let (way, takes) = in_words(way);
                format!("{way} takes {takes} KiB and fits")
            } else {
                let (way, takes) = in_words((least, words == 0 && options.words));
                let with = if way.is_empty() { way } else { format!(", with {way}") };
                format!("the least is {takes} KiB{with}")
            };
            let of_words = if options.words && words > 0 {
                format!(" and {} for the words of the tokens", kib(words))
            } else {
                String::new()
            };
            return refuse(format!(
                "the model takes {} KiB of flash ({} KiB of them are left for code{of_words}), and the part has {} KiB; {would}",
                kib(all),
                kib(CODE),
                kib(flash)
            ));
        }
    }
    if let Some(ram) = options.part.ram {
        let needed = |stored, context| state_bytes(model, stored, context) + STACK;
        if needed(stored, context) > ram {
            let (all, stack, has) = (kib(needed(stored, context)), kib(STACK), kib(ram));
            let mut would = Vec::new();
            if stored != Stored::Int8 && integers.is_ok() && needed(Stored::Int8, context) <= ram {
                would.push(format!(
                    "--weights int8 takes {} KiB and fits",
                    kib(needed(Stored::Int8, context))
                ));
            }
            if model.description().embedding.patches.is_none() {
                would.push(
                    match (1..context).rev().find(|context| needed(stored, *context) <= ram) {
                        Some(context) => format!("--context {context} fits"),
                        None => {
                            format!("a context of 1 token takes {} KiB", kib(needed(stored, 1)))
                        }
                    },
                );
            }
            let what = format!(
                "{context} tokens take {all} KiB of RAM ({stack} KiB of them are left for the stack), and the part has {has} KiB"
            );
            would.insert(0, what);
            return refuse(would.join("; "));
        }
    }
    Ok(())
}
