//! The source of the crate.

use core::fmt::Write as _;

use super::{EmbedOptions, fit};
use crate::{ImageProcessor, Model, Patches};

/// The parts of the source that differ between the kinds of numbers.
#[derive(Debug)]
pub(super) struct Content {
    /// The imports from `regard_embed`.
    pub(super) imports: &'static str,
    /// The type of the numbers, and the module of `regard_embed` that has the scratch memory's length.
    pub(super) numbers: (&'static str, &'static str),
    /// The type of a logit, and its unit.
    pub(super) logit: (&'static str, String),
    pub(super) tables: Vec<Table>,
    /// The functions that the parts of the model call.
    pub(super) functions: String,
    pub(super) parts: Parts,
}

/// A constant that a file holds.
#[derive(Debug)]
pub(super) struct Table {
    name: &'static str,
    /// The type with the place of the numbers, and how they are read.
    kind: String,
    value: String,
    is_aligned: bool,
    file: &'static str,
    pub(super) bytes: Vec<u8>,
}

impl Table {
    /// A table of numbers of this type, in a file of the folder `src`.
    pub(super) fn new(
        name: &'static str,
        file: &'static str,
        number: &str,
        is_aligned: bool,
        bytes: Vec<u8>,
    ) -> Self {
        let size = number.trim_start_matches(char::is_alphabetic).parse().unwrap_or(8);
        let count = 8 * bytes.len() / size;
        let included = file.trim_start_matches("src/");
        let mut kind = format!("[{number}; {count}]");
        let mut value = format!("regard_embed::numbers(*include_bytes!({included:?}))");
        if is_aligned {
            (kind, value) = (format!("Aligned<{kind}>"), format!("Aligned({value})"));
        }
        Self { name, kind, value, is_aligned, file, bytes }
    }

    fn source(&self) -> String {
        let Self { name, kind, value, .. } = self;
        format!("static {name}: {kind} = {value};\n")
    }

    /// The bytes of the table, as an expression.
    fn size(&self) -> String {
        format!("size_of_val(&{}{})", self.name, if self.is_aligned { ".0" } else { "" })
    }
}

/// The fields of the model, as expressions.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The layer that turns tokens or patches into the residual stream.
    pub(super) input: String,
    pub(super) layers: String,
    pub(super) norm: String,
    /// `None`, or the features before the head.
    pub(super) pooler: String,
    pub(super) head: String,
}

/// The input of a decoder, and a part of that of an encoder of texts.
pub(super) fn input_of_tokens(embedding: &str, positions: &str, rotary: &str) -> String {
    format!(
        "regard_embed::Tokens {{ embedding: {embedding}, positions: {positions}, rotary: {rotary} }}"
    )
}

/// The input of an encoder of texts, which adds the vector `kind` to each token.
pub(super) fn input_of_text(tokens: &str, kind: &str, norm: &str) -> String {
    format!("regard_embed::Text {{ tokens: {tokens}, kind: {kind}, norm: {norm} }}")
}

/// The channels, height and width of an image, and the height and width of a patch.
pub(super) fn sizes(patches: &Patches) -> ([usize; 3], [usize; 2]) {
    let Patches { channels, height, width, patch_height, patch_width, .. } = *patches;
    ([channels, height, width], [patch_height, patch_width])
}

/// The input of a model of images. `samples` says how 8-bit samples become numbers.
pub(super) fn input_of_image(
    patches: &Patches,
    scales: &[f32],
    projection: &str,
    positions: &str,
    samples: Option<&ImageProcessor>,
) -> String {
    let (size, patch) = sizes(patches);
    let samples = samples.map(ImageProcessor::channels).unwrap_or_default();
    format!(
        "regard_embed::Image {{
        size: {size:?},
        patch: {patch:?},
        scales: &{scales:?},
        projection: {projection},
        positions: {positions},
        samples: &{samples:?},
    }}"
    )
}

/// The features before a product.
pub(super) fn hidden(gate: Option<String>, up: &str, activation: &str) -> String {
    format!("Hidden {{ gate: {}, up: {up}, activation: {activation} }}", option(gate))
}

