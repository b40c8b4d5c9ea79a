//! Changes of a forward pass, as options.

use core::str::FromStr;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::ArgGroup;
use regard_kernels::{Temperature, UnknownWord};
use regard_models::{
    Ablation, Change, Checkpoint, Given, HeadAddress, Input, Model, Place, Preparer, StreamPlace,
    Which,
};

use super::super::tensors::{self, TensorsOfFile};
use super::{input, numbers};
use crate::failure::{BadInput as _, Failure};

/// The changes. L is a layer and H a head, both from 0. For t5 and whisper, L is encoder.L, decoder.L or cross.L.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group(ArgGroup::new("patches").args(["patch_text", "patch_ids", "patch_file"])))]
pub(crate) struct Args {
    /// Replace a head's output by zeros, by its mean over the positions, or by its mean over those of the other text (repeatable)
    #[arg(long, value_name = "L.H[=zero|mean|other]", value_parser = parse_ablate)]
    ablate: Vec<(HeadAddress, Option<Ablation>)>,

    /// Divide a head's scores by a temperature of its own: 0 keeps the largest score alone, inf makes the weights uniform
    /// (repeatable)
    #[arg(long, value_name = "L.H=T", value_parser = parse_temperature)]
    head_temperature: Vec<Change>,

    /// Hide key J from query I in one head; positions count from 0 (repeatable)
    #[arg(long, value_name = "L.H:I,J", value_parser = parse_cut)]
    cut: Vec<Change>,

    /// Replace the residual stream that enters layer L at position POS by that of the run on another text (repeatable). cross.L
    /// is the stream that enters the cross-attention of layer L
    #[arg(long, value_name = "L.POS", value_parser = parse_patch, requires = "patches")]
    patch: Vec<HeadAddress>,

    /// Replace a head's output, at a position or at all of them, by that of the run on another text (repeatable)
    #[arg(long, value_name = "L.H[:POS]", value_parser = parse_patch_head, requires = "patches")]
    patch_head: Vec<(HeadAddress, Option<usize>)>,

    /// Add a vector to a place, at a position or at all of them (repeatable): the tensor `vector` [width] of a safetensors
    /// file. A place has TransformerLens's name, such as blocks.2.hook_resid_pre:5=happy.safetensors
    #[arg(long, value_name = "PLACE[:POS]=FILE", value_parser = parse_add)]
    add: Vec<Added>,

    #[command(flatten)]
    other: Other,
}

/// A vector in a file, and the place to which it is added.
#[derive(Clone, Debug)]
struct Added {
    place: String,
    position: Option<usize>,
    file: PathBuf,
}

/// The text from which patches are taken.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Other {
    /// The other text; for a patch, with the same number of tokens
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    patch_text: Option<String>,

    /// The ids of the other text
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    patch_ids: Option<Vec<u32>>,

    /// The other image or recording, in a file as --image or --audio reads it
    #[arg(long, value_name = "FILE")]
    patch_file: Option<PathBuf>,
}

impl Args {
    pub(crate) fn changes(
        &self,
        reading: &input::Args,
        read: &Input,
        checkpoint: &Checkpoint,
        model: &Model,
    ) -> Result<Vec<Change>, Failure> {
        let others = !self.patch.is_empty()
            || !self.patch_head.is_empty()
            || self.ablate.iter().any(|(_, to)| to.is_none());
        let Other { patch_text, patch_ids, patch_file } = &self.other;
        let given = patch_text.is_some() || patch_ids.is_some() || patch_file.is_some();
        if given && !others {
            let what = "--patch-text, --patch-ids and --patch-file are the other input of --patch, --patch-head and --ablate L.H=other";
            return Err(anyhow::anyhow!(what)).bad_input();
        }
        let from = if others {
            self.other.input(reading, read, checkpoint, model).bad_input()?
        } else {
            Input::default()
        };
        let ablate = |(head, to): &(HeadAddress, Option<Ablation>)| {
            let to = to.clone().unwrap_or_else(|| Ablation::MeanOf(from.clone()));
            Change::Ablate { head: *head, to }
        };
        let mut changes: Vec<Change> = self.ablate.iter().map(ablate).collect();
        changes.extend([&self.head_temperature, &self.cut].into_iter().flatten().cloned());
        for at in &self.patch {
            let place = entry(at);
            ensure_place(place, at, model).bad_input()?;
            changes.push(Change::Patch { place, position: at.head, from: from.clone() });
        }
        let patch_head = |&(head, position): &(HeadAddress, Option<usize>)| Change::PatchHead {
            head,
            position,
            from: from.clone(),
        };
        changes.extend(self.patch_head.iter().map(patch_head));
        for Added { place, position, file } in &self.add {
            let vector = vector(file).with_context(|| file.display().to_string()).bad_input()?;
            let place = place.parse().bad_input()?;
            changes.push(Change::Add { place, position: *position, vector });
        }
        Ok(changes)
    }
}

