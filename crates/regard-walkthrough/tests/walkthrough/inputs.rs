//! Inputs that are changed, saved, drawn from seeds, or divided among heads.

use crate::common::{cuts, is_near, named, passes, step, without};
use proptest::prelude::*;
use regard_walkthrough::{
    Error, Example, Inputs, Section, Settings, Sizes, StepKey, Walkthrough, Without,
};

fn compute(inputs: &Inputs) -> Walkthrough {
    Walkthrough::compute(inputs, &Settings::default()).expect("inputs compute")
}

fn numbers<'a>(walk: &'a Walkthrough, key: &str) -> &'a [f32] {
    step(walk, key).matrix.as_slice()
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The rows and columns of an editable matrix.
fn shape(inputs: &Inputs, key: StepKey) -> (usize, usize) {
    let projected = || compute(inputs).step(key).expect("it is projected").matrix.shape();
    inputs.matrix(key).map_or_else(projected, |matrix| matrix.shape())
}

#[test]
fn a_change_affects_all_later_steps_and_no_earlier_one() {
    let mut inputs = Inputs::new(Example::ILoveRobotics);
    let before = compute(&inputs);
    assert_eq!(inputs.set(named("w_k"), 1, 1, 3.0), Ok(Some(1.0)));
    let after = compute(&inputs);
    for key in ["x", "w_q", "w_v", "q", "v"] {
        assert_eq!(numbers(&after, key), numbers(&before, key), "{key}");
    }
    // Computed by hand: the keys of "love" and "robotics" have a 1 where W_K has the changed row.
    assert_eq!(numbers(&after, "k"), [2.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 3.0, 2.0]);
    assert_eq!(numbers(&after, "raw_scores"), [5.0, 3.0, 4.0, 4.0, 6.0, 6.0, 3.0, 5.0, 4.0]);
    assert_eq!(step(&after, "w_k").explain(1, 1).unwrap(), "typed in: 3, in place of 1");
    // The numbers of the notebook are no longer compared, and its sentences are no longer shown.
    assert!(after.steps.iter().all(|s| s.correction.is_none()));
    assert!(!after.step(named("love.k")).is_some_and(|s| s.meaning.contains("has a 1")));
    assert_eq!(inputs.edits().len(), 1);

    assert_eq!(inputs.set(named("w_k"), 1, 1, 1.0), Ok(Some(3.0)));
    assert!(!inputs.is_changed());
}

#[test]
fn every_input_of_every_example_can_be_changed_and_is_a_step() {
    for &example in Example::ALL {
        let given = Inputs::new(example);
        let before = compute(&given);
        for step in &before.steps {
            assert_eq!(step.formula.is_empty(), given.matrix(step.key).is_some(), "{}", step.key);
        }
        for key in given.keys() {
            let mut inputs = given.clone();
            // A whole column is changed, because a ReLU may hide one row.
            for i in 0..given.matrix(key).unwrap().rows() {
                let old = inputs.set(key, i, 0, 1.75).unwrap();
                assert_eq!(given.given(key, i, 0), old);
            }
            let after = compute(&inputs);
            assert_eq!(numbers(&after, &key.to_string())[0], 1.75);
            let changed =
                after.steps.iter().zip(&before.steps).filter(|(a, b)| a.matrix != b.matrix).count();
            assert!(changed > 1, "{}: nothing follows from {key}", example.name());
            inputs.reset();
            assert_eq!(inputs, given);
        }
    }
}

/// softmax(QKᵀ/√d)·V in double precision.
fn attention(q: &[Vec<f64>], k: &[Vec<f64>], v: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let row = |q: &Vec<f64>| {
        let dot = |k: &Vec<f64>| q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>();
        let powers: Vec<f64> = k.iter().map(|k| (dot(k) / (q.len() as f64).sqrt()).exp()).collect();
        let sum: f64 = powers.iter().sum();
        (0..v[0].len()).map(|j| powers.iter().zip(v).map(|(p, v)| p / sum * v[j]).sum()).collect()
    };
    q.iter().map(row).collect()
}

