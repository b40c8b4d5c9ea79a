//! `regard embed`: writes a model as a crate for a microcontroller.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use regard_models::ImageProcessor;
use regard_models::embed::{BoardMemory, EmbedOptions, Stored, WRITTEN};

use super::calibrate;
use super::models::{open, working};
use super::parse_count;
use crate::failure::{BadInput as _, Failure};
use crate::opened;
use crate::say::tell;
use crate::whole_file::Staged;

/// Write a model as a crate for a microcontroller
///
/// The crate is `no_std` and needs no allocator: the weights are constants in flash, and `next(&mut State, token)` returns the
/// logits of the next token. The logits have the bits of the desktop, unless weights are rounded. It runs decoders whose norms
/// precede their sublayers, such as GPT-2, Llama and Qwen 2. The crate of a model that classifies images, such as vit, has
/// `classify(&mut State, image)`, and `classify_samples` for samples of 8 bits; that of an encoder that classifies texts, such as bert,
/// has `classify_tokens(&mut State, tokens)`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: regard embed story --to story --flash 1M --ram 256K --context 96")]
pub(crate) struct Args {
    #[command(flatten)]
    model: open::Args,

    /// The folder of the crate, which is created if it does not exist. Its name is the crate's name. A crate that was written
    /// by hand is not replaced
    #[arg(long, value_name = "DIR")]
    to: PathBuf,

    /// How weights are stored [default: bf16 if that changes none of them, else f32]
    #[arg(long, value_enum, value_name = "TYPE")]
    weights: Option<Weights>,

    /// The same as --weights int8
    #[arg(long, conflicts_with = "weights")]
    int8: bool,

    /// The inputs on which the ranges of int8 are measured, as the model meets them on the board: npy, npz or safetensors with
    /// `pixel_values` [n, channels, height, width] (or [n, channels, steps]) and perhaps `labels`, a folder of images (whose folders
    /// may be named as the classes), or a file with a text a line. A report says what each range clips and what int8 loses
    #[arg(long, value_name = "FILE")]
    calibrate: Option<PathBuf>,

    /// The most tokens of a text. A model of images reads the tokens of one image
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = parse_count)]
    context: usize,

    /// Leave out the texts of the tokens, for a program that prints none
    #[arg(long)]
    no_words: bool,

    /// The part's flash, such as 512K or 1M: a model that does not fit is refused
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    flash: Option<usize>,

    /// The part's RAM, such as 64K: a context that does not fit is refused
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    ram: Option<usize>,
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Weights {
    /// 4 bytes for each weight
    F32,
    /// 2 bytes for each weight, widened in registers
    Bf16,
    /// A byte for each weight, with a scale for each output; everything is computed in integers
    Int8,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let to = &args.to;
    let name = to.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| anyhow!("{} does not end with a crate's name", to.display()));
    let weights = if args.int8 { Some(Weights::Int8) } else { args.weights };
    let mut options = EmbedOptions::new(name.bad_input()?, args.context);
    options.words = !args.no_words;
    options.part = BoardMemory { flash: args.flash, ram: args.ram };
    options.stored = weights.map(|weights| match weights {
        Weights::F32 => Stored::F32,
        Weights::Bf16 => Stored::Bf16,
        Weights::Int8 => Stored::Int8,
    });
    check(to).bad_input()?;
    let (checkpoint, model) = args.model.open()?;
    if options.stored == Some(Stored::Int8)
        && let Some(fault) = checkpoint.not_finite().bad_input()?
    {
        return Err(fault).context("no integer stands for it").bad_input();
    }
    if model.description().embedding.patches.is_some() {
        options.samples = ImageProcessor::given(&checkpoint, model.description()).bad_input()?;
    }
    if let Some(path) = &args.calibrate {
        if options.stored != Some(Stored::Int8) {
            return Err(anyhow!("--calibrate measures the ranges of --weights int8")).bad_input();
        }
        calibrate::read(path, &checkpoint, &model, &mut options).bad_input()?;
    }
    let embedded = working("embedding", || model.embed(&options))
        .with_context(|| args.model.name())
        .bad_input()?;
    let files = || embedded.files.iter().map(|(path, bytes)| (to.join(path), bytes));
    if let Some(input) = files().find_map(|(path, _)| opened::same_as(&path)) {
        let input = input.display();
        return Err(anyhow!(
            "{input} is read, and the crate would overwrite it; choose another folder with --to"
        ))
        .bad_input();
    }
    write(to, files())?;
    if let Some(calibration) = &embedded.calibration {
        calibrate::report(calibration).lines().for_each(|line| tell(format_args!("{line}")));
    }
    let (flash, ram) = (embedded.flash, embedded.ram);
    let words = match embedded.words {
        0 => String::new(),
        words => format!(" and {words} of the tokens' texts"),
    };
    let (to, stored, context) = (to.display(), embedded.stored, embedded.context);
    tell(format_args!(
        "wrote {to}: {flash} bytes of weights in flash ({stored}){words}; at most {ram} bytes of RAM for {context} tokens"
    ));
    Ok(())
}

/// Writes the files of a crate: all of them or none.
fn write<'b>(to: &Path, files: impl Iterator<Item = (PathBuf, &'b Vec<u8>)>) -> anyhow::Result<()> {
    let folders = to.join("src");
    let new: Vec<&Path> = folders.ancestors().filter(|folder| !folder.exists()).collect();
    let staged: anyhow::Result<Vec<_>> = files
        .map(|(path, bytes)| {
            let writing = || format!("writing {}", path.display());
            fs::create_dir_all(path.parent().unwrap_or(to)).with_context(writing)?;
            Staged::new(&path, bytes).with_context(writing)
        })
        .collect();
    let staged =
        staged.inspect_err(|_| new.iter().for_each(|folder| drop(fs::remove_dir(folder))))?;
    let writing = || format!("writing {}", to.display());
    staged.into_iter().try_for_each(Staged::put).with_context(writing)
}

/// Refuses a folder with a crate that no earlier run has written.
fn check(folder: &Path) -> anyhow::Result<()> {
    let library = folder.join("src/lib.rs");
    let ours = || fs::read_to_string(&library).is_ok_and(|text| text.contains(WRITTEN));
    let taken = [folder.join("Cargo.toml"), library.clone()].into_iter().find(|path| path.exists());
    match taken.filter(|_| !ours()) {
        Some(path) => Err(anyhow!(
            "{} belongs to a crate that `regard embed` did not write; choose another folder with --to",
            path.display()
        )),
        None => Ok(()),
    }
}

/// A number of bytes: 262144, 256K or 1M.
fn parse_bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((end, 'k' | 'K')) => (&text[..end], 10),
        Some((end, 'm' | 'M')) => (&text[..end], 20),
        _ => (text, 0),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| "a number of bytes is needed, as 262144, 256K or 1M".to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_read_with_their_unit() {
        for (text, bytes) in [("0", Some(0)), ("262144", Some(262_144)), ("256K", Some(262_144))] {
            assert_eq!(super::parse_bytes(text).ok(), bytes, "{text}");
        }
        assert_eq!(super::parse_bytes("1M"), Ok(1 << 20));
        for text in ["", "K", "1G", "-1", "1.5M", "99999999999999999999M", "é"] {
            assert!(super::parse_bytes(text).is_err(), "{text}");
        }
    }
}
