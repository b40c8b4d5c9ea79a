//! Tensors of a Hugging Face folder: `model.safetensors`, or shards that `model.safetensors.index.json` lists.

use std::collections::BTreeMap;
use std::path::Path;

use regard_tensors::{Budget, Header};

use super::files::Files;
use super::{Beside, TensorInFile};
use crate::Error;

const WHOLE: &str = "model.safetensors";
const INDEX: &str = Beside::INDEX.name();

/// The tensors of a folder's files.
pub(super) fn open(files: &Files, folder: &Path) -> Result<BTreeMap<String, TensorInFile>, Error> {
    let (whole, index) = (folder.join(WHOLE), folder.join(INDEX));
    let (mut tensors, mut budget) = (BTreeMap::new(), Budget::default());
    if files.has(&whole) {
        header(files, &whole, &mut tensors, &mut budget)?;
        return Ok(tensors);
    }
    if !files.has(&index) {
        let what = format!("the folder has neither {WHOLE} nor {INDEX}{}", advice(files, folder));
        return Err(Error::file(folder, what));
    }
    let shards = regard_tensors::shards(&files.json(&index)?);
    let shards = shards.map_err(|(tensor, what)| match tensor {
        Some(tensor) => Error::tensor(&index, &tensor, what),
        None => Error::file(&index, what),
    })?;
    for (shard, listed) in &shards {
        let path = folder.join(shard);
        if !files.has(&path) {
            let what = format!("should be in the shard {shard}, which is missing");
            return Err(Error::tensor(&index, listed.first().map_or("", String::as_str), what));
        }
        header(files, &path, &mut tensors, &mut budget)?;
        for name in listed {
            if tensors.get(&unwrapped(name)).is_none_or(|stored| stored.file != path) {
                let what = format!("should be here, says {INDEX}, and is not");
                return Err(Error::tensor(&path, name, what));
            }
        }
    }
    Ok(tensors)
}

/// What to run to make safetensors of the weights that a folder has in their place.
fn advice(files: &Files, folder: &Path) -> String {
    let has = |name: &str| files.has(&folder.join(name));
    if has("pytorch_model.bin") || has("pytorch_model.bin.index.json") {
        return format!(
            ", but pytorch_model.bin, which can hold programs: write safetensors by transformers.AutoModelForCausalLM.from_pretrained({:?}).save_pretrained(\"NEW\"), with the class that config.json names",
            folder.display().to_string()
        );
    }
    if has(ADAPTER) { format!(", but an adapter{}", merge(folder)) } else { String::new() }
}

/// The file of an adapter's settings (PEFT).
pub(super) const ADAPTER: &str = "adapter_config.json";

/// How to merge an adapter with the model that it changes.
pub(super) fn merge(folder: &Path) -> String {
    format!(
        ": merge it with its model by peft.AutoPeftModelForCausalLM.from_pretrained({:?}).merge_and_unload().save_pretrained(\"NEW\")",
        folder.display().to_string()
    )
}

/// A tensor's name without what torch puts around a model: `_orig_mod.` (`torch.compile`), and `module.` (`DataParallel`) first.
fn unwrapped(name: &str) -> String {
    let name = name.replace("_orig_mod.", "");
    name.strip_prefix("module.").map(str::to_owned).unwrap_or(name)
}

/// Adds the tensors of one file, whose length must be what its header says.
fn header(
    files: &Files,
    path: &Path,
    tensors: &mut BTreeMap<String, TensorInFile>,
    budget: &mut Budget,
) -> Result<(), Error> {
    let (mut file, length) = files.open(path)?;
    let wrong = |e| Error::file(path, format!("is no safetensors file that can be read: {e}"));
    let header = Header::read(&mut file, Some(length), budget).map_err(wrong)?;
    for (name, info) in header.tensors() {
        let places = <[usize; 2]>::from(info.data_offsets);
        let [offset, end] = places.map(|at| header.start().saturating_add(at as u64));
        if end > length {
            let what = format!("ends at byte {end} of {length}: the file is cut short");
            return Err(Error::tensor(path, &name, what));
        }
        let stored = TensorInFile {
            file: path.to_owned(),
            kind: format!("{:?}", info.dtype),
            shape: info.shape.clone(),
            offset,
            bytes: end - offset,
            scales: None,
        };
        let name = unwrapped(&name);
        if let Some(other) = tensors.insert(name.clone(), stored) {
            let what = format!("is also in {}", other.file.display());
            return Err(Error::tensor(path, &name, what));
        }
    }
    header.check_length(length).map_err(wrong)
}
