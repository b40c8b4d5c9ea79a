//! A text that is read on gives the numbers of a run of the whole text, bit for bit.

use regard_models::{
    Ablation, AttentionPlace, Change, ChangedReading, Frequencies, HeadAddress, Input, Model,
    NormPlace, OutputHead, Place, Reading, Stack, StackName, StreamPlace, Trace, Values, Which,
};
use regard_tests::models::FAMILIES;

use crate::common::{best, changed, input, open};

fn ids(first: u32, count: usize) -> Vec<u32> {
    (first..).take(count).map(|i| 3 + i * 7 % 40).collect()
}

/// The families, and GGUF files with quantized weights: the models that read one text, or those of images and of two stacks.
fn models(of_one_text: bool) -> impl Iterator<Item = (&'static str, Model)> {
    let files = [
        "gguf/tiny-llama.Q8_0.gguf",
        "gguf/tiny-gpt2.Q4_0.gguf",
        "gguf/tiny-llama256.Q4_K.gguf",
        "gguf/tiny-qwen2.F16.gguf",
    ];
    let all = FAMILIES.into_iter().chain(files).map(|name| (name, open(name)));
    all.filter(move |(_, model)| {
        let description = model.description();
        (description.embedding.patches.is_none() && description.encoder.is_none()) == of_one_text
    })
}

/// Whether a text does not change what was read before it.
fn reads_on(model: &Model) -> bool {
    let stack = &model.description().stack;
    let plain = stack.rotary.iter().all(|rotary| rotary.scaling == Frequencies::Plain);
    // A vector of the whole text is read from any of its positions.
    stack.causal && plain && !matches!(model.description().head, OutputHead::Pooled { .. })
}

/// Asserts that the weights of the last layers are those of a run of the whole input.
fn assert_weights(found: &Values, which: Which, stack: &Stack, whole: &Trace, what: &str) {
    let layers = stack.layers() - found.shape[0]..stack.layers();
    let of_layers =
        layers.map(|layer| &whole.at(which.place(layer, AttentionPlace::Pattern)).unwrap().data);
    assert_eq!(found.data, of_layers.flatten().copied().collect::<Vec<_>>(), "{what}");
}

/// Checks a reading against a run of the whole input.
fn check(reading: &Reading, model: &Model, input: &Input, name: &str) {
    let pass = model.pass().keep(["*hook_pattern"]);
    let pass = if model.description().stack.causal { pass.last_logits() } else { pass };
    let whole = pass.run(input).unwrap();
    assert_eq!(reading.unchanged().logits(), whole.logits(), "{name}");
    for (which, stack) in model.description().attentions() {
        let found = reading.weights(which).unwrap();
        assert_weights(found, which, stack, &whole, name);
        assert_eq!(found.shape[..2], [stack.layers(), stack.block.heads]);
    }
    // A changed run begins from the streams.
    if let Some(head) = model.description().heads().last() {
        let change = Change::Ablate { head: *head, to: Ablation::Zero };
        let pass = model.pass().change(change);
        let after = pass.clone().after(reading.unchanged()).run(input).unwrap();
        assert_eq!(after.logits(), pass.run(input).unwrap().logits(), "{name}");
    }
}

#[test]
fn a_text_is_read_on_bit_for_bit() {
    for (name, model) in models(true) {
        let description = model.description();
        let long = ids(1, 12);
        let typed = [long.clone(), vec![9]].concat();
        let mut edited = typed.clone();
        edited[5] = 2;
        let shorter = edited[..9].to_vec();
        let grown = [shorter.clone(), ids(5, 60)].concat();
        let texts = [ids(1, 2), ids(1, 3), ids(1, 7), long, typed, edited, shorter.clone(), grown];
        let reads_on = reads_on(&model);
        let mut before: Option<Reading> = None;
        for (i, ids) in texts.into_iter().enumerate() {
            let n = ids.len();
            let most = description.embedding.positions.map_or(n, |p| p.count - p.first);
            let input = Input::tokens(&ids[..n.min(most)]);
            let reading = model.read(&input, before.take()).unwrap();
            check(&reading, &model, &input, name);
            if reads_on {
                // The fifth text is one token longer than the fourth; the sixth differs from its place 5 on.
                let expected = [2, 1, 4, 5, 1, 8, 1][..].get(i).copied();
                assert!(expected.is_none_or(|n| n == reading.computed()), "{name}: text {i}");
            }
            before = Some(reading);
        }
        let again = model.read(&before.as_ref().unwrap().unchanged().input().clone(), before);
        assert_eq!(again.unwrap().computed(), 0);
    }
}

