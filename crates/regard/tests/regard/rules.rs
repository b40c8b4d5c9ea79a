//! Rules, compared with the matrices that they stand for, bit for bit.

use crate::common::{bits, numbers};
use regard::{
    Attention, Documents, Error, Heads, Mask, MaskTensor, Position, Rule, Stage, Tensor, Threads,
    Window,
};

const NEAR: Window = Window { left: Some(30), right: Some(2) };

/// The document of a key: parts of a text, and one document in two pieces.
fn document(entry: usize, key: usize) -> i64 {
    let len = if entry == 0 { 37 } else { 111 };
    if key > 200 && key < 220 { 0 } else { (key / len) as i64 }
}

/// Whether a query sees a key: the definition, one pair at a time.
fn sees(rule: &Rule, entry: usize, [query, key]: [usize; 2], [n_q, len, n_k]: [usize; 3]) -> bool {
    let at = |position: &Position| match position {
        Position::TopLeft => query as isize,
        Position::BottomRight => (query + len) as isize - n_q as isize,
        Position::Offset(offset) => query as isize + offset,
    };
    let key_at = key as isize;
    match rule {
        Rule::Causal(position) => key_at <= at(position),
        Rule::Window(position, Window { left, right }) => {
            left.is_none_or(|left| key_at >= at(position) - left as isize)
                && right.is_none_or(|right| key_at <= at(position) + right as isize)
        }
        Rule::Prefix(lengths) => key < lengths[entry % lengths.len()],
        Rule::Documents(position, _) => usize::try_from(at(position))
            .is_ok_and(|at| at < n_k && document(entry, at) == document(entry, key)),
        Rule::All(rules) => {
            rules.iter().all(|rule| sees(rule, entry, [query, key], [n_q, len, n_k]))
        }
        Rule::Any(rules) => {
            rules.iter().any(|rule| sees(rule, entry, [query, key], [n_q, len, n_k]))
        }
        _ => unreachable!(),
    }
}

fn rules(n_k: usize) -> Vec<Rule> {
    let end = Position::BottomRight;
    let ids = |entry| Documents::new((0..n_k).map(|key| document(entry, key)).collect());
    let texts = |position| Rule::Documents(position, vec![ids(0), ids(1)]);
    let causal = || Rule::Causal(end);
    vec![
        Rule::Causal(Position::Offset(-3)),
        Rule::Window(Position::TopLeft, NEAR),
        Rule::Prefix(vec![5]),
        texts(end),
        Rule::All(vec![texts(Position::Offset(9)), causal()]),
        Rule::Any(vec![Rule::Prefix(vec![0, 40]), causal()]),
        Rule::All(vec![
            Rule::Any(vec![Rule::Prefix(vec![3]), Rule::Window(end, NEAR)]),
            Rule::Any(vec![texts(end), Rule::All(vec![causal(), Rule::Window(end, NEAR)])]),
        ]),
        Rule::Any(vec![
            Rule::Any(vec![]),
            Rule::All(vec![texts(Position::Offset(-500)), causal()]),
        ]),
        Rule::All(vec![]),
    ]
}

/// The rule has the bits of its matrix, with more parts of a mask and without them.
fn compare([n_q, n_k]: [usize; 2], rule: &Rule, threads: usize) {
    let (batch, heads, d) = (2, 2, 8);
    let [q, k, v] = [n_q, n_k, n_k].map(|n| numbers(batch * heads * n * d, n as u64));
    let tensor = |x, n| Heads::new("x", x, [batch, heads, n, d]).unwrap();
    let (q, k, v) = (tensor(&q, n_q), tensor(&k, n_k), tensor(&v, n_k));
    let lengths = [n_k, n_k / 2];
    let some: Vec<bool> = (0..n_q * n_k).map(|i| i % 7 != 3).collect();
    let some_of = MaskTensor::new(&some, &[n_q, n_k]).unwrap();
    for padded in [false, true] {
        let mut matrix = Vec::new();
        for (entry, len) in lengths.into_iter().enumerate() {
            let len = if padded { len } else { n_k };
            for (pair, some) in some.iter().enumerate() {
                let allowed = sees(rule, entry, [pair / n_k, pair % n_k], [n_q, len, n_k]);
                matrix.push(allowed && (!padded || *some));
            }
        }
        let matrix = MaskTensor::new(&matrix, &[batch, 1, n_q, n_k]).unwrap();
        let (mut by_rule, mut by_matrix) = (Mask::NONE.rule(rule), Mask::NONE.allowed(matrix));
        if padded {
            by_rule = by_rule.key_lengths(&lengths).allowed(some_of);
            by_matrix = by_matrix.key_lengths(&lengths);
        }
        let out = |mask| {
            let attention = Attention::new().mask(mask);
            let out = attention.forward_with_log_sum_exp(q, k, v).unwrap();
            let weights = attention.scores(Stage::Weights, q, k).unwrap();
            (bits(&out.0), bits(&out.1), bits(&weights))
        };
        let pool = Threads::new(threads).unwrap();
        let (found, expected) = pool.install(|| (out(by_rule), out(by_matrix)));
        assert!(found == expected, "{rule:?}, {n_q} × {n_k}, padded: {padded}");
    }
}

