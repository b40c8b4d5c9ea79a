//! Tensors of a Hugging Face folder: `model.safetensors`, or shards that `model.safetensors.index.json` lists.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::Metadata;

use super::files::{Files, room};
use super::{Beside, Stored};
use crate::Error;

const WHOLE: &str = "model.safetensors";
const INDEX: &str = Beside::INDEX.name();

/// The most bytes of a header: as many as the crate `safetensors` allows.
const MOST: u64 = 100_000_000;

/// The factor by which a header may grow in memory: at least 50 bytes of text name a tensor without elements, which takes a
/// place in the list of the crate `safetensors` and in this crate's list.
const EXPANSION: u64 = 24;

/// The tensors of a folder's files.
pub(super) fn open(files: &Files, folder: &Path) -> Result<BTreeMap<String, Stored>, Error> {
    let (whole, index) = (folder.join(WHOLE), folder.join(INDEX));
    let (mut tensors, mut sizes) = (BTreeMap::new(), Sizes::default());
    if files.has(&whole) {
        header(files, &whole, &mut tensors, &mut sizes)?;
        return Ok(tensors);
    }
    if !files.has(&index) {
        let what = format!("the folder has neither {WHOLE} nor {INDEX}{}", advice(files, folder));
        return Err(Error::file(folder, what));
    }
    let shards = shards(&index, &files.json(&index)?)?;
    for (shard, listed) in &shards {
        let path = folder.join(shard);
        if !files.has(&path) {
            let what = format!("should be in the shard {shard}, which is missing");
            return Err(Error::tensor(&index, listed.first().map_or("", String::as_str), what));
        }
        header(files, &path, &mut tensors, &mut sizes)?;
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

/// The index's shards, each with the names of its tensors.
///
/// A shard is in the same folder. A name that leads elsewhere, or to the index itself, is refused.
fn shards(
    index: &Path,
    content: &serde_json::Value,
) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let map = content
        .get("weight_map")
        .and_then(serde_json::Value::as_object)
        .ok_or_else(|| Error::file(index, "has no object weight_map"))?;
    let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (tensor, shard) in map {
        let refuse =
            |what: &str| Error::tensor(index, tensor, format!("is in the shard {shard}, {what}"));
        let name = shard.as_str().ok_or_else(|| refuse("which is no text"))?;
        if name == INDEX {
            return Err(refuse("which is the index itself"));
        }
        if name.contains(['/', '\\', ':']) || name.contains("..") {
            return Err(refuse("which is not a file of the same folder"));
        }
        if !name.ends_with(".safetensors") {
            return Err(refuse("which is no .safetensors file"));
        }
        shards.entry(name.to_owned()).or_default().push(tensor.clone());
    }
    Ok(shards)
}

/// A tensor's name without what torch puts around a model: `_orig_mod.` (`torch.compile`), and `module.` (`DataParallel`) first.
fn unwrapped(name: &str) -> String {
    let name = name.replace("_orig_mod.", "");
    name.strip_prefix("module.").map(str::to_owned).unwrap_or(name)
}

/// The bytes of the files that have been opened so far, and of their headers.
#[derive(Default)]
struct Sizes {
    files: u64,
    headers: u64,
}

/// Adds the tensors of one file, whose length must be what its header says.
fn header(
    files: &Files,
    path: &Path,
    tensors: &mut BTreeMap<String, Stored>,
    sizes: &mut Sizes,
) -> Result<(), Error> {
    let (mut file, length) = files.open(path)?;
    let mut size = [0; 8];
    let short = |_| Error::file(path, "ends before its header does: the file is cut short");
    file.read_exact(&mut size).map_err(short)?;
    let size = u64::from_le_bytes(size);
    if size > MOST {
        return Err(Error::file(path, format!("is no safetensors file: a header of {size} bytes")));
    }
    if size > length.saturating_sub(8) {
        return Err(short(std::io::ErrorKind::UnexpectedEof.into()));
    }
    sizes.files = sizes.files.saturating_add(length);
    sizes.headers = sizes.headers.saturating_add(size);
    let most = room(sizes.files) / EXPANSION;
    if sizes.headers > most {
        let what = format!(
            "has a header of {size} bytes, which is too long for its tensors: {most} bytes are the most"
        );
        return Err(Error::file(path, what));
    }
    let mut text = vec![0; size as usize];
    file.read_exact(&mut text).map_err(|e| Error::io(path, e))?;
    let metadata: Metadata = serde_json::from_slice(&text)
        .map_err(|e| Error::file(path, format!("has a header that is wrong: {e}")))?;
    let start = 8 + size;
    let expected = start.saturating_add(metadata.data_len() as u64);
    for name in metadata.offset_keys() {
        let Some(info) = metadata.info(&name) else { continue };
        let (first, end) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
        if start.saturating_add(end) > length {
            let what = format!("ends at byte {} of {length}: the file is cut short", start + end);
            return Err(Error::tensor(path, &name, what));
        }
        let stored = Stored {
            file: path.to_owned(),
            kind: format!("{:?}", info.dtype),
            shape: info.shape.clone(),
            offset: start + first,
            bytes: end - first,
            scales: None,
        };
        let name = unwrapped(&name);
        if let Some(other) = tensors.insert(name.clone(), stored) {
            let what = format!("is also in {}", other.file.display());
            return Err(Error::tensor(path, &name, what));
        }
    }
    if expected != length {
        let what = format!("has {length} bytes, where its header tells of {expected}");
        return Err(Error::file(path, what));
    }
    Ok(())
}
