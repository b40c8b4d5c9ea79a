//! Checks that the runtime can compute a model.

use crate::{Activation, ClassPosition, Error, Frequencies, Model, OutputHead, Placement};

/// Names that a crate of this kind cannot have, and the reason for each.
const TAKEN: [(&str, &str); 5] = [
    (
        "as break const continue crate else enum extern false fn for if impl in let loop match mod move mut pub ref return self \
         static struct super trait true type unsafe use where while async await dyn abstract become box do final gen macro \
         override priv try typeof unsized virtual yield",
        "a keyword of Rust",
    ),
    ("core std alloc test proc_macro", "a crate that comes with Rust"),
    ("deps examples build incremental", "a folder in which Cargo builds"),
    (
        "con prn aux nul com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9",
        "a device on Windows",
    ),
    (
        "regard_embed regard_kernels bytemuck cpufeatures libm proc_macro2 quote safe_arch syn thiserror thiserror_impl \
         unicode_ident wide",
        "a crate that it depends on",
    ),
];

/// `Ok` for the name of a crate.
pub(super) fn name(name: &str) -> Result<(), Error> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if !first || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Err(Error::Range(format!(
            "{name:?} is not a crate's name, which has letters, digits, - and _, and begins with a letter"
        )));
    }
    // Rust replaces - by _ in the name of a crate, and some file systems do not distinguish case.
    let written = name.to_lowercase().replace('-', "_");
    match TAKEN.iter().find(|(names, _)| names.split(' ').any(|taken| taken == written)) {
        None => Ok(()),
        Some((_, of)) => Err(Error::Range(format!(
            "{name:?} cannot be the crate's name: it is the name of {of}"
        ))),
    }
}

/// `Ok` for a model whose every part the runtime has.
pub(super) fn model(model: &Model, context: usize) -> Result<(), Error> {
    let description = model.description();
    let (embedding, stack) = (&description.embedding, &description.stack);
    let reads_images = embedding.patches.is_some();
    let block = &stack.block;
    let pooler = match description.head {
        OutputHead::Classes { pooler, .. } => pooler,
        _ => None,
    };
    let plain_head = matches!(
        description.head,
        OutputHead::Tokens { transform: None, scale: 1.0, softcap: None }
            | OutputHead::Classes { norm: None, .. }
    );
    let of_first =
        matches!(description.head, OutputHead::Classes { position: ClassPosition::First, .. });
    let by_length = stack.rotary.iter().any(|rotary| match rotary.scaling {
        Frequencies::Dynamic { original, .. } | Frequencies::LongRope { original, .. } => {
            context > original
        }
        Frequencies::Grid { .. } => true,
        _ => false,
    });
    let activation = [Some(block.activation), pooler].into_iter().flatten();
    let activation = { activation }.any(|activation| function(activation).is_none());
    let after = block.placement == Placement::After;
    let narrow = |window: &Option<usize>| window.is_some_and(|window| window < context);
    let parts = [
        (description.encoder.is_some() || stack.cross, "an encoder"),
        (
            embedding.patches.is_some_and(|patches| !patches.class || patches.before() != 1),
            "tokens beside the class token and the patches",
        ),
        (
            !stack.causal && !of_first,
            "attention to later tokens, and no classes that its first token tells",
        ),
        (!plain_head, "a head other than one product"),
        (embedding.types > 0 && stack.causal, "types of tokens"),
        (embedding.norm.is_some() && (stack.causal || reads_images), "a norm of the embeddings"),
        (embedding.features.is_some(), "embeddings of another width"),
        (block.disentangled.is_some(), "scores of distances"),
        (stack.begins_bare, "a first layer without a norm"),
        (embedding.scale != 1.0, "scaled embeddings"),
        (after && (stack.causal || reads_images), "norms after its sublayers"),
        (!after && block.placement != Placement::Before, "norms of its sublayers' outputs"),
        (after && stack.final_norm.is_some(), "a norm after the last one"),
        (block.output_scale != 1.0, "scaled outputs of its sublayers"),
        (block.parallel, "parallel sublayers"),
        (block.qk_norm.is_some(), "norms of queries and keys"),
        (activation, "an activation other than ReLU, GELU, SiLU and tanh"),
        (stack.experts.is_some(), "experts"),
        (block.sinks, "sinks of its attention"),
        (block.softcap.is_some(), "a soft cap of its scores"),
        (stack.has_bias(), "a bias by distance"),
        (block.growth.is_some(), "queries that grow with their positions"),
        (block.clip.is_some(), "clipped queries, keys and values"),
        (stack.rotary.iter().any(|rotary| rotary.interleaved), "pairs of neighbouring features"),
        (stack.windows.iter().any(narrow), "a window that is shorter than the context"),
        (stack.turns.iter().any(|turns| *turns != stack.turns[0]), "layers that turn differently"),
        (
            by_length,
            "rotary frequencies that depend on the length of the text or on rows and columns",
        ),
    ];
    let family = &description.family;
    if let Some((_, part)) = parts.iter().find(|(has, _)| *has) {
        return Err(Error::Unsupported(format!(
            "the model ({family}) has {part}, which the embedded runtime does not compute"
        )));
    }
    let most = embedding.positions.map(|positions| positions.most());
    match most {
        _ if context == 0 => Err(Error::Range("a context has at least one token".into())),
        Some(most) if context > most => Err(Error::Range(format!(
            "a context of {context} tokens is too long: the model has positions for {most}"
        ))),
        _ => Ok(()),
    }
}

/// The name of an activation function in `regard_embed`, if the runtime computes it.
pub(super) fn function(activation: Activation) -> Option<&'static str> {
    match activation {
        Activation::Relu => Some("relu"),
        Activation::Gelu => Some("gelu"),
        Activation::GeluTanh => Some("gelu_tanh"),
        Activation::Silu => Some("silu"),
        Activation::Tanh => Some("tanh"),
        _ => None,
    }
}