pub(super) fn layer(fields: [(&str, String); 10]) -> String {
    let fields = fields.map(|(name, value)| format!("            {name}: {value},\n"));
    format!("        Layer {{\n{}        }},\n", fields.concat())
}

/// Adds numbers to a table. Returns the expression of their place, which begins with `function`.
pub(super) fn place<T: Copy>(function: &str, table: &mut Vec<T>, numbers: &[T]) -> String {
    let start = table.len();
    table.extend(numbers);
    format!("{function}{start}, {})", numbers.len())
}

/// The rotary positions: `angles` has the cosines and the sines.
pub(super) fn rotary(name: &str, features: usize, [cos, sin]: [String; 2]) -> String {
    format!("{name} {{ features: {features}, cos: {cos}, sin: {sin} }}")
}

/// An expression that may be missing.
pub(super) fn option(value: Option<String>) -> String {
    value.map_or_else(|| "None".into(), |value| format!("Some({value})"))
}

/// The files with their paths in the crate's folder.
pub(super) fn files(
    model: &Model,
    content: Content,
    options: &EmbedOptions,
    context: usize,
    [flash, ram]: [usize; 2],
) -> Vec<(&'static str, Vec<u8>)> {
    let name = &options.name;
    let mut files = vec![
        ("Cargo.toml", manifest(name).into_bytes()),
        ("src/lib.rs", library(model, options, [flash, ram]).into_bytes()),
        ("src/model.rs", source(model, &content, options, context, [flash, ram]).into_bytes()),
    ];
    files.extend(
        tokens(model).filter(|_| options.words).map(|text| ("src/tokens.rs", text.into_bytes())),
    );
    files.extend(content.tables.into_iter().map(|table| (table.file, table.bytes)));
    files
}

/// The words in `src/lib.rs` that mark a crate which another run may replace.
pub const WRITTEN: &str = "Written by `regard embed`";

fn manifest(name: &str) -> String {
    let (version, repository) = (env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_REPOSITORY"));
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nregard-embed = \"{version}\"\n\n\
         # No registry has these crates yet. A program that depends on this crate needs the same lines.\n\
         [patch.crates-io]\n\
         regard-embed = {{ git = \"{repository}\" }}\n\
         regard-kernels = {{ git = \"{repository}\" }}\n"
    )
}

fn library(model: &Model, options: &EmbedOptions, [flash, ram]: [usize; 2]) -> String {
    let description = model.description();
    let (stack, block) = (&description.stack, &description.stack.block);
    let (family, layers, heads) = (&description.family, stack.layers(), block.heads);
    let (name, has_words) = (&options.name, options.words && model.tokenizer().is_some());
    let tokens = if has_words { "include!(\"tokens.rs\");\n" } else { "" };
    format!(
        "//! The model `{name}` ({family}, {layers} layers of {heads} heads) as constants: {flash} bytes of flash, and at most {ram} bytes of RAM\n\
         //! for the state. {WRITTEN}; another run replaces it.\n\
         #![no_std]\n\
         #![forbid(unsafe_code)]\n\n\
         include!(\"model.rs\");\n{tokens}"
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

/// The functions that classify an image.
fn classify(patches: &Patches, logit: &str, has_samples: bool) -> String {
    let Patches { channels, height, width, .. } = patches;
    let inputs = channels * height * width;
    let function = |name: &str, number: &str, what: &str| {
        format!(
            "
/// Reads an image [{channels}, {height}, {width}] of {what}, and gives the logits of the classes that [`LABELS`] names.
///
/// # Errors
/// [`Error::Shape`] if there are not [`INPUTS`] of them.
pub fn {name}<'s>(state: &'s mut State, image: &[{number}]) -> Result<&'s [{logit}; CLASSES], Error> {{
    state.{name}(image)
}}
"
        )
    };
    let samples = if has_samples {
        function("classify_samples", "u8", "8-bit samples")
    } else {
        String::new()
    };
    format!(
        "\
/// The numbers of an image.
pub const INPUTS: usize = {inputs};
{}{samples}",
        function("classify", "f32", "numbers as the model was trained on")
    )
}

