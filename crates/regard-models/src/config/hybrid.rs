//! Families that no description fits, with the reason, and the layers of a hybrid that are attention.

use serde_json::Value;

const HYBRID: &str = "";
const RECURRENT: &str = "it has no attention";

/// The families and the reasons; hybrids have none, because their layers tell.
const OTHERS: [(&str, &str); 25] = [
    ("mamba", RECURRENT),
    ("mamba2", RECURRENT),
    ("falcon_mamba", RECURRENT),
    ("rwkv", RECURRENT),
    ("xlstm", RECURRENT),
    ("lfm2", HYBRID),
    ("lfm2_moe", HYBRID),
    ("qwen3_next", HYBRID),
    ("qwen3_5", HYBRID),
    ("qwen3_5_text", HYBRID),
    ("qwen3_5_moe", HYBRID),
    ("qwen3_5_moe_text", HYBRID),
    ("granitemoehybrid", HYBRID),
    ("jamba", HYBRID),
    ("bamba", HYBRID),
    ("nemotron_h", HYBRID),
    ("zamba", HYBRID),
    ("zamba2", HYBRID),
    ("recurrent_gemma", HYBRID),
    ("olmo_hybrid", HYBRID),
    ("minimax", HYBRID),
    ("kimi_linear", HYBRID),
    ("falcon_h1", "each layer adds a recurrence to its attention"),
    ("gemma3n", GEMMA_3N),
    ("gemma3n_text", GEMMA_3N),
];

const GEMMA_3N: &str =
    "its layers predict and correct four streams, and each adds vectors of its own for the tokens";

/// The reason why a family is not computed, if it is one of these.
pub(super) fn reason(family: &str, config: &Value) -> Option<String> {
    let known = |family: &str| OTHERS.iter().find(|(name, _)| *name == family);
    // A model of images and texts may have such a one for its texts.
    let of_text = || config["text_config"]["model_type"].as_str().and_then(known);
    let (_, reason) = known(family).or_else(of_text)?;
    if *reason != HYBRID {
        return Some((*reason).to_owned());
    }
    let layers = attention_layers(config.get("text_config").unwrap_or(config));
    let layers: Vec<String> = layers.iter().map(ToString::to_string).collect();
    let which = match layers.len() {
        0 => "the file does not say which of its layers are".to_owned(),
        1 => format!("its layer {} is", layers[0]),
        _ => format!("its layers {} are", layers.join(", ")),
    };
    Some(format!(
        "it is a hybrid: {which} attention, and the others, which are not, are not computed"
    ))
}

/// The layers of a hybrid that are attention: as a list of kinds or of numbers says, or one of every few.
fn attention_layers(config: &Value) -> Vec<u64> {
    let number = |key: &str| config[key].as_u64();
    let layers = number("num_hidden_layers").unwrap_or(0).min(1 << 10);
    let list = |key: &str| config[key].as_array();
    let all = list("layer_types").or_else(|| list("layers_block_type"));
    // For all layers in turn (RecurrentGemma).
    let few = list("block_types").map(|few| (few, layers as usize));
    let kinds = all.map(|all| (all, all.len())).or(few);
    if let Some((kinds, count)) = kinds {
        let kinds = kinds.iter().cycle().take(count);
        // Zamba 2's hybrid layers attend too.
        let is_attention = |kind: &str| {
            kind.ends_with("attention") && kind != "linear_attention" || kind == "hybrid"
        };
        let is_attention = |kind: &Value| kind.as_str().is_some_and(is_attention);
        return (0..).zip(kinds).filter(|(_, kind)| is_attention(kind)).map(|(i, _)| i).collect();
    }
    if let Some(pattern) = config["hybrid_override_pattern"].as_str() {
        return (0..)
            .zip(pattern.chars())
            .filter(|(_, kind)| *kind == '*')
            .map(|(i, _)| i)
            .collect();
    }
    // Counted from 1 (Kimi Linear).
    if let Some(numbers) = config["linear_attn_config"]["full_attn_layers"].as_array() {
        return numbers.iter().filter_map(|number| number.as_u64()?.checked_sub(1)).collect();
    }
    let lists = ["full_attn_idxs", "attn_layer_indices", "hybrid_layer_ids"];
    if let Some(numbers) = lists.iter().find_map(|key| config[*key].as_array()) {
        return numbers.iter().filter_map(Value::as_u64).collect();
    }
    let interval = number("full_attention_interval").map(|every| (every, every.wrapping_sub(1)));
    let period = number("attn_layer_period").zip(number("attn_layer_offset"));
    match interval.or(period).filter(|(every, _)| *every > 0) {
        Some((every, first)) => (0..layers).filter(|layer| layer % every == first).collect(),
        None => Vec::new(),
    }
}
