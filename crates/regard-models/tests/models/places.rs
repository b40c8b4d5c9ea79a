//! Places that hooks read and change, and paths between them, in every family.

use core::iter::once;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::Mutex;

use regard_models::{
    Ablation, Change, Error, HeadAddress, Input, Logits, Model, Place, Placement, Values, Which,
};
use regard_tests::models::FAMILIES;

use crate::common::{assert_near, assert_says, input, open};

fn models() -> impl Iterator<Item = (&'static str, Model)> {
    FAMILIES.into_iter().map(|name| (name, open(name)))
}

/// The logits, or the last residual stream of a model without a head.
fn end(model: &Model) -> String {
    let layers = model.description().stack.layers();
    let stack = if model.description().encoder.is_some() { "decoder" } else { "blocks" };
    format!("{stack}.{}.hook_resid_post", layers - 1)
}

/// γ times `hook_normalized`, plus β, is `hook_out`; `hook_normalized` times `hook_scale` is what enters the norm, less its mean in layer
/// norm. Each is off by no more than a few roundings.
#[test]
fn a_norm_is_its_parts() {
    let mut compared = 0;
    for (name, model) in models() {
        let norms = ["*hook_scale", "*hook_normalized", "*hook_out", "*hook_resid_pre"];
        let trace = model.pass().keep(norms).run(&input(&model)).unwrap();
        let kept = trace.places().map(|place| place.to_string());
        for place in kept.filter(|place| place.ends_with("hook_out")) {
            let norm = place.strip_suffix(".hook_out").unwrap();
            let kept = |part: &str| &trace.get(&format!("{norm}.{part}")).unwrap().data;
            let gamma = model.parameter(norm).unwrap().unwrap().data;
            let beta = model.parameter(&format!("{norm}.bias")).unwrap();
            let beta = beta.map_or_else(|| vec![0.0; gamma.len()], |beta| beta.data);
            let rows = kept("hook_normalized")
                .chunks(gamma.len())
                .zip(kept("hook_out").chunks(gamma.len()));
            for (normalized, out) in rows {
                for (i, (x, y)) in normalized.iter().zip(out).enumerate() {
                    let expected = x * gamma[i] + beta[i];
                    // The kernel's sums of `width` numbers in f32, and these three operations.
                    let bound =
                        (gamma.len() + 8) as f32 * f32::EPSILON * (x * gamma[i]).abs().max(1.0);
                    assert!(
                        (y - expected).abs() <= bound,
                        "{name}: {place}: {y} is not {expected}"
                    );
                    compared += 1;
                }
            }
            let placement = model.description().stack.block.placement;
            if norm.ends_with("ln1") && placement != Placement::After {
                let x = trace.get(&norm.replace("ln1", "hook_resid_pre")).unwrap();
                let scales = kept("hook_scale");
                assert_eq!(scales.len(), x.shape[0], "{name}: {norm}");
                let layer_norm = model.parameter(&format!("{norm}.bias")).unwrap().is_some();
                for (i, row) in x.data.chunks(gamma.len()).enumerate() {
                    let mean = row.iter().sum::<f32>() / row.len() as f32
                        * f32::from(u8::from(layer_norm));
                    for (x, y) in row.iter().zip(&kept("hook_normalized")[i * row.len()..]) {
                        let largest = row.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
                        assert!(
                            (x - mean - y * scales[i]).abs() <= 1e-5 * largest,
                            "{name}: {norm}"
                        );
                    }
                }
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
}

/// A hook that leaves every number as it is leaves the logits as they are: at norms, inputs of heads and results within a few
/// roundings, because the way through them is another one, and elsewhere to the bit.
#[test]
fn a_hook_that_changes_nothing_changes_nothing() {
    for (name, model) in models() {
        let input = input(&model);
        let plain = model.pass().keep([end(&model)]).run(&input).unwrap();
        for place in model.description().places() {
            let called = AtomicUsize::new(0);
            let hook = |at: Place, shape: &[usize], data: &mut Vec<f32>| {
                assert_eq!((at, shape.iter().product::<usize>()), (place, data.len()));
                called.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            let pass = model.pass().keep([end(&model)]).hook(place, hook);
            let hooked = pass.run(&input).unwrap();
            assert_eq!(called.load(Ordering::Relaxed), 1, "{name}: {place}");
            let [expected, found] = [&plain, &hooked].map(|trace| trace.get(&end(&model)).unwrap());
            assert_near(found, expected, &format!("{name}: {place}"));
            let another_way = [
                "hook_scale",
                "hook_normalized",
                "hook_result",
                "hook_attn_scores",
                "hook_pattern",
            ];
            if !another_way.iter().any(|way| place.to_string().ends_with(way)) {
                assert_eq!(found, expected, "{name}: {place}");
            }
        }
    }
}

/// The shares of heads, with the bias, are the attention's output; the shares and the streams of heads have places of their own.
#[test]
fn heads_have_results_and_inputs() {
    for (name, model) in models() {
        let keep = ["*hook_result", "*hook_attn_out", "*hook_resid_pre", "*hook_mlp_in"];
        let pass =
            model.pass().keep(keep).keep(["*hook_q_input", "*hook_k_input", "*hook_v_input"]);
        let trace = pass.run(&input(&model)).unwrap();
        let description = model.description();
        let block = &description.encoder.as_ref().unwrap_or(&description.stack).block;
        let stack = if model.description().encoder.is_some() { "encoder" } else { "blocks" };
        let kept = |place: &str| trace.get(&format!("{stack}.0.{place}")).unwrap();
        let (result, width) = (kept("attn.hook_result"), model.description().width);
        let tokens = result.shape[0];
        assert_eq!(result.shape, [tokens, block.heads, width], "{name}");
        assert_eq!(kept("attn.hook_k_input").shape, [tokens, block.kv_heads, width], "{name}");
        assert_eq!(kept("hook_mlp_in").shape, [tokens, width], "{name}");
        for (i, x) in kept("attn.hook_q_input").data.chunks(width).enumerate() {
            assert_eq!(
                x,
                &kept("hook_resid_pre").data[i / block.heads * width..][..width],
                "{name}"
            );
        }
        if matches!(block.placement, Placement::Both | Placement::Output) {
            continue; // a norm comes between
        }
        let bias = model.parameter(&format!("{stack}.0.attn.out.bias")).unwrap();
        let bias = bias.map_or_else(|| vec![0.0; width], |bias| bias.data);
        let sum = |i: usize| {
            let shares = (0..block.heads)
                .map(|h| result.data[(i / width * block.heads + h) * width + i % width]);
            shares.sum::<f32>() + bias[i % width] * block.output_scale
        };
        let data = (0..tokens * width).map(sum).collect();
        let expected = Values { shape: vec![tokens, width], data };
        assert_near(kept("hook_attn_out"), &expected, name);
    }
}

/// What a hook makes of the weights is what the values are weighted by; an error of a hook ends the run.
#[test]
fn a_hook_changes_weights_and_ends_runs() {
    for (name, model) in models() {
        let input = input(&model);
        let zeros = |_: Place, _: &[usize], data: &mut Vec<f32>| {
            data.fill(0.0);
            Ok(())
        };
        let pass = model.pass().keep([end(&model)]);
        let [by_weights, by_z] = ["attn.hook_pattern", "attn.hook_z"].map(|place| {
            let trace = pass.clone().hook(format!("*.1.{place}"), zeros).run(&input).unwrap();
            trace.get(&end(&model)).unwrap().clone()
        });
        assert_eq!(by_weights, by_z, "{name}");
        // A score that is much above all others takes all weight.
        let one = |_: Place, shape: &[usize], data: &mut Vec<f32>| {
            data.chunks_mut(shape[2]).for_each(|row| row[0] = 1e6);
            Ok(())
        };
        let pass = model.pass().keep(["*.1.attn.hook_pattern"]);
        let trace = pass.hook("*.1.attn.hook_attn_scores", one).run(&input).unwrap();
        for place in trace.places() {
            let weights = trace.at(place).unwrap();
            for row in weights.data.chunks(weights.shape[2]) {
                assert!(row[0] == 1.0 && row[1..].iter().all(|x| *x == 0.0), "{name}: {row:?}");
            }
        }
        let stop = |_: Place, _: &[usize], _: &mut Vec<f32>| Err(Error::Stopped);
        let stopped = model.pass().hook("*hook_z", stop).run(&input);
        assert!(matches!(stopped, Err(Error::Stopped)), "{name}");
        let shorter = |_: Place, _: &[usize], data: &mut Vec<f32>| {
            data.pop();
            Ok(())
        };
        let said =
            model.pass().hook("*.0.attn.hook_z", shorter).run(&input).unwrap_err().to_string();
        assert_says(&said, &["a hook leaves", "hook_z"]);
    }
}

/// The text of [`input`] with another token in the middle.
fn other(model: &Model) -> Input {
    let mut other = input(model);
    other.ids.iter_mut().skip(4).take(1).for_each(|id| *id += 7);
    let numbers = other.pixels.iter_mut().chain(&mut other.features);
    numbers.skip(50).take(9).for_each(|x| *x = -*x);
    other
}

/// All paths that leave a head, taken together, are the head's other output: every place that reads the stream after the head
/// reads the sum, and nothing else does.
#[test]
fn all_paths_from_a_head_are_the_head_patched() {
    let mut compared = 0;
    for (name, model) in models() {
        let (description, input, from) = (model.description(), input(&model), other(&model));
        if description.stack.block.placement == Placement::After {
            continue;
        }
        // A cross-attention reads the stream at a place that heads do not have for themselves.
        let (attention, prefix, layers) = match &description.encoder {
            Some(encoder) => (Which::Encoder, "encoder", encoder.layers()),
            None => (Which::Only, "blocks", description.stack.layers()),
        };
        let head = HeadAddress { attention, layer: 0, head: 1 };
        let path = |place: String| Change::Path {
            head,
            place: place.parse().unwrap(),
            to: None,
            from: from.clone(),
        };
        let parallel = description.stack.block.parallel;
        let read = ["attn.hook_q_input", "attn.hook_k_input", "attn.hook_v_input", "hook_mlp_in"];
        let later = (0..layers).flat_map(|layer| {
            let own = read
                .iter()
                .filter(move |place| layer > 0 || (!parallel && place.ends_with("mlp_in")));
            own.map(move |place| format!("{prefix}.{layer}.{place}"))
        });
        let all = later.chain(once(format!("{prefix}.{}.hook_resid_post", layers - 1)));
        let pass =
            all.fold(model.pass().keep([end(&model)]), |pass, place| pass.change(path(place)));
        let found = pass.run(&input).unwrap();
        let patch = Change::PatchHead { head, position: None, from: from.clone() };
        let expected = model.pass().keep([end(&model)]).change(patch).run(&input).unwrap();
        let plain = model.pass().keep([end(&model)]).run(&input).unwrap();
        let [found, expected, plain] =
            [&found, &expected, &plain].map(|trace| trace.get(&end(&model)).unwrap());
        assert_near(found, expected, name);
        assert_ne!(expected, plain, "{name}");
        compared += 1;
    }
    assert!(compared >= 8, "{compared}");
}

#[test]
fn a_path_that_leads_nowhere_is_refused() {
    type Case<'a> = (&'a str, &'a str, &'a str, Option<usize>, &'a [&'a str]);
    let cases: [Case<'_>; 6] = [
        ("tiny-gpt2", "1.0", "blocks.0.attn.hook_q_input", None, &["not after head 1.0"]),
        ("tiny-gpt2", "0.0", "blocks.0.attn.hook_q_input", None, &["not after head 0.0"]),
        ("tiny-gpt2", "0.0", "blocks.1.attn.hook_q", None, &["residual stream is read"]),
        ("tiny-gpt2", "0.0", "blocks.1.attn.hook_q_input", Some(4), &["no head 4", "which has 4"]),
        ("tiny-gpt_neox", "0.0", "blocks.0.hook_mlp_in", None, &["not after head 0.0"]),
        ("tiny-bert", "0.0", "blocks.1.hook_mlp_in", None, &["goes through a norm"]),
    ];
    for (name, head, place, to, says) in cases {
        let (model, head) = (open(name), head.parse().unwrap());
        let change = Change::Path { head, place: place.parse().unwrap(), to, from: other(&model) };
        let said = model.pass().change(change).run(&input(&model)).unwrap_err().to_string();
        assert_says(&said, says);
    }
}

/// Changes of every kind: in a batch as in each input alone, and in a sweep as in each run alone.
#[test]
fn changes_in_batches_and_sweeps_are_those_of_single_runs() {
    for (name, model) in models() {
        let description = model.description();
        if description.encoder.is_some() || description.embedding.patches.is_some() {
            continue;
        }
        let inputs = [input(&model), other(&model)];
        let zeros = Change::Ablate { head: "0.1".parse().unwrap(), to: Ablation::Zero };
        let head = "1.0".parse().unwrap();
        let vector = (0..description.width).map(|i| (i as f32).sin()).collect();
        let place = "blocks.1.hook_resid_pre".parse().unwrap();
        let changes = [
            Change::Temperature { head, temperature: 0.5 },
            Change::Cut { head, query: 5, key: 3 },
            Change::Cut { head, query: 5, key: 2 },
            Change::Temperature { head: "1.1".parse().unwrap(), temperature: f32::INFINITY },
            zeros,
            Change::PatchHead { head, position: Some(3), from: inputs[1].clone() },
            Change::Patch { place, position: 4, from: inputs[1].clone() },
            Change::Add { place, position: Some(2), vector },
        ];
        let logits_or_end = |trace: &regard_models::Trace| trace.get(&end(&model)).unwrap().clone();
        let mut pass = model.pass().keep([end(&model)]);
        for change in &changes {
            pass = pass.change(change.clone());
        }
        let batch = logits_or_end(&pass.run_batch(&inputs).unwrap());
        for (one, found) in inputs.iter().zip(batch.data.chunks(batch.data.len() / 2)) {
            let alone = logits_or_end(&pass.run(one).unwrap());
            let found = Values { shape: alone.shape.clone(), data: found.to_vec() };
            assert_near(&found, &alone, &format!("{name}: a batch"));
        }
        let baseline = model.baseline(&inputs[0]).unwrap();
        if baseline.logits().is_none() {
            continue;
        }
        let counts = Mutex::new(Vec::new());
        let mut done = |count| {
            counts.lock().unwrap().push(count);
            Ok(())
        };
        let swept = model.sweep(&baseline, &changes, Logits::All, &mut done).unwrap();
        for (change, found) in changes.iter().zip(&swept) {
            let alone = model.pass().change(change.clone()).run(&inputs[0]).unwrap();
            assert_near(found, alone.logits().unwrap(), &format!("{name}: {change:?} in a sweep"));
        }
        assert_eq!(counts.into_inner().unwrap().last(), Some(&changes.len()), "{name}");
        let stopped = model.sweep(&baseline, &changes, Logits::All, &mut |_| Err(Error::Stopped));
        assert!(matches!(stopped, Err(Error::Stopped)), "{name}");
    }
}

/// Weights have the shapes of the description, and give what the model gives.
#[test]
fn parameters_are_the_weights_of_the_model() {
    for (name, model) in models() {
        let stack = if model.description().encoder.is_some() { "encoder" } else { "blocks" };
        let keep = [format!("{stack}.0.attn.hook_z"), format!("{stack}.0.attn.hook_result")];
        let trace = model.pass().keep(keep.clone()).run(&input(&model)).unwrap();
        let [z, result] = keep.map(|place| trace.get(&place).unwrap().clone());
        let out = model.parameter(&format!("{stack}.0.attn.out")).unwrap().unwrap();
        let (width, [heads, size]) = (out.shape[0], [z.shape[1], z.shape[2]]);
        let scale = model.description().stack.block.output_scale;
        let mut expected = BTreeMap::new();
        for (i, z) in z.data.chunks(size).enumerate() {
            for o in 0..width {
                let row = &out.data[o * heads * size + i % heads * size..][..size];
                expected.insert((i, o), scale * z.iter().zip(row).map(|(z, w)| z * w).sum::<f32>());
            }
        }
        let data = expected.into_values().collect();
        assert_near(&result, &Values { shape: result.shape.clone(), data }, name);
        assert!(model.parameter(&format!("{stack}.9.attn.out")).unwrap().is_none());
        assert!(model.parameter("nothing").unwrap().is_none());
    }
}

#[test]
fn a_star_stands_for_any_characters() {
    let model = open("tiny-gpt2");
    let named = |pattern: &str| -> Vec<String> {
        let places = model.description().places_named(&[pattern]).unwrap_or_default();
        places.iter().map(ToString::to_string).collect()
    };
    let queries = [0, 1].map(|layer| format!("blocks.{layer}.attn.hook_q"));
    assert_eq!(named("blocks.0.attn.hook_q"), queries[..1]);
    for pattern in ["*hook_q", "blocks.*.attn.*_q", "blocks.*.*.hook_q"] {
        assert_eq!(named(pattern), queries, "{pattern}");
    }
    assert!(named("*").len() > 30);
    for pattern in ["blocks.*.mlp.*_q", "blocks.0.attn.hook", "blocks.0.attn.hook_q*_q"] {
        assert_eq!(named(pattern), [""; 0], "{pattern}");
    }
}
