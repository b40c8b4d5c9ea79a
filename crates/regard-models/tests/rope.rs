//! Every way to scale rotary frequencies against transformers, in the forms of config.json that its versions 4 and 5 write.
#![expect(clippy::unwrap_used, reason = "a test fails with a panic")]

mod data;

use std::collections::BTreeMap;
use std::fs;

use regard_models::Model;
use serde_json::Value;

#[test]
fn scaled_rotary_frequencies_are_those_of_transformers() {
    let configs: BTreeMap<String, Value> =
        serde_json::from_slice(&fs::read(data::path("rope.json")).unwrap()).unwrap();
    assert_eq!(configs.len(), 10);
    for (name, config) in configs {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let weights = folder.path().join("model.safetensors");
        fs::copy(data::path("rope.safetensors"), weights).unwrap();
        let model = Model::open(folder.path()).unwrap();
        data::check(&model, data::IDS.len(), "rope.expected.safetensors", &name);
    }
}
