//! The inputs on which `regard embed` measures the ranges of 8-bit integers, and what it reports of them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use regard_heads::{FileNumbers, from_disk};
use regard_models::embed::{Calibration, EmbedOptions};
use regard_models::{Checkpoint, Input, Model, Patches, Preparer, ReadAs};

use super::models::numbers;
use crate::opened;

/// Adds the inputs in a file or folder, and their labels if there are any, to the options.
pub(super) fn read(
    path: &Path,
    checkpoint: &Checkpoint,
    model: &Model,
    options: &mut EmbedOptions,
) -> Result<()> {
    let name = || path.display().to_string();
    let Some(patches) = model.description().embedding.patches else {
        options.inputs = texts(path, model).with_context(name)?;
        return Ok(());
    };
    let (inputs, labels) = if path.is_dir() {
        images(path, checkpoint, model).with_context(name)?
    } else {
        windows(path, &patches).with_context(name)?
    };
    let classes = model.outputs();
    let wrong = labels.iter().find(|label| **label >= classes);
    ensure!(
        wrong.is_none(),
        "{}: a label is {wrong:?}, and the model has {classes} classes",
        name()
    );
    (options.inputs, options.labels) = (inputs, labels);
    Ok(())
}

/// A text a line.
fn texts(path: &Path, model: &Model) -> Result<Vec<Input>> {
    let tokenizer = model.need_tokenizer()?;
    let text = String::from_utf8(opened::read(path)?).context("a text is UTF-8")?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let inputs = lines.map(|line| Ok(Input::tokens(tokenizer.encode(line, None)?.ids)));
    let inputs = inputs.collect::<Result<Vec<Input>>>()?;
    ensure!(!inputs.is_empty(), "it has no text: a text is a line");
    Ok(inputs)
}

/// The inputs of a file of numbers: its tensor `pixel_values`, or the only one that is not `labels`.
fn windows(path: &Path, patches: &Patches) -> Result<(Vec<Input>, Vec<usize>)> {
    let mut tensors = FileNumbers::of_file(&from_disk, path)?;
    let place =
        |tensors: &[FileNumbers], name| tensors.iter().position(|tensor| tensor.name == name);
    let labels = place(&tensors, "labels").map(|at| tensors.remove(at));
    let at = match (place(&tensors, "pixel_values"), tensors.len()) {
        (Some(at), _) => at,
        (None, 1) => 0,
        (None, _) => {
            let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            bail!("it has the tensors {names:?}, and `pixel_values` is needed")
        }
    };
    let FileNumbers { name, shape, data, .. } = tensors.swap_remove(at);
    let Patches { channels, height, width, .. } = *patches;
    let fits = match &shape[..] {
        [_, rest @ ..] => {
            rest == [channels, height, width] || height == 1 && rest == [channels, width]
        }
        [] => false,
    };
    ensure!(
        fits && !data.is_empty(),
        "tensor `{name}` has the shape {shape:?}, but the model reads [n, {channels}, {height}, {width}]"
    );
    let inputs: Vec<Input> = data.chunks(channels * height * width).map(Input::image).collect();
    let labels = labels.map_or_else(Vec::new, |labels| labels.data);
    ensure!(
        labels.is_empty() || labels.len() == inputs.len(),
        "tensor `labels` has {} numbers for {} inputs",
        labels.len(),
        inputs.len()
    );
    ensure!(labels.iter().all(|label| *label >= 0.0), "tensor `labels` has a number below 0");
    Ok((inputs, labels.into_iter().map(|label| label as usize).collect()))
}

/// The images in a folder, and in its folders that are named as classes.
fn images(path: &Path, checkpoint: &Checkpoint, model: &Model) -> Result<(Vec<Input>, Vec<usize>)> {
    let description = model.description();
    let (preparer, read_as) = (Preparer::of(checkpoint, description), ReadAs::default());
    let (mut inputs, mut labels) = (Vec::new(), Vec::new());
    for entry in sorted(path)? {
        let files = if entry.is_dir() { sorted(&entry)? } else { vec![entry.clone()] };
        let class = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let label = description.labels.iter().position(|label| label == class);
        ensure!(
            label.is_some() || !entry.is_dir(),
            "the folder {class} has no class's name: these are {:?}",
            description.labels
        );
        for file in files {
            let image = numbers::image(&file, |given| preparer.prepare(model, given, &read_as))?;
            inputs.push(image.input);
            labels.extend(label.filter(|_| entry.is_dir()));
        }
    }
    ensure!(!inputs.is_empty(), "it has no image");
    ensure!(
        labels.is_empty() || labels.len() == inputs.len(),
        "some images are in folders of classes, and others are not"
    );
    Ok((inputs, labels))
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    Ok(paths)
}

/// The ranges, and what is lost, in lines.
pub(super) fn report(calibration: &Calibration) -> String {
    let Calibration { inputs, given, ranges, loss, .. } = calibration;
    let width = ranges.iter().map(|range| range.place.len()).max().unwrap_or(0);
    let from = if *given {
        "inputs"
    } else {
        "inputs that were made up: give those of the board by --calibrate"
    };
    let mut lines = vec![
        format!("ranges of least squares over {inputs} {from}"),
        format!("{:width$}  {:>10}  {:>10}  {:>9}", "place", "largest", "kept", "clipped"),
    ];
    lines.extend(ranges.iter().map(|range| {
        let clipped = 100.0 * range.clipped;
        format!(
            "{:width$}  {:>10.4}  {:>10.4}  {clipped:>7.3} %",
            range.place, range.most, range.kept
        )
    }));
    let share = |count: usize| 100.0 * count as f64 / loss.rows.max(1) as f64;
    lines.push(format!(
        "logits: the largest one is that of f32 in {} of {} ({:.1} %); the difference is {:.4} (root mean square) where they deviate by {:.4}",
        loss.same,
        loss.rows,
        share(loss.same),
        loss.error,
        loss.deviation
    ));
    lines.extend(loss.right.map(|[float, integer]| {
        format!(
            "right: {float} of {} in f32 ({:.1} %), {integer} in int8 ({:.1} %)",
            loss.rows,
            share(float),
            share(integer)
        )
    }));
    lines.join("\n")
}