/// The function that classifies a text.
fn classify_tokens(vocabulary: usize, logit: &str) -> String {
    format!(
        "\
/// The number of tokens.
pub const VOCABULARY: usize = {vocabulary};

/// Reads a text, with the tokens that begin and end it, and gives the logits of the classes that [`LABELS`] names.
///
/// # Errors
/// [`Error::Token`] if a token is not in the vocabulary, [`Error::Context`] if there are more than [`CONTEXT`] of them,
/// [`Error::Shape`] if there is none.
pub fn classify_tokens<'s>(state: &'s mut State, tokens: &[usize]) -> Result<&'s [{logit}; CLASSES], Error> {{
    state.classify_tokens(tokens)
}}
"
    )
}

/// The function that reads a token of a decoder.
fn next(vocabulary: usize, logit: &str, outputs: &str, of: &str) -> String {
    format!(
        "\
/// The number of tokens.
pub const VOCABULARY: usize = {vocabulary};

/// Reads a token, and gives the logits of {of}.
///
/// # Errors
/// [`Error::Token`] if the token is not in the vocabulary, [`Error::Context`] if the state is full.
pub fn next(state: &mut State, token: usize) -> Result<&[{logit}; {outputs}], Error> {{
    state.next(token)
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

fn source(
    model: &Model,
    content: &Content,
    options: &EmbedOptions,
    context: usize,
    [flash, ram]: [usize; 2],
) -> String {
    let (shape, description) = (fit::shape(model, context), model.description());
    let Content {
        imports,
        numbers: (numbers, module),
        logit: (logit, unit),
        tables,
        functions,
        parts: Parts { input, layers, norm, pooler, head },
    } = content;
    let patches = description.embedding.patches;
    let input_type = match patches {
        Some(_) => format!("regard_embed::Image<'static, {numbers}>"),
        None if shape.encoder => format!("regard_embed::Text<'static, {numbers}>"),
        None => format!("regard_embed::Tokens<'static, {numbers}>"),
    };
    let sizes = tables.iter().map(Table::size).collect::<Vec<_>>().join(" + ");
    let tables: String = tables.iter().map(Table::source).collect();
    let (classes, outputs, of) = outputs(model);
    let functions_of_state = match patches {
        Some(patches) => classify(&patches, logit, options.samples.is_some()),
        None if shape.encoder => classify_tokens(description.vocabulary, logit),
        None => next(description.vocabulary, logit, outputs, of),
    };
    format!(
        "\
use regard_embed::{{{imports}}};

/// The sizes of the model.
pub const SHAPE: ModelShape = {shape:#?};
/// The most tokens of a text, or the tokens of an image.
pub const CONTEXT: usize = SHAPE.context;
{classes}/// One unit of a logit.
pub const UNIT: f32 = {unit};
/// The bytes of weights and tables in flash.
pub const FLASH: usize = {sizes};
/// The bytes of a [`State`] in RAM.
pub const RAM: usize = size_of::<State>();

const _: () = assert!(FLASH == {flash});
// The memory that was promised for a microcontroller.
#[cfg(target_os = \"none\")]
const _: () = assert!(RAM <= {ram});

/// The memory of the model.
pub type State = regard_embed::State<Constants, {{ SHAPE.narrow() }}, {{ SHAPE.wide(SCRATCH) }}>;

/// The constants of the model.
#[derive(Clone, Copy, Debug)]
pub struct Constants;

impl Model for Constants {{
    type Numbers = {numbers};
    type Input = {input_type};
    const SHAPE: ModelShape = SHAPE;

    fn weights() -> &'static Weights<'static, {numbers}, Self::Input> {{
        &MODEL
    }}
}}

const SCRATCH: usize = {module}::attention_scratch_len(SHAPE.block(), CONTEXT, SHAPE.head_size, SHAPE.head_size);

{functions_of_state}
{tables}
{functions}
static MODEL: Weights<'static, {numbers}, {input_type}> = Weights {{
    input: {input},
    layers: &[
{layers}    ],
    norm: {norm},
    pooler: {pooler},
    head: {head},
}};
"
    )
}
