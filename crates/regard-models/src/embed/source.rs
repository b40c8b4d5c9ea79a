//! The source of the crate.

use core::fmt::Write as _;

use super::float::{LayerTensors, LinearTensors, Matrix, NormTensors, Tensors, Vector};
use super::{Floats, Options, fit};
use crate::{Activation, Model};

/// What distinguishes the crate of one kind of numbers from that of another.
#[derive(Debug)]
pub(super) struct Content {
    /// What the source takes from `regard_embed`.
    pub(super) imports: &'static str,
    /// The type of the numbers, and the module of `regard_embed` that has the scratch memory's length.
    pub(super) numbers: (&'static str, &'static str),
    /// The type of a logit, and one unit of it.
    pub(super) logit: (&'static str, &'static str),
    /// The bytes of all constants, as an expression.
    pub(super) sizes: &'static str,
    /// The constants and the model.
    pub(super) source: String,
    /// The files of the constants.
    pub(super) files: Vec<(&'static str, Vec<u8>)>,
}

/// The files with their paths in the crate's folder.
pub(super) fn files(
    model: &Model,
    content: Content,
    text: Option<(String, usize)>,
    options: &Options,
    [flash, ram]: [usize; 2],
) -> Vec<(&'static str, Vec<u8>)> {
    let name = &options.name;
    let words = text.as_ref().map_or(0, |(_, bytes)| *bytes);
    let mut files = vec![
        ("Cargo.toml", manifest(name).into_bytes()),
        ("src/lib.rs", library(model, name, text.is_some(), [flash, ram]).into_bytes()),
        ("src/model.rs", source(model, &content, words, options.context, flash).into_bytes()),
    ];
    files.extend(tokens(model).map(|text| ("src/tokens.rs", text.into_bytes())));
    if let Some((mut text, _)) = text {
        if model.description().classifies() {
            text += &classify(content.logit.0);
        }
        files.push(("src/text.rs", text.into_bytes()));
    }
    files.extend(content.files);
    files
}

/// The words of `src/lib.rs` by which another run knows a crate that may be replaced.
pub const WRITTEN: &str = "Written by `regard embed`";

fn manifest(name: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nregard-embed = \"{version}\"\n"
    )
}

fn library(model: &Model, name: &str, reads_text: bool, [flash, ram]: [usize; 2]) -> String {
    let description = model.description();
    let (stack, block) = (&description.stack, &description.stack.block);
    let (family, layers, heads) = (&description.family, stack.layers(), block.heads);
    let tokens = if model.tokenizer().is_some() { "include!(\"tokens.rs\");\n" } else { "" };
    let text = if reads_text { "include!(\"text.rs\");\n" } else { "" };
    format!(
        "//! The model `{name}` ({family}, {layers} layers of {heads} heads) as constants: {flash} bytes of flash, and at most {ram} bytes of RAM\n\
         //! for the state. {WRITTEN}; another run replaces it.\n\
         #![no_std]\n\
         #![forbid(unsafe_code)]\n\n\
         include!(\"model.rs\");\n{tokens}{text}"
    )
}

/// The texts of the tokens, for a program that prints them.
fn tokens(model: &Model) -> Option<String> {
    let tokenizer = model.tokenizer()?;
    let mut text =
        "/// The text of each token.\npub static TOKENS: [&str; VOCABULARY] = [\n".to_owned();
    for id in 0..u32::try_from(model.description().vocabulary).unwrap_or(u32::MAX) {
        let _ = writeln!(text, "    {:?},", tokenizer.token(id).unwrap_or_default());
    }
    text += "];\n";
    Some(text)
}

/// The function that classifies a text.
fn classify(logit: &str) -> String {
    format!(
        "
/// Reads a text, and gives the logits of the classes that [`LABELS`] names.
///
/// # Errors
/// [`Error::Context`] if the text has more than [`CONTEXT`] tokens, [`Error::Empty`] if it has none.
pub fn classify<'s>(state: &'s mut State, text: &str) -> Result<&'s [{logit}; CLASSES], Error> {{
    state.read(tokens(text))
}}
"
    )
}