#[test]
fn typing_over_queries_keys_and_values_affects_all_later_steps() {
    let mut inputs = Inputs::new(Example::ILoveRobotics);
    let before = compute(&inputs);
    assert_eq!(inputs.set(named("q"), 1, 0, 5.0), Ok(None));
    assert_eq!(inputs.set(named("k"), 0, 2, -0.3), Ok(None));
    assert_eq!(inputs.set(named("v"), 2, 1, 0.7), Ok(None));
    let walk = compute(&inputs);
    for key in ["x", "w_q", "w_k", "w_v"] {
        assert_eq!(numbers(&walk, key), numbers(&before, key), "{key}");
    }
    // The query of "love" is [5, 1, 1], the key of "I" [2, 1, −0.3]; in double precision −0.3 is as typed.
    assert_eq!(numbers(&walk, "q")[3..6], [5.0, 1.0, 1.0]);
    assert!(is_near(step(&walk, "raw_scores"), (1, 0), 10.7));
    let rows = |key: &str| -> Vec<Vec<f64>> {
        let step = step(&before, key);
        (0..3).map(|i| step.matrix.row(i).iter().map(|x| f64::from(*x)).collect()).collect()
    };
    let (mut q, mut k, mut v) = (rows("q"), rows("k"), rows("v"));
    (q[1][0], k[0][2], v[2][1]) = (5.0, -0.3, 0.7);
    let output = step(&walk, "output");
    for (i, row) in attention(&q, &k, &v).iter().enumerate() {
        for (j, expected) in row.iter().enumerate() {
            assert!(is_near(output, (i, j), *expected), "output[{i}, {j}]");
            // Two computations of numbers below 4, with about 15 roundings of double precision each.
            let error = (output.exact.get(i, j) - expected).abs();
            assert!(error < 2.0 * 15.0 * f64::EPSILON / 2.0 * 4.0, "reference of [{i}, {j}]");
        }
    }
    // The row computed by hand for "love" is the same row.
    for key in ["q", "raw_scores", "weights", "output"] {
        let love = &step(&walk, &format!("love.{key}")).matrix;
        assert_eq!(love.row(0), step(&walk, key).matrix.row(1), "{key}");
    }
    assert!(walk.checks.iter().all(passes), "{:?}", walk.checks);

    let q = step(&walk, "q");
    let typed = "typed in: 5, in place of 1·1 + 1·0 + 0·1 + 0·0 = 1";
    assert_eq!(q.explain(1, 0).unwrap(), typed);
    assert_eq!((q.given(1, 0), q.given(3, 0), q.is_editable()), (Some(1.0), None, true));
    assert!(!step(&walk, "love.q").is_editable() && !step(&walk, "raw_scores").is_editable());
    assert_eq!(inputs.edits().len(), 3);

    // A cell that was typed over does not follow X until it is restored.
    inputs.set(named("x"), 1, 0, 4.0).unwrap();
    assert_eq!(numbers(&compute(&inputs), "q")[3], 5.0);
    inputs.restore(named("q"), 1, 0);
    assert_eq!(numbers(&compute(&inputs), "q")[3], 4.0);
    inputs.restore(named("x"), 1, 0);
    inputs.reset();
    assert_eq!((inputs.is_changed(), inputs.edits().len()), (false, 0));
    assert_eq!(numbers(&compute(&inputs), "output"), numbers(&before, "output"));
}

#[test]
fn projections_can_be_typed_over_except_in_gradients_and_the_cache() {
    for &example in Example::ALL {
        let given = Inputs::new(example);
        let projects = given.matrix(named("w_q")).is_some()
            && !matches!(example, Example::Gradients | Example::KvCache);
        assert_eq!(
            given.projected_keys().map(String::from).collect::<Vec<_>>(),
            if projects { vec!["q", "k", "v"] } else { vec![] }
        );
        let keys = || given.projected_keys();
        let of_heads = |heads| keys().map(move |key| (key, heads));
        for (key, heads) in given.possible_heads().into_iter().flat_map(of_heads) {
            let mut inputs = given.clone();
            inputs.set_heads(heads).unwrap();
            let before = compute(&inputs);
            let (rows, cols) = before.step(key).unwrap().matrix.shape();
            inputs.set(key, rows - 1, cols - 1, 1.75).unwrap();
            assert!(
                inputs.set(key, rows, 0, 1.0).is_err() && inputs.set(key, 0, cols, 1.0).is_err()
            );
            let after = compute(&inputs);
            let at = format!("{} {key}, {heads} heads", example.name());
            let last = |key| after.step(key).unwrap().matrix.as_slice().last().copied();
            assert_eq!(last(key), Some(1.75), "{at}");
            if let Some(of_last_head) = after.step(StepKey::new(Section::Head(heads), key.quantity))
            {
                assert_eq!(of_last_head.matrix.as_slice().last(), Some(&1.75), "{at}");
            }
            assert_ne!(numbers(&after, "output"), numbers(&before, "output"), "{at}");
            assert!(after.checks.iter().all(passes), "{at}: {:?}", after.checks);

            // Without projections, X itself takes the role.
            let settings = without(Without::Projections);
            let [cut, plain] =
                [&inputs, &given].map(|inputs| Walkthrough::compute(inputs, &settings).unwrap());
            assert!(!cut.step(key).unwrap().is_editable(), "{at}");
            let key = key.to_string();
            assert_eq!(numbers(&cut, &key), numbers(&plain, &key), "{at}");
        }
    }
}

