//! Every way to scale rotary frequencies against transformers, in the forms of config.json that its versions 4 and 5 write.

use std::fs;

use regard_models::{Checkpoint, Model};

use crate::common::{IDS, check, data, json};

#[test]
fn scaled_rotary_frequencies_are_those_of_transformers() {
    let configs = json(data("rope.json"));
    let configs = configs.as_object().unwrap();
    assert_eq!(configs.len(), 10);
    let weights = fs::read(data("rope.safetensors")).unwrap();
    for (name, config) in configs {
        let config = config.to_string().into_bytes();
        let files = [("config.json", config), ("model.safetensors", weights.clone())];
        let model = Model::load(&Checkpoint::from_files(name, files).unwrap()).unwrap();
        check(&model, IDS.len(), "rope.expected.safetensors", name);
    }
}