/// The constants of the classes, the number of logits, and what they are of.
fn outputs(model: &Model) -> (String, &'static str, &'static str) {
    let description = model.description();
    if !description.classifies() {
        return (String::new(), "VOCABULARY", "the next one");
    }
    let classes = model.outputs();
    let name = |id: usize| description.labels.get(id).cloned().unwrap_or_else(|| id.to_string());
    let mut labels = String::new();
    for id in 0..classes {
        let _ = writeln!(labels, "    {:?},", name(id));
    }
    let constants = format!(
        "/// The number of classes.
pub const CLASSES: usize = {classes};
/// The name of each class.
pub static LABELS: [&str; CLASSES] = [
{labels}];
"
    );
    (constants, "CLASSES", "the classes of the text so far")
}

fn source(model: &Model, content: &Content, words: usize, context: usize, flash: usize) -> String {
    let (shape, vocabulary) = (fit::shape(model, context), model.description().vocabulary);
    let Content {
        imports, numbers: (numbers, module), logit: (logit, unit), sizes, source, ..
    } = content;
    let (classes, outputs, of) = outputs(model);
    let words = if words > 0 { format!(" + {words}") } else { String::new() };
    format!(
        "\
use regard_embed::{{{imports}}};

/// The sizes of the model.
pub const SHAPE: Shape = {shape:#?};
/// The most tokens of a text.
pub const CONTEXT: usize = SHAPE.context;
/// The number of tokens.
pub const VOCABULARY: usize = {vocabulary};
{classes}/// One unit of a logit.
pub const UNIT: f32 = {unit};
/// The bytes of weights, tables and words in flash.
pub const FLASH: usize = {sizes}{words};
/// The bytes of a [`State`] in RAM.
pub const RAM: usize = size_of::<State>();

const _: () = assert!(FLASH == {flash});

/// What a text has left, and memory for the next token.
pub type State = regard_embed::State<Constants, {{ SHAPE.narrow() }}, {{ SHAPE.wide(SCRATCH) }}>;

/// The constants of the model.
#[derive(Clone, Copy, Debug)]
pub struct Constants;

impl Model for Constants {{
    type Numbers = {numbers};
    const SHAPE: Shape = SHAPE;

    fn decoder() -> &'static Decoder<{numbers}> {{
        &MODEL
    }}
}}

const SCRATCH: usize = {module}::attention_scratch_len(1, CONTEXT, SHAPE.head_size, SHAPE.head_size);

/// Reads a token, and gives the logits of {of}.
///
/// # Errors
/// [`Error::Token`] if the token is not in the vocabulary, [`Error::Context`] if the state is full.
pub fn next(state: &mut State, token: usize) -> Result<&[{logit}; {outputs}], Error> {{
    state.next(token)
}}

{source}"
    )
}