#[test]
fn a_rule_has_the_bits_of_its_matrix() {
    for shape in [[1, 1], [5, 700], [300, 300], [250, 40]] {
        for rule in rules(shape[1]) {
            compare(shape, &rule, 1);
            compare(shape, &rule, 2);
        }
    }
    // Threads divide the keys.
    for rule in rules(9000) {
        compare([1, 9000], &rule, 2);
        compare([40, 9000], &rule, 1);
    }
}

#[test]
fn a_rule_has_the_gradients_of_its_matrix() {
    let (n, d) = (70, 4);
    let [q, k, v, d_out] = [1, 2, 3, 4].map(|seed| numbers(n * d, seed));
    let [q, k, v] = [&q, &k, &v].map(|x| Heads::new("x", x, [1, 1, n, d]).unwrap());
    for rule in rules(n) {
        // One entry: the documents of the first.
        let matrix: Vec<bool> =
            (0..n * n).map(|pair| sees(&rule, 0, [pair / n, pair % n], [n; 3])).collect();
        let rule = first_entry(&rule);
        let matrix = MaskTensor::new(&matrix, &[n, n]).unwrap();
        let gradients = |mask| {
            let attention = Attention::new().mask(mask);
            let out: Tensor<4> = attention.forward(q, k, v).unwrap();
            attention.backward(q, k, v, out.as_slice(), &d_out).unwrap()
        };
        let (found, expected) =
            (gradients(Mask::NONE.rule(&rule)), gradients(Mask::NONE.allowed(matrix)));
        for (found, expected) in [
            (&found.query, &expected.query),
            (&found.key, &expected.key),
            (&found.value, &expected.value),
        ] {
            // The products over keys begin at another key, so they may differ by their rounding: 70 terms below 8.
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 70.0 * 8.0 * f32::EPSILON;
            assert!(found.as_slice().iter().zip(expected.as_slice()).all(near), "{rule:?}");
        }
    }
}

fn first_entry(rule: &Rule) -> Rule {
    match rule {
        Rule::Prefix(lengths) => Rule::Prefix(vec![lengths[0]]),
        Rule::Documents(position, ids) => Rule::Documents(*position, vec![ids[0].clone()]),
        Rule::All(rules) => Rule::All(rules.iter().map(first_entry).collect()),
        Rule::Any(rules) => Rule::Any(rules.iter().map(first_entry).collect()),
        other => other.clone(),
    }
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let x = [0.0; 6];
    let x = Heads::new("x", &x, [3, 1, 2, 1]).unwrap();
    let error = |rule: Rule| {
        let mask = Mask::NONE.rule(&rule);
        let error: Error = Attention::new().mask(mask).forward(x, x, x).unwrap_err();
        error.to_string()
    };
    let documents = |ids: Vec<Vec<i64>>| {
        let ids = ids.into_iter().map(Documents::new).collect();
        Rule::Documents(Position::TopLeft, ids)
    };
    assert!(error(Rule::Prefix(vec![1, 1])).contains("the lengths of prefixes"));
    assert!(error(documents(vec![vec![1, 1]; 2])).contains("the documents"));
    assert!(error(Rule::All(vec![documents(vec![vec![1]])])).contains("one a key"));
}