/// Changes of each kind whose effect on a token does not depend on later ones, in the last layers of a model.
fn lasting(model: &Model, input: &Input) -> Vec<Vec<Change>> {
    let heads = model.description().heads();
    let [first, last] = [heads[0], heads[heads.len() - 1]];
    let zero = |head| Change::Ablate { head, to: Ablation::Zero };
    let place = |head: HeadAddress| StackName::Only.place(head.layer, StreamPlace::Pre);
    let vector: Vec<f32> = (0..model.description().width).map(|i| (i as f32 * 0.7).sin()).collect();
    let mean = Change::Ablate { head: last, to: Ablation::MeanOf(Input::tokens([4, 9, 2])) };
    let add =
        |position, layer| Change::Add { place: place(layer), position, vector: vector.clone() };
    let cut = Change::Cut { head: first, query: input.ids.len() - 1, key: 1 };
    let normed = Place::FinalNorm(StackName::Only, NormPlace::Out);
    let mut all = vec![
        vec![zero(first), Change::Temperature { head: last, temperature: 0.3 }],
        vec![mean, Change::Cut { head: last, query: 1, key: 0 }],
        vec![cut, add(None, last), add(Some(1), first)],
    ];
    if model.description().places().contains(&normed) {
        all.push(vec![Change::Add { place: normed, position: Some(1), vector: vector.clone() }]);
    }
    all
}

/// Checks a changed reading against a run of the whole input.
fn check_changed(
    reading: &ChangedReading,
    model: &Model,
    input: &Input,
    changes: &[Change],
    name: &str,
) {
    let pass = model.pass().keep(["*hook_pattern"]);
    let pass = if model.description().stack.causal { pass.last_logits() } else { pass };
    let whole = changed(pass, changes).run(input).unwrap();
    assert_eq!(reading.logits(), whole.logits(), "{name}: {changes:?}");
    for (which, stack) in model.description().attentions() {
        let found = reading.weights(which).unwrap();
        assert_weights(found, which, stack, &whole, &format!("{name}: {changes:?}"));
    }
}

#[test]
fn a_changed_text_is_read_on_bit_for_bit() {
    for (name, model) in models(true) {
        let description = model.description();
        let long = ids(1, 8);
        let typed = [long.clone(), vec![9]].concat();
        let mut edited = typed.clone();
        edited[5] = 2;
        let texts = [ids(1, 3), long, typed, edited.clone(), edited[..7].to_vec(), ids(5, 24)];
        let texts = texts.map(Input::tokens);
        let reads_on = reads_on(&model);
        for changes in lasting(&model, &texts[0]) {
            let mut before = None;
            for (i, input) in texts.iter().enumerate() {
                let unchanged = model.baseline(input).unwrap();
                let reading = model.read_changed(&unchanged, &changes, before.take()).unwrap();
                check_changed(&reading, &model, input, &changes, name);
                if reads_on {
                    let expected = [3, 5, 1, 4, 1][..].get(i).copied();
                    assert!(expected.is_none_or(|n| n == reading.computed()), "{name}: text {i}");
                }
                before = Some(reading);
            }
            // Other changes do not go on from these.
            let unchanged = model.baseline(&texts[5]).unwrap();
            let other = [changes.clone(), changes].concat();
            let reading = model.read_changed(&unchanged, &other, before).unwrap();
            check_changed(&reading, &model, &texts[5], &other, name);
            assert_eq!(reading.computed(), texts[5].ids.len());
        }
        // The mean over all positions is another one for a longer text.
        let head = description.heads()[0];
        let mean = [Change::Ablate { head, to: Ablation::Mean }];
        let mut before = None;
        for input in &texts[..3] {
            let unchanged = model.baseline(input).unwrap();
            let reading = model.read_changed(&unchanged, &mean, before.take()).unwrap();
            check_changed(&reading, &model, input, &mean, name);
            assert_eq!(reading.computed(), input.ids.len());
            before = Some(reading);
        }
    }
}