/// The constants and the model of a crate in floating point.
pub(super) fn float(model: &Model, tensors: &Tensors, stored: Floats) -> Content {
    let block = &model.description().stack.block;
    let (count, matrices) = tensors.matrices(stored);
    let (vectors_count, vectors) = tensors.vectors();
    let (matrix, number, read) = match stored {
        Floats::F32 => ("F32", "f32", "f32s"),
        Floats::Bf16 => ("Bf16", "u16", "u16s"),
    };
    let activation = match block.activation {
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_tanh",
        Activation::Silu => "silu",
        // embed::check refuses these.
        _ => "",
    };
    let mut layers = String::new();
    for (index, layer) in tensors.layers.iter().enumerate() {
        layers += &of_layer(layer, block.scale_in(index), activation);
    }
    let positions = tensors.positions.map_or_else(|| "&[]".into(), vector);
    let final_norm = tensors.norm.as_ref().map_or_else(|| "Norm::Identity".into(), norm);
    let rotary = tensors.rotary.as_ref().map_or_else(
        || "None".into(),
        |r| {
            let (features, cos, sin) = (r.features, vector(r.cos), vector(r.sin));
            some(&format!(
                "regard_embed::Rotary {{ features: {features}, cos: {cos}, sin: {sin} }}"
            ))
        },
    );
    let (tokens, head) = (of_matrix(tensors.tokens), linear(&tensors.head));
    let source = format!(
        "\
#[allow(long_running_const_eval, reason = \"the compiler reads the file\")]
static MATRICES: Aligned<[{number}; {count}]> = Aligned(regard_embed::{read}(include_bytes!(\"matrices.bin\")));
#[allow(long_running_const_eval, reason = \"the compiler reads the file\")]
static VECTORS: [f32; {vectors_count}] = regard_embed::f32s(include_bytes!(\"vectors.bin\"));

/// The matrix [inputs, outputs] whose panels begin at `start`.
const fn matrix(start: usize, inputs: usize, outputs: usize) -> {matrix} {{
    let len = outputs.div_ceil(16) * 16 * inputs;
    {matrix}::new(part(&MATRICES.0, start, len), inputs, outputs)
}}

const fn vector(start: usize, len: usize) -> &'static [f32] {{
    part(&VECTORS, start, len)
}}

static MODEL: Decoder<Floats<{matrix}>> = Decoder {{
    tokens: Embedding {{ tokens: {tokens}, positions: {positions} }},
    layers: &[
{layers}    ],
    norm: {final_norm},
    head: {head},
    rotary: {rotary},
}};
"
    );
    Content {
        imports: match stored {
            Floats::F32 => {
                "Aligned, Decoder, Embedding, Error, F32, Floats, Layer, Linear, Model, Norm, Shape, part"
            }
            Floats::Bf16 => {
                "Aligned, Bf16, Decoder, Embedding, Error, Floats, Layer, Linear, Model, Norm, Shape, part"
            }
        },
        numbers: match stored {
            Floats::F32 => ("Floats<F32>", "regard_embed"),
            Floats::Bf16 => ("Floats<Bf16>", "regard_embed"),
        },
        logit: ("f32", "1.0"),
        sizes: "size_of_val(&MATRICES.0) + size_of_val(&VECTORS)",
        source,
        files: vec![("src/matrices.bin", matrices), ("src/vectors.bin", vectors)],
    }
}

fn of_layer(layer: &LayerTensors, scale: f32, activation: &str) -> String {
    let [query, key, value, output] = layer.attention.each_ref().map(linear);
    let (attention_norm, feed_forward_norm) =
        (norm(&layer.attention_norm), norm(&layer.feed_forward_norm));
    let gate = layer.gate.as_ref().map_or_else(|| "None".into(), |gate| some(&linear(gate)));
    let (up, down) = (linear(&layer.up), linear(&layer.down));
    format!(
        "        Layer {{
            attention_norm: {attention_norm},
            query: {query},
            key: {key},
            value: {value},
            attention: {scale:?},
            output: {output},
            feed_forward_norm: {feed_forward_norm},
            gate: {gate},
            up: {up},
            activation: regard_embed::{activation},
            down: {down},
        }},
"
    )
}

fn of_matrix(Matrix { start, inputs, outputs }: Matrix) -> String {
    format!("matrix({start}, {inputs}, {outputs})")
}

fn vector(Vector { start, len }: Vector) -> String {
    format!("vector({start}, {len})")
}

fn linear(layer: &LinearTensors) -> String {
    let bias = layer.bias.map_or_else(|| "None".into(), |bias| some(&vector(bias)));
    format!("Linear {{ weight: {}, bias: {bias} }}", of_matrix(layer.weight))
}

fn norm(norm: &NormTensors) -> String {
    let (gamma, epsilon) = (vector(norm.gamma), norm.epsilon);
    match norm.beta {
        Some(beta) => {
            let beta = vector(beta);
            format!("Norm::Layer {{ gamma: {gamma}, beta: {beta}, epsilon: {epsilon:?} }}")
        }
        None => format!("Norm::Rms {{ gamma: {gamma}, epsilon: {epsilon:?} }}"),
    }
}

fn some(value: &str) -> String {
    format!("Some({value})")
}