/// The numbers of the tensor `vector` of a file.
fn vector(file: &Path) -> Result<Vec<f32>> {
    let tensor = tensors::required(&TensorsOfFile::read(file)?, "vector")
        .and_then(|view| tensors::numbers("vector", &view))?;
    let shape = &tensor.shape;
    ensure!(shape.len() == 1, "tensor `vector` has the shape {shape:?}, and not one dimension");
    Ok(tensor.data)
}

impl Other {
    /// The input from which patches are taken. Everything but the text is as in `read`.
    pub(crate) fn input(
        &self,
        reading: &input::Args,
        read: &Input,
        checkpoint: &Checkpoint,
        model: &Model,
    ) -> Result<Input> {
        let preparer = Preparer::of(checkpoint, model.description());
        let other = |given: Given<'_>| preparer.other(model, given, &reading.read_as(), read);
        Ok(match (&self.patch_file, &self.patch_ids, &self.patch_text) {
            (Some(path), ..) if model.description().embedding.frames.is_some() => {
                numbers::audio(path, other)?
            }
            (Some(path), ..) => numbers::image(path, other)?,
            (None, Some(ids), _) => other(Given::Ids(ids))?,
            (None, None, Some(text)) => other(Given::Text(text))?,
            (None, None, None) => {
                anyhow::bail!("another input is needed: --patch-text, --patch-ids or --patch-file")
            }
        })
    }
}

/// The place of the residual stream that enters a layer. In `at`, the position is stored as the head.
fn entry(at: &HeadAddress) -> Place {
    let place = match at.attention {
        Which::Only | Which::Encoder | Which::Decoder => StreamPlace::Pre,
        Which::Cross => StreamPlace::Mid,
    };
    at.attention.stack().place(at.layer, place)
}

fn ensure_place(place: Place, at: &HeadAddress, model: &Model) -> Result<()> {
    let places = model.description().places();
    let there = places.contains(&place);
    let enters = |place: &&Place| place.in_layer() == Some(StreamPlace::Pre.into());
    let layers = places.iter().filter(enters).count();
    let kinds = if model.description().encoder.is_some() {
        "of encoder and decoder together"
    } else {
        "of one stack"
    };
    ensure!(there, "there is no layer of --patch {at}: the model has {layers} layers {kinds}");
    Ok(())
}

fn parse<T: FromStr>(text: &str, form: &str) -> Result<T, String>
where
    T::Err: core::fmt::Display,
{
    text.parse().map_err(|e| format!("{e}; the form is {form}"))
}

pub(crate) fn parse_ablation(text: &str) -> Result<Ablation, String> {
    match text {
        "zero" => Ok(Ablation::Zero),
        "mean" => Ok(Ablation::Mean),
        other => Err(format!("{other:?} is neither zero nor mean")),
    }
}

/// A head and its replacement. `None` is the mean over another text.
fn parse_ablate(text: &str) -> Result<(HeadAddress, Option<Ablation>), String> {
    let (head, to) = text.split_once('=').unwrap_or((text, "zero"));
    const FORM: &str = "L.H[=zero|mean|other]";
    let to = match to {
        "other" => None,
        to => Some(parse_ablation(to).map_err(|e| format!("{e}; the form is {FORM}"))?),
    };
    Ok((parse(head, FORM)?, to))
}

fn parse_patch_head(text: &str) -> Result<(HeadAddress, Option<usize>), String> {
    const FORM: &str = "L.H[:POS]";
    let (head, position) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
    Ok((parse(head, FORM)?, position.map(|position| parse(position, FORM)).transpose()?))
}

fn parse_add(text: &str) -> Result<Added, String> {
    const FORM: &str = "PLACE[:POS]=FILE";
    let (at, file) = text.split_once('=').ok_or_else(|| format!("the form is {FORM}"))?;
    let (place, position) = at.split_once(':').map_or((at, None), |(a, b)| (a, Some(b)));
    let position = position.map(|position| parse(position, FORM)).transpose()?;
    Ok(Added { place: place.to_owned(), position, file: file.into() })
}

fn parse_temperature(text: &str) -> Result<Change, String> {
    const FORM: &str = "L.H=T";
    let (head, temperature) = text.split_once('=').ok_or("the form is L.H=T, as in 3.5=2")?;
    let temperature: Temperature = temperature.parse().map_err(|e: UnknownWord| e.to_string())?;
    Ok(Change::Temperature { head: parse(head, FORM)?, temperature: temperature.get() })
}

fn parse_cut(text: &str) -> Result<Change, String> {
    const FORM: &str = "L.H:I,J";
    let parts = text.split_once(':').and_then(|(head, edge)| Some((head, edge.split_once(',')?)));
    let (head, (query, key)) = parts.ok_or("the form is L.H:I,J, as in 3.5:7,2")?;
    Ok(Change::Cut { head: parse(head, FORM)?, query: parse(query, FORM)?, key: parse(key, FORM)? })
}

fn parse_patch(text: &str) -> Result<HeadAddress, String> {
    text.parse().map_err(|_e| format!("{text:?} is not of the form L.POS, as in 3.7"))
}
