//! The page of models lists families, places and changes as the code has them. `UPDATE_PAGES=1` writes them.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use regard_models::{Ablation, Change, Checkpoint, Description, Input, Place};
use regard_tests::models::{FAMILIES, golden};
use serde_json::json;

use crate::common::{data, open};

/// The families. Some have a second folder.
fn known() -> impl Iterator<Item = &'static str> {
    let names = FAMILIES.iter().filter_map(|name| name.strip_prefix("tiny-"));
    names.filter(|name| {
        !["gemma3", "gpt_oss-mxfp4", "t5-gated", "falcon-40b", "deberta-v2-own"].contains(name)
    })
}

/// The families as the refusal of another one names them.
fn families() -> String {
    let config = json!({"model_type": "unheard-of"}).to_string().into_bytes();
    let weights = fs::read(golden("tiny-gpt2").join("model.safetensors")).unwrap();
    let files = [("config.json", config), ("model.safetensors", weights)];
    known_by(&Checkpoint::from_files("model", files).unwrap())
}

/// The architectures as the refusal of another one names them.
fn architectures() -> String {
    let mut file = fs::read(data("qwen3.gguf")).unwrap();
    while let Some(at) = file.windows(5).position(|window| window == b"qwen3") {
        file[at..at + 5].copy_from_slice(b"other");
    }
    known_by(&Checkpoint::from_files("a.gguf", [("a.gguf", file)]).unwrap())
}

fn known_by(checkpoint: &Checkpoint) -> String {
    let said = Description::of(checkpoint).unwrap_err().to_string();
    said.split_once("known are ").unwrap().1.to_owned()
}

/// A place without its layer.
fn general(place: Place) -> String {
    place.in_layer().map_or_else(|| place.to_string(), |place| format!("blocks.L.{place}"))
}

/// The shape of every place, in the sizes' names: from runs of models whose sizes differ from each other.
fn shapes() -> BTreeMap<String, String> {
    let mut shapes = BTreeMap::new();
    for family in ["gpt2", "phi3", "gemma2", "gemma3_text", "bert", "gpt_neox", "t5", "gpt_oss"] {
        let (tokens, written) = (7, 9);
        let mut input = Input::tokens(vec![3; tokens]);
        let model = open(&format!("tiny-{family}"));
        let description = model.description();
        if description.encoder.is_some() {
            input = input.decoder(vec![3; written]);
        }
        let block = &description.stack.block;
        let experts = description.stack.experts.as_ref();
        let [count, used] = experts.map_or([0; 2], |experts| [experts.count, experts.used]);
        let places = description.places();
        let trace = model.pass().keep(places.clone()).run(&input).unwrap();
        for place in places {
            let in_decoder = place.to_string().starts_with("decoder");
            let name = |n: &usize| match *n {
                1 => "1",
                n if n == written || n == tokens && !in_decoder => "tokens",
                n if n == tokens => "encoder tokens",
                n if n == description.width => "width",
                n if n == block.heads => "heads",
                n if n == block.kv_heads => "kv heads",
                n if n == block.head_size => "head size",
                n if n == block.hidden => "hidden",
                n if n == count => "experts",
                n if n == used => "experts used",
                n => panic!("{place} of {family}: {n}"),
            };
            let names: Vec<_> = trace.at(place).unwrap().shape.iter().map(name).collect();
            // A model without grouped queries does not tell the heads of keys from those of queries.
            if block.kv_heads != block.heads || !shapes.contains_key(&general(place)) {
                shapes.insert(general(place), format!("[{}]", names.join(", ")));
            }
        }
    }
    shapes
}

fn section() -> String {
    let mut page = format!(
        "\nFamilies: {}.\n\nArchitectures of GGUF files: {}.\n\n| place | shape | families |\n|---|---|---|\n",
        families(),
        architectures()
    );
    let mut order: Vec<String> = Vec::new();
    let mut has: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for family in known() {
        let checkpoint = Checkpoint::open(golden(&format!("tiny-{family}"))).unwrap();
        for place in Description::of(&checkpoint).unwrap().places() {
            let place = general(place);
            if !order.contains(&place) {
                order.push(place.clone());
            }
            let families = has.entry(place).or_default();
            if families.last() != Some(&family) {
                families.push(family);
            }
        }
    }
    let shapes = shapes();
    for place in order {
        let (families, shape) = (&has[&place], &shapes[&place]);
        let missing: Vec<_> = known().filter(|x| !families.contains(x)).collect();
        let who = match missing.len() {
            0 => "all".to_owned(),
            1..=4 => format!("all but {}", missing.join(", ")),
            _ => families.join(", "),
        };
        writeln!(page, "| `{place}` | {shape} | {who} |").unwrap();
    }
    let (head, other) = ("3.5".parse().unwrap(), Input::tokens([7, 8, 9]));
    let place = "blocks.3.hook_resid_pre".parse().unwrap();
    let changes = [
        Change::Ablate { head, to: Ablation::Zero },
        Change::Ablate { head, to: Ablation::Mean },
        Change::Ablate { head, to: Ablation::MeanOf(other.clone()) },
        Change::Temperature { head, temperature: 0.5 },
        Change::Cut { head, query: 4, key: 1 },
        Change::Patch { place, position: 2, from: other.clone() },
        Change::PatchHead { head, position: None, from: other.clone() },
        Change::Path {
            head,
            place: "blocks.4.attn.hook_q_input".parse().unwrap(),
            to: Some(1),
            from: other,
        },
        Change::Add { place, position: Some(2), vector: vec![0.5, -0.5] },
    ];
    page += "\nChanges, as JSON:\n\n";
    for change in changes {
        writeln!(page, "- `{}`", serde_json::to_string(&change).unwrap()).unwrap();
    }
    page
}

#[test]
fn the_page_lists_families_places_and_changes() {
    const BEGIN: &str = "<!-- begin: written by `UPDATE_PAGES=1 cargo test -p regard-models --test models page` -->\n";
    const END: &str = "\n<!-- end -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = section();
    if env::var_os("UPDATE_PAGES").is_some() {
        fs::write(path, [before, BEGIN, &expected, END, after].concat()).unwrap();
    } else {
        assert!(found == expected, "docs/models.md is stale: write it with UPDATE_PAGES=1");
    }
}
