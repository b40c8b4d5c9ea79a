//! Tests that the model reaches its goals on texts that training held back, and prints what each head does.
#![expect(clippy::unwrap_used, reason = "a test fails with a panic")]

use core::fmt::Write as _;

use regard_english::{FILES, TEXT};
use regard_models::{
    Ablation, AttentionPlace, Change, Checkpoint, HeadAddress, Input, Logits, Model, Trace, Values,
};

/// The texts that are measured, and the most tokens of each.
const TEXTS: usize = 24;
const TOKENS: usize = 128;
/// The number of random tokens that are told twice.
const PERIOD: usize = 40;
const NAMES: [&str; 20] = [
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ivy", "Jack", "Kate",
    "Leo", "Mia", "Noah", "Olivia", "Paul", "Mary", "John", "Sarah", "Peter",
];
const PLACES: [&str; 5] = ["the park", "school", "the market", "the library", "the river"];
const THINGS: [&str; 7] = ["book", "key", "lamp", "map", "cake", "guitar", "blanket"];

fn model() -> Model {
    Model::load(&Checkpoint::from_files("english", FILES).unwrap()).unwrap()
}

fn read(model: &Model, text: &str) -> Input {
    model.tokenizer().unwrap().encode(text, None).unwrap()
}

/// The number of columns.
fn cols(values: &Values) -> usize {
    *values.shape.last().unwrap()
}

/// The id of a word that follows another.
fn word(model: &Model, word: &str) -> usize {
    let ids = read(model, &format!(" {word}")).ids;
    assert_eq!(ids.len(), 2, "{word} is one token");
    ids[1] as usize
}

/// A gift: the sentence up to the recipient, whose name is the answer, and the giver's name.
struct Gift {
    input: Input,
    recipient: usize,
    giver: usize,
}

/// Gifts in which the giver is the first of the two names, or the second.
fn gifts(model: &Model, giver_is_second: bool) -> Vec<Gift> {
    let gift = |i: usize| {
        let (a, b) = (NAMES[i % 20], NAMES[(i + 1 + i / 20) % 20]);
        let (giver, recipient) = if giver_is_second { (b, a) } else { (a, b) };
        let (place, thing) = (PLACES[i % 5], THINGS[i % 7]);
        let text = format!("When {a} and {b} went to {place}, {giver} gave a {thing} to");
        let [recipient, giver] = [recipient, giver].map(|name| word(model, name));
        Gift { input: read(model, &text), recipient, giver }
    };
    (0..200).map(gift).collect()
}

/// The weights of a head \[queries, keys\].
fn pattern<'t>(trace: &'t Trace, head: &HeadAddress) -> (&'t [f32], usize) {
    let values = trace.at(head.place(AttentionPlace::Pattern)).unwrap();
    let keys = cols(values);
    (&values.data[head.head * keys * keys..][..keys * keys], keys)
}

/// The mean weight of the queries from `first` on the key that `key` names.
fn mean((weights, keys): (&[f32], usize), first: usize, key: impl Fn(usize) -> usize) -> f64 {
    let rows = first..keys;
    let count = rows.len() as f64;
    rows.map(|i| f64::from(weights[i * keys + key(i)])).sum::<f64>() / count
}

/// The sum of −ln p over the tokens from `first`, how many of them are the likeliest, and their number.
fn losses(logits: &Values, ids: &[u32], first: usize) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for (row, id) in logits.data.chunks(cols(logits)).zip(&ids[1..]).skip(first - 1) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let all: f64 = row.iter().map(|x| f64::from(x - largest).exp()).sum();
        let own = row[*id as usize];
        let adds = [all.ln() - f64::from(own - largest), f64::from(u8::from(own == largest)), 1.0];
        sums.iter_mut().zip(adds).for_each(|(sum, x)| *sum += x);
    }
    sums
}

/// The mean of −ln p over the tokens from `first`, and the share that is the likeliest.
fn loss(model: &Model, inputs: &[Input], first: usize, changes: &[Change]) -> [f64; 2] {
    let mut sums = [0.0; 3];
    for input in inputs {
        let pass = changes.iter().fold(model.pass(), |pass, change| pass.change(change.clone()));
        let found = losses(pass.run(input).unwrap().logits().unwrap(), &input.ids, first);
        sums.iter_mut().zip(found).for_each(|(sum, x)| *sum += x);
    }
    [sums[0] / sums[2], sums[1] / sums[2]]
}

fn held_back(model: &Model) -> Vec<Input> {
    let texts: Vec<String> = serde_json::from_str(include_str!("../held-back.json")).unwrap();
    let cut = |text: &String| {
        let mut input = read(model, text);
        input.ids.truncate(TOKENS);
        Input::tokens(input.ids)
    };
    texts.iter().take(TEXTS).map(cut).collect()
}

/// The token that begins a text, then random tokens, then the same ones again.
fn repeated(seed: u64) -> Input {
    // A linear congruential generator (Knuth's MMIX).
    let mut state = seed;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        300 + (state >> 33) as u32 % 3796
    };
    let period: Vec<u32> = (0..PERIOD).map(|_| random()).collect();
    Input::tokens([vec![0], period.clone(), period].concat())
}

fn probability(model: &Model, text: &str, next: &str) -> f64 {
    let trace = model.pass().run(&read(model, text)).unwrap();
    let logits = trace.logits().unwrap();
    let ids = [0, word(model, next) as u32];
    let last = Values { shape: vec![1, cols(logits)], data: logits.last().to_vec() };
    (-losses(&last, &ids, 1)[0]).exp()
}

