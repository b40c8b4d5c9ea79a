//! The towers of a model that compares images with texts: each is a model of its own.

use serde_json::{Map, Value};

/// The families that have both towers.
pub(crate) const FAMILIES: [&str; 2] = ["clip", "siglip"];

/// The names of the towers; the first one opens unless another one is named.
const TOWERS: [&str; 2] = ["vision", "text"];

/// The config.json of one tower of a model that has two, `None` if the file is that of a model of one.
///
/// # Errors
/// An error says which towers there are, if `part` names none.
pub(crate) fn of(config: &Value, part: Option<&str>) -> Result<Option<Value>, String> {
    let family = config["model_type"].as_str().unwrap_or_default();
    if !FAMILIES.contains(&family) {
        return match part {
            Some(part) => Err(format!("the family {family:?} has no part {part:?}")),
            None => Ok(None),
        };
    }
    let part = part.unwrap_or(TOWERS[0]);
    if !TOWERS.contains(&part) {
        return Err(format!(
            "the family {family:?} has no part {part:?}; it has {}",
            TOWERS.join(", ")
        ));
    }
    let mut tower = Map::new();
    // Older files have the settings that are not the class's own a second time, and these count.
    for key in ["config", "config_dict"] {
        let own = config.get(format!("{part}_{key}")).and_then(Value::as_object);
        tower.extend(own.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    }
    for key in ["architectures", "id2label", "problem_type"] {
        tower.remove(key);
        if let Some(value) = config.get(key).filter(|_| part == TOWERS[0]) {
            tower.insert(key.to_owned(), value.clone());
        }
    }
    tower.insert("model_type".to_owned(), format!("{family}_{part}_model").into());
    Ok(Some(tower.into()))
}

/// Whether a tensor of a model of this family belongs to another part than the tower that is computed.
pub(crate) fn is_of_another(name: &str, family: &str) -> bool {
    let others = |part| match part {
        "vision" => &["text_model.", "text_projection.", "logit_"][..],
        _ => &["vision_model.", "visual_projection.", "logit_"],
    };
    let part =
        TOWERS.iter().find(|part| FAMILIES.iter().any(|of| family == format!("{of}_{part}_model")));
    part.is_some_and(|part| others(part).iter().any(|start| name.starts_with(start)))
}
