//! Decoders that sort texts, against transformers.

use std::fs;

use regard_models::{Head, Input, Model};

const COMMAND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/command");

#[test]
fn the_logits_of_classes_are_those_of_transformers() {
    let model = Model::open(COMMAND).unwrap();
    let description = model.description();
    assert_eq!(description.head, Head::Classes);
    assert_eq!((description.labels.len(), description.labels[1].as_str()), (9, "light on"));
    assert!(model.unused().is_empty(), "{:?}", model.unused());

    let expected = fs::read_to_string(format!("{COMMAND}/expected.json")).unwrap();
    let expected: Vec<serde_json::Value> = serde_json::from_str(&expected).unwrap();
    assert!(expected.len() > 3);
    for text in &expected {
        let input =
            model.tokenizer().unwrap().encode(text["text"].as_str().unwrap(), None).unwrap();
        let ids: Vec<u32> = serde_json::from_value(text["ids"].clone()).unwrap();
        assert_eq!(input.ids, ids);
        let trace = model.pass().run(&input).unwrap();
        let logits = trace.logits().unwrap();
        assert_eq!(logits.shape, [9]);
        for (found, exact) in logits.data.iter().zip(text["logits"].as_array().unwrap()) {
            // Each of 14 products in a row has sums of at most 64 terms, so that a relative error is at most 14 · 64 · 2⁻²⁴; the
            // norms keep the terms below 16 in magnitude.
            let bound = 14.0 * 64.0 * 2_f64.powi(-24) * 16.0;
            assert!((f64::from(*found) - exact.as_f64().unwrap()).abs() <= bound, "{text}");
        }
        // Only the last position is asked for, and several texts run together.
        assert_eq!(model.pass().last_logits().run(&input).unwrap().logits(), Some(logits));
        let both = model.pass().run_batch(&[input.clone(), input]).unwrap();
        let both = both.logits().unwrap();
        assert_eq!((both.shape.as_slice(), &both.data[9..]), ([2, 9].as_slice(), &logits.data[..]));
    }
}

#[test]
fn a_class_is_attributed_at_the_last_position_and_no_text_is_written() {
    let model = Model::open(COMMAND).unwrap();
    let input = model.tokenizer().unwrap().encode("turn on the lamp", None).unwrap();
    let logits = model.pass().run(&input).unwrap().logits().unwrap().data.clone();
    let attributed = model.attribute(&input, 4, 1, None).unwrap();
    assert!((attributed.logit - f64::from(logits[1])).abs() < 1e-4);
    let said = model.attribute(&input, 0, 1, None).unwrap_err().to_string();
    assert!(said.contains("read at position 4, not 0"), "{said}");
    let said = model.generate(&Input::tokens([2]), 3, &[]).unwrap_err().to_string();
    assert!(said.contains("it sorts into classes"), "{said}");
}