#[test]
fn impossible_inputs_are_refused_and_named() {
    let mut inputs = Inputs::new(Example::TheCatSat);
    let message = |e: Result<Option<f64>, Error>| e.unwrap_err().to_string();
    assert_eq!(
        message(inputs.set(named("w_o"), 0, 0, 1.0)),
        "there is no matrix called \"w_o\"; choose one of x, w_q, w_k, w_v, q, k, v"
    );
    assert_eq!(
        message(inputs.set(named("w_q"), 0, 4, 1.0)),
        "w_q has 4 rows and 4 columns: there is no cell (0, 4)"
    );
    assert_eq!(
        message(inputs.set(named("q"), 3, 0, 1.0)),
        "q has 3 rows and 4 columns: there is no cell (3, 0)"
    );
    for value in [f64::NAN, f64::INFINITY, 1e7] {
        assert!(message(inputs.set(named("x"), 0, 0, value)).starts_with("x cannot hold "));
        assert!(message(inputs.set(named("v"), 0, 0, value)).starts_with("v cannot hold "));
    }
    assert!(!inputs.is_changed());
    assert_eq!(
        inputs.set_heads(3).unwrap_err().to_string(),
        "the-cat-sat cannot have 3 heads; it can have 1, 2, 4"
    );
    let seeded = |tokens: usize, d, d_k, heads| {
        Inputs::seeded(vec![String::new(); tokens], d, d_k, heads, 0)
    };
    for (result, what) in [
        (seeded(0, 4, 4, 1), "the number of tokens is 0, but must be 1 to 64"),
        (seeded(2, 257, 4, 1), "d_model is 257, but must be 1 to 256"),
        (seeded(2, 4, 0, 1), "d_k is 0, but must be 1 to 64"),
        (seeded(2, 4, 4, 9), "the number of heads is 9, but must be 1 to 8"),
    ] {
        assert_eq!(result.unwrap_err().to_string(), what);
    }
}

#[test]
fn saved_inputs_come_back_exactly() {
    let mut inputs = Inputs::seeded(words("to be or not"), 5, 3, 2, 7).unwrap();
    inputs.set(named("w_o"), 5, 4, 0.1 + 0.2).unwrap();
    inputs.set(named("x"), 0, 0, -0.0).unwrap();
    inputs.set(named("k"), 3, 5, 0.3).unwrap();
    let json = serde_json::to_string(&inputs).unwrap();
    assert_eq!(serde_json::from_str::<Inputs>(&json).unwrap(), inputs);

    let settings = Settings { causal: true, without: Some(Without::Mask), ..Settings::default() };
    for t in [0.0, 0.1, f32::INFINITY] {
        let settings =
            Settings { temperature: regard_kernels::Temperature::new(t).unwrap(), ..settings };
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings, "{json}");
    }
    for &example in Example::ALL {
        assert_eq!(serde_json::to_value(example).unwrap(), example.name());
        let json = serde_json::to_string(&Inputs::new(example)).unwrap();
        assert_eq!(serde_json::from_str::<Inputs>(&json).unwrap(), Inputs::new(example));
    }
}