#[test]
fn a_text_is_written_with_patches_and_cuts_as_it_is_read() {
    let model = open("tiny-qwen3");
    let (input, other) = (Input::tokens([7, 8, 9, 3]), Input::tokens([5, 6, 9, 4]));
    let head: HeadAddress = "1.2".parse().unwrap();
    let place = StackName::Only.place(1, StreamPlace::Pre);
    let changes = [
        Change::Patch { place, position: 2, from: other.clone() },
        Change::Cut { head, query: 3, key: 0 },
        Change::PatchHead { head, position: Some(1), from: other },
    ];
    let written = model.generate(&input, 4, &changes).unwrap();
    let unchanged = model.pass().last_logits().run(&input).unwrap();
    let changed = changed(model.pass().last_logits(), &changes).run(&input).unwrap();
    assert_ne!(changed.logits(), unchanged.logits());
    assert_eq!(best(changed.logits().unwrap().last()), written[0]);
    // A cut edge alone can be read again with each token.
    let cut = &changes[1..2];
    let written = model.generate(&input, 4, cut).unwrap();
    let mut ids = input.ids;
    for id in written {
        let pass = model.pass().last_logits().change(cut[0].clone());
        let logits = pass.run(&Input::tokens(ids.clone())).unwrap();
        assert_eq!(best(logits.logits().unwrap().last()), id);
        ids.push(id);
    }
}

#[test]
fn models_of_images_and_of_two_stacks_are_read_as_a_whole() {
    for (name, model) in models(false) {
        let description = model.description();
        let input = input(&model);
        let first = model.read(&input, None).unwrap();
        check(&first, &model, &input, name);
        let mut other = input.clone();
        other.decoder_ids.extend(other.decoder_ids.first().copied());
        other.pixels.reverse();
        check(&model.read(&other, Some(first)).unwrap(), &model, &other, name);
        let head = description.heads()[0];
        let changes = [Change::Ablate { head, to: Ablation::Zero }];
        let changed = model.read_changed(&model.baseline(&input).unwrap(), &changes, None);
        let changed = changed.unwrap();
        check_changed(&changed, &model, &input, &changes, name);
        let baseline = model.baseline(&other).unwrap();
        let changed = model.read_changed(&baseline, &changes, Some(changed)).unwrap();
        check_changed(&changed, &model, &other, &changes, name);
    }
}

#[test]
fn a_head_is_patched_at_one_position() {
    let model = open("tiny-gpt2");
    let (input, other) = (Input::tokens([7, 8, 9, 3]), Input::tokens([5, 6, 9, 4]));
    let head: HeadAddress = "1.2".parse().unwrap();
    let z = |pass: regard_models::Pass<'_>, input: &Input| {
        let trace = pass.keep(["blocks.1.attn.hook_z"]).run(input).unwrap();
        trace.get("blocks.1.attn.hook_z").unwrap().clone()
    };
    let change = Change::PatchHead { head, position: Some(2), from: other.clone() };
    let patched = z(model.pass().change(change), &input);
    let (mut expected, from) = (z(model.pass(), &input), z(model.pass(), &other));
    let [_, heads, size] = expected.shape[..] else { panic!() };
    let numbers = (2 * heads + 2) * size..(2 * heads + 3) * size;
    expected.data[numbers.clone()].copy_from_slice(&from.data[numbers]);
    assert_eq!(patched, expected);

    let refused = |position, from| {
        let change = Change::PatchHead { head, position: Some(position), from };
        model.pass().change(change).run(&input).unwrap_err().to_string()
    };
    assert!(refused(4, other).contains("no position 4"));
    assert!(refused(0, Input::tokens([7])).contains("as many tokens"));
}