/// The share of gifts after which the recipient is likelier than the giver, and the mean difference of their logits.
fn recipients(model: &Model, gifts: &[Gift]) -> (usize, f64) {
    let margin = |gift: &Gift| {
        let trace = model.pass().run(&gift.input).unwrap();
        let logits = trace.logits().unwrap().last().to_vec();
        f64::from(logits[gift.recipient] - logits[gift.giver])
    };
    let margins: Vec<f64> = gifts.iter().map(margin).collect();
    let right = margins.iter().filter(|margin| **margin > 0.0).count();
    (right, margins.iter().sum::<f64>() / margins.len() as f64)
}

#[test]
fn the_goals_are_reached() {
    let model = model();
    assert!(model.unused().is_empty(), "{:?}", model.unused());
    let mut card = String::new();
    let texts = held_back(&model);
    let [unchanged, right] = loss(&model, &texts, 1, &[]);
    let _ = writeln!(
        card,
        "| {TEXTS} held-back texts, {TOKENS} tokens of each | {unchanged:.2} nats a token, {:.0} % right |",
        100.0 * right
    );
    assert!(unchanged < 1.75, "held-back texts: {unchanged}");
    let gifts = [false, true].map(|second| gifts(&model, second));
    let [first, second] = gifts.each_ref().map(|gifts| recipients(&model, gifts));
    for (who, (right, margin)) in [("first", first), ("second", second)] {
        let _ = writeln!(
            card,
            "| the {who} of two names gives | {right} of 200 right, logit difference {margin:.1} |"
        );
        assert!(right >= 190, "{who}: {right}");
    }
    let repeated: Vec<Input> = (1..9).map(repeated).collect();
    let [again, _] = loss(&model, &repeated, PERIOD + 2, &[]);
    let _ = writeln!(card, "| {PERIOD} random tokens, the second time | {again:.1} nats a token |");
    for (text, next) in [
        (TEXT, "Mary"),
        ("Mia saw the yellow bag. Mia found the yellow", "bag"),
        ("Attention is all you", "need"),
    ] {
        let p = 100.0 * probability(&model, text, next);
        let _ = writeln!(card, "| \"{text}\" | {next}: {p:.0} % |");
        assert!(p > 60.0, "{text}: {p} %");
    }

    let heads = model.description().heads();
    let few: Vec<&Gift> = gifts.iter().flat_map(|gifts| gifts.iter().step_by(20)).collect();
    let ablate = |head: &HeadAddress| Change::Ablate { head: *head, to: Ablation::Zero };
    let ablated: Vec<Change> = heads.iter().map(ablate).collect();
    let mut moved = vec![0.0; heads.len()];
    let mut looks = vec![[0.0; 5]; heads.len()];
    for gift in &few {
        let baseline = model.baseline(&gift.input).unwrap();
        let margin = |logits: &[f32]| f64::from(logits[gift.recipient] - logits[gift.giver]);
        let before = margin(baseline.logits().unwrap().last());
        let logits = model.sweep(&baseline, &ablated, Logits::Last, &mut |_| Ok(())).unwrap();
        for (moved, after) in moved.iter_mut().zip(&logits) {
            *moved += (margin(after.last()) - before) / few.len() as f64;
        }
        let trace = model.pass().keep(["*hook_pattern"]).run(&gift.input).unwrap();
        for (head, looks) in heads.iter().zip(&mut looks) {
            let (weights, keys) = pattern(&trace, head);
            for (id, weight) in gift.input.ids.iter().zip(&weights[(keys - 1) * keys..]) {
                for (place, name) in [(3, gift.recipient), (4, gift.giver)] {
                    if *id as usize == name {
                        looks[place] += f64::from(*weight) / few.len() as f64;
                    }
                }
            }
        }
    }
    for (inputs, place, first, distance) in
        [(&texts[..8], 0, 1, 1), (&texts[..8], 1, 1, 0), (&repeated[..], 2, PERIOD + 1, PERIOD - 1)]
    {
        for input in inputs {
            let trace = model.pass().keep(["*hook_pattern"]).run(input).unwrap();
            for (head, looks) in heads.iter().zip(&mut looks) {
                let key = |i: usize| if distance == 0 { 0 } else { i - distance };
                looks[place] += mean(pattern(&trace, head), first, key) / inputs.len() as f64;
            }
        }
    }
    let losses = |changes: &[Change]| {
        let [text, _] = loss(&model, &texts[..2], 1, changes);
        let [twice, _] = loss(&model, &repeated[..1], PERIOD + 2, changes);
        [text, twice]
    };
    let [text_before, twice_before] = losses(&[]);
    for (i, head) in heads.iter().enumerate() {
        let [text, twice] = losses(&ablated[i..=i]);
        let numbers: Vec<String> = looks[i].iter().map(|x| format!("{x:.2}")).collect();
        let _ = writeln!(
            card,
            "| {head} | {} | {} | {} | {} |",
            numbers.join(" | "),
            signed(moved[i]),
            signed(twice - twice_before),
            signed(text - text_before),
        );
    }
    println!("{card}");
}

/// A change with its sign: "−6.80", or "0.00" where it rounds to that.
fn signed(x: f64) -> String {
    let text = format!("{x:+.2}");
    if text.trim_start_matches(['+', '-']) == "0.00" {
        "0.00".to_owned()
    } else {
        text.replace('-', "−")
    }
}

#[test]
fn any_text_has_tokens_and_reads_back() {
    let model = model();
    let tokenizer = model.tokenizer().unwrap();
    for text in [TEXT, "", "naïve café, 日本 🙂", "a\tb\n\nc", "<|endoftext|>"] {
        let ids = read(&model, text).ids;
        assert_eq!(ids[0], 0, "{text}");
        if !text.contains("<|") {
            assert_eq!(tokenizer.decode(&ids[1..]).unwrap(), text);
        }
    }
}