#[test]
fn files_that_were_tampered_with_are_refused() {
    let edit = |edit: &str| format!(r#""heads":1,"edits":[{{"matrix":{edit}}}]"#);
    for (example, rest, says) in [
        ("seeded", r#""heads":1"#, "need tokens and sizes"),
        ("the-cat-sat", r#""tokens":["a"],"heads":1"#, "cannot have tokens"),
        ("the-cat-sat", r#""heads":0"#, "cannot have 0 heads"),
        ("the-cat-sat", &edit(r#""x","row":9,"col":0,"value":1"#), "no cell (9, 0)"),
        ("the-cat-sat", &edit(r#""v","row":0,"col":4,"value":1"#), "no cell (0, 4)"),
        ("gradients", &edit(r#""q","row":0,"col":0,"value":1"#), "no matrix"),
        ("the-cat-sat", &edit(r#""x","row":0,"col":0,"value":1e300"#), "cannot hold"),
        (
            "seeded",
            r#""tokens":["a"],"sizes":{"d_model":1000000000,"d_k":1,"seed":1},"heads":1"#,
            "d_model",
        ),
        ("the-cat-sat", r#""heads":1,"extra":1"#, "extra"),
        ("the-dog-sat", r#""heads":1"#, "the-dog-sat"),
    ] {
        let json = format!(r#"{{"example":"{example}",{rest}}}"#);
        let error = serde_json::from_str::<Inputs>(&json).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(serde_json::from_str::<Settings>(r#"{"temperature":-1}"#).is_err());
}

/// The FNV-1a hash of the bits of numbers. PyTorch's numbers were hashed in the same way, from `tensor.numpy().tobytes()`.
fn hash(numbers: &[f32]) -> u64 {
    let bytes = numbers.iter().flat_map(|x| x.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// PyTorch 2.15 computed these on a CPU with AVX2 from the lines that [`Inputs::python`] gives. Tensors of fewer than 16 numbers,
/// of a multiple of 16, and of other sizes are drawn in different ways.
#[test]
fn seeds_give_the_numbers_of_pytorch() {
    // The tokens, d_model, d_k and the heads, and the seed.
    let drawn = [([4, 8, 4, 2], 42), ([3, 5, 3, 1], 7), ([2, 3, 2, 1], 0), ([4, 6, 3, 2], 1)];
    // The hash of each matrix for each of these.
    let torch = [
        ("x", [0x286932daaf3a819a, 0xae1db7ca1b59542b, 0x209897ec651ca3d6, 0xdab75dcce3d1a345]),
        ("w_q", [0xe388623e6b26d013, 0x04cee23e8023e57c, 0x46af1c2ff2033343, 0xf610d152ee69d478]),
        ("w_k", [0x9da444222c3f52a1, 0x1b79f648c1873087, 0x516b5d588afddb58, 0xb3f9ced68403f4fb]),
        ("w_v", [0xfa4a6e67c17580d6, 0xf43a0b25a50cd8c0, 0x3e6a483b3217b593, 0x0d0a846fe129656e]),
        ("w_o", [0x46e4c0244db91e66, 0x89bb5526ac142013, 0xa669b36667d40fb3, 0x20de76e2a247a3c7]),
    ];
    for (i, ([tokens, d_model, d_k, heads], seed)) in drawn.into_iter().enumerate() {
        let tokens = (0..tokens).map(|i| format!("t{i}")).collect();
        let inputs = Inputs::seeded(tokens, d_model, d_k, heads, seed).unwrap();
        for (key, hashes) in torch {
            let numbers: Vec<f32> =
                inputs.matrix(named(key)).unwrap().as_slice().iter().map(|x| *x as f32).collect();
            assert_eq!(hash(&numbers), hashes[i], "{key} of seed {seed}: {:?} …", &numbers[..3]);
        }
    }
    let lines = Inputs::seeded(words("a b c"), 5, 3, 1, 7).unwrap().python().unwrap();
    assert_eq!(
        lines,
        "torch.manual_seed(7)\nX = torch.randn(3, 5)\nW_Q = torch.randn(5, 3) / 5**0.5\nW_K = torch.randn(5, 3) / 5**0.5\n\
         W_V = torch.randn(5, 3) / 5**0.5\nW_O = torch.randn(3, 5) / 5**0.5"
    );
}

#[test]
fn equal_words_have_equal_rows() {
    let inputs = Inputs::seeded(words("to be or to"), 5, 3, 1, 7).unwrap();
    let x = inputs.matrix(named("x")).unwrap();
    assert_eq!(x.row(0), x.row(3));
    assert!(x.row(0) != x.row(1) && x.row(1) != x.row(2));
    let other = Inputs::seeded(words("to be or not"), 5, 3, 1, 7).unwrap();
    assert_eq!(other.matrix(named("x")).unwrap().row(2), x.row(2), "the others stay");
    assert_eq!(other.matrix(named("w_o")), inputs.matrix(named("w_o")));
    assert!(inputs.python().unwrap().contains("X = torch.randn(4, 5)[[0, 1, 2, 0]]\n"));
}

#[test]
fn another_number_of_heads_leaves_the_tokens_and_what_was_typed() {
    let mut inputs = Inputs::seeded(words("to be or not"), 6, 3, 1, 1).unwrap();
    inputs.set(named("w_q"), 2, 1, 9.0).unwrap();
    inputs.set(named("k"), 1, 2, 4.0).unwrap();
    let before = compute(&inputs);
    for heads in (1..=8).rev() {
        inputs.set_heads(heads).unwrap();
        assert_eq!(inputs.edits().len(), 2);
        let walk = compute(&inputs);
        assert_eq!(numbers(&walk, "x"), numbers(&before, "x"));
        assert_eq!(step(&walk, "concatenated").matrix.shape(), (4, heads * 3));
        inputs.restore(named("k"), 1, 2);
        let walk = compute(&inputs);
        let layer = walk.checks.iter().find(|c| c.name.ends_with("the layer")).unwrap();
        assert_eq!(layer.holds(), Some(true), "{layer:?}");
        inputs.set(named("k"), 1, 2, 4.0).unwrap();
    }
    // Cells typed into columns that one head lacks disappear with the columns.
    inputs.set_heads(2).unwrap();
    inputs.set(named("v"), 0, 5, 1.0).unwrap();
    inputs.set_heads(1).unwrap();
    assert_eq!(inputs.edits().len(), 2);
}

#[test]
fn with_the_identity_as_w_o_the_output_concatenates_the_heads() {
    let mut inputs = Inputs::new(Example::MathOfAttention);
    let one = compute(&inputs);
    assert!(one.step(named("w_o")).is_none() && one.step(named("head_1.q")).is_none());
    for heads in [2, 4, 8] {
        inputs.set_heads(heads).unwrap();
        let walk = compute(&inputs);
        assert_eq!(numbers(&walk, "output"), numbers(&walk, "concatenated"));
        // Keys of a head are columns of K.
        let (share, width) = (&step(&walk, "head_2.k").matrix, 8 / heads);
        for i in 0..4 {
            assert_eq!(*share.row(i), step(&one, "k").matrix.row(i)[width..2 * width]);
        }
    }
    inputs.set_heads(1).unwrap();
    assert_eq!(inputs, Inputs::new(Example::MathOfAttention));
}

#[test]
fn every_possible_number_of_heads_is_computed_with_every_step_left_out() {
    for &example in Example::ALL {
        let mut inputs = Inputs::new(example);
        for heads in inputs.possible_heads() {
            inputs.set_heads(heads).unwrap();
            for without in cuts() {
                for causal in [false, true] {
                    let settings = Settings { causal, without, ..Settings::default() };
                    let walk = Walkthrough::compute(&inputs, &settings).unwrap();
                    for check in walk.checks.iter().filter(|c| c.name != "rows sum to 1") {
                        assert!(passes(check), "{} {heads} {without:?}: {check:?}", example.name());
                    }
                }
            }
        }
    }
    // X is too narrow for the heads' W_O, or too wide.
    for d_model in [1, 3, 50] {
        let inputs = Inputs::seeded(words("a b c"), d_model, 2, 8, 3).unwrap();
        let settings = without(Without::Projections);
        let walk = Walkthrough::compute(&inputs, &settings).unwrap();
        assert_eq!(step(&walk, "concatenated").matrix.shape(), (3, d_model));
    }
}

#[test]
fn sizes_are_as_requested() {
    let inputs = Inputs::seeded(words("x"), 3, 2, 4, 0).unwrap();
    assert_eq!((inputs.heads(), inputs.tokens().len()), (4, 1));
    assert_eq!(inputs.sizes(), Some(Sizes { d_model: 3, d_k: 2, seed: 0 }));
    assert_eq!(numbers(&compute(&inputs), "head_4.weights"), [1.0]);
}

/// Sets every cell of every matrix, and of Q, K and V if `projections`, to ±the largest number of the example.
fn fill(inputs: &mut Inputs, projections: bool, sign: impl Fn(usize) -> bool) {
    let largest = inputs.largest();
    let projected: Vec<StepKey> = inputs.projected_keys().filter(|_| projections).collect();
    let keys: Vec<StepKey> = inputs.keys().chain(projected).collect();
    for key in keys {
        let (rows, cols) = shape(inputs, key);
        for cell in 0..rows * cols {
            let value = if sign(cell) { largest } else { -largest };
            inputs.set(key, cell / cols, cell % cols, value).expect("the example has this cell");
        }
    }
}

/// Fails if a step has a number that is not finite.
fn assert_finite(inputs: &Inputs, settings: &Settings) {
    for step in Walkthrough::compute(inputs, settings).expect("it can be computed").steps {
        let is_finite = step.matrix.as_slice().iter().all(|x| x.is_finite());
        assert!(is_finite, "{} {}: {settings:?}", inputs.example().name(), step.key);
    }
}

/// The largest number was once 10⁶. With it, gradients overflowed with softmax, every other attention overflowed without
/// softmax, and ∞ − ∞ was NaN.
#[test]
fn the_largest_numbers_stay_finite_in_every_example() {
    for &example in Example::ALL {
        for heads in Inputs::new(example).possible_heads() {
            let mut inputs = Inputs::new(example);
            inputs.set_heads(heads).unwrap();
            for sign in [|_| true, |cell: usize| !cell.is_multiple_of(4)] {
                fill(&mut inputs, false, sign);
                for without in cuts() {
                    assert_finite(&inputs, &Settings { without, ..Settings::default() });
                }
            }
        }
    }
}

#[test]
fn the_largest_numbers_stay_finite_at_the_largest_sizes() {
    let tokens = (0..Inputs::MOST_TOKENS).map(|i| format!("t{i}")).collect();
    let (d_model, d_k) = (Inputs::MOST_D_MODEL, Inputs::MOST_D_K);
    let mut inputs = Inputs::seeded(tokens, d_model, d_k, Inputs::MOST_HEADS, 0).unwrap();
    fill(&mut inputs, false, |_| true);
    assert_finite(&inputs, &without(Without::Softmax));
}

proptest! {
    /// For any typed numbers, no number becomes NaN. For a learner's numbers, each check holds; without softmax, rows need not
    /// sum to 1.
    #[test]
    fn typed_numbers_never_break_a_walkthrough(
        which in 0..Example::ALL.len(),
        cells in proptest::collection::vec((0_usize..9, 0_usize..64, -10.0_f64..10.0, 0_i32..6), 1..12),
        are_large: bool,
        causal: bool,
        cut in 0_usize..5,
    ) {
        let mut inputs = Inputs::new(Example::ALL[which]);
        let keys: Vec<StepKey> = inputs.keys().chain(inputs.projected_keys()).collect();
        for (key, cell, value, power) in cells {
            let Some(&key) = keys.get(key % keys.len().max(1)) else { continue };
            let (rows, cols) = shape(&inputs, key);
            let cell = cell % (rows * cols);
            let largest = inputs.largest();
            let factor = if are_large { 10_f64.powi(power - 1) } else { 1.0 };
            inputs.set(key, cell / cols, cell % cols, (value * factor).clamp(-largest, largest)).unwrap();
        }
        let settings = Settings { causal, without: Without::ALL.get(cut).copied(), ..Settings::default() };
        let walk = Walkthrough::compute(&inputs, &settings).unwrap();
        for step in &walk.steps {
            prop_assert!(step.matrix.as_slice().iter().all(|x| !x.is_nan()), "{}", step.key);
            prop_assert!(!step.max_error.is_nan() && !step.max_ulp.is_nan());
        }
        for check in walk.checks.iter().filter(|c| !are_large && c.name != "rows sum to 1") {
            prop_assert!(passes(check), "{}: {:?}", Example::ALL[which].name(), check);
        }
        if let Some(text) = &walk.broken {
            prop_assert!(!text.contains("NaN"), "{text}");
        }
        let read = serde_json::from_str::<Inputs>(&serde_json::to_string(&inputs).unwrap()).unwrap();
        prop_assert_eq!(read, inputs);
    }

    /// Any signs of the largest numbers stay finite, in the matrices and in Q, K and V.
    #[test]
    fn the_largest_numbers_stay_finite(
        which in 0..Example::ALL.len(),
        signs in proptest::collection::vec(any::<bool>(), 97),
        projections: bool,
        cut in 0_usize..5,
    ) {
        let mut inputs = Inputs::new(Example::ALL[which]);
        fill(&mut inputs, projections, |cell| signs[cell % signs.len()]);
        let without = Without::ALL.get(cut).copied();
        assert_finite(&inputs, &Settings { without, ..Settings::default() });
    }
}
