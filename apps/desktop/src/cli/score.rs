//! `regard score`: one score of a head, step by step.

use core::fmt::Write as _;

use regard_figure::numbers;
use regard_models::{HeadAddress, Rounded, Score, WhyHidden};
use serde::Serialize;

use super::models::{Run, run, shown, working};
use super::{Format, parse_count};
use crate::failure::{BadInput as _, Failure};
use crate::model_files;

/// Show how a head computes the weight of one query and one key
///
/// The steps are the query and the key before and after the rotary position, their products by feature, the dot product, the
/// scale, the soft cap, the bias, the mask, the temperature and the softmax, with the errors compared with the same steps in
/// 64-bit numbers. The score and the weight are the numbers that `regard trace` writes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: regard score story --text \"Mia gave Tom the ball.\" --head 1.0 --query 5 --key 2"
)]
pub(crate) struct Args {
    #[command(flatten)]
    run: run::Args,

    /// The head: layer and head, from 0; for t5 and whisper, L is encoder.L, decoder.L or cross.L
    #[arg(long, value_name = "L.H")]
    head: HeadAddress,

    /// The query's position, from 0
    #[arg(long, value_name = "I", value_parser = parse_count)]
    query: usize,

    /// The key's position, from 0
    #[arg(long, value_name = "J", value_parser = parse_count)]
    key: usize,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Serialize)]
struct Unfolded {
    query_token: String,
    key_token: String,
    #[serde(flatten)]
    score: Score,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let run = args.run.read()?;
    let description = run.model.description();
    let lengths = run.reading.lengths();
    let kept = description.score_bytes(args.head, lengths);
    let needed = description.run_bytes(lengths, 1).saturating_add(kept);
    model_files::allow("the run takes", needed)?;
    let score = || run.pass().score(&run.reading.input, args.head, args.query, args.key);
    let score = working("running the model", score).bad_input()?;
    let unfolded = unfolded(score, &run);
    args.format.print(|| text(&unfolded), &unfolded)
}

fn unfolded(score: Score, run: &Run) -> Unfolded {
    let both = [&run.reading.tokens, &run.reading.decoder_tokens];
    let [queries, keys] = score.head.attention.sides(both);
    let token = |tokens: &[String], at: usize| tokens.get(at).cloned().unwrap_or_default();
    Unfolded { query_token: token(queries, score.query), key_token: token(keys, score.key), score }
}

fn text(unfolded: &Unfolded) -> String {
    let Unfolded { query_token, key_token, score } = unfolded;
    let tokens = shown(&[query_token.clone(), key_token.clone()]);
    let mut out = format!(
        "head {}: query {} ({}), key {} ({})\n\n",
        score.head, score.query, tokens[0], score.key, tokens[1]
    );
    push_features(&mut out, score);
    out.push('\n');
    for (step, number) in steps(score) {
        let _ = writeln!(out, "{step:<22} {number}");
    }
    out
}

/// A row for each feature of the head.
fn push_features(out: &mut String, score: &Score) {
    let before = score.q_before.iter().zip(&score.k_before).next();
    let _ = write!(out, "{:>7}", "feature");
    let names =
        if before.is_some() { &["q before", "k before", "q", "k"][..] } else { &["q", "k"] };
    for name in names.iter().chain(&["product"]) {
        let _ = write!(out, " {name:>12}");
    }
    out.push('\n');
    for (i, product) in score.products.iter().enumerate() {
        let _ = write!(out, "{i:>7}");
        let before = before.iter().flat_map(|(q, k)| [q[i], k[i]]);
        for number in before.chain([score.q[i], score.k[i], *product as f32]) {
            let _ = write!(out, " {:>12}", number_of(number.into(), 6));
        }
        out.push('\n');
    }
}

/// A number with all its decimals: a rounded one would hide the error beside it.
fn number_of(x: f64, decimals: usize) -> String {
    format!("{x:.decimals$}").replace("inf", "∞").replace('-', "−")
}

/// The steps from the dot product to the weight, each with its number.
fn steps(score: &Score) -> Vec<(&'static str, String)> {
    let number = |x: f32| number_of(x.into(), 6);
    let checked = |x: &Rounded| {
        let Rounded { value, reference, error, .. } = x;
        let reference = number_of(*reference, 12);
        format!("{}  (in f64 {reference}, error {})", number(*value), numbers::error(*error))
    };
    let mut steps = vec![
        ("dot product q·k", checked(&score.dot)),
        ("× scale", format!("{} = {}", number(score.scale), number(score.scaled))),
    ];
    if let Some(cap) = score.softcap {
        let cap = number(cap);
        steps.push(("soft cap c·tanh(s/c)", format!("c = {cap}: {}", number(score.capped))));
    }
    if let Some([query, key]) = score.of_positions {
        steps.push(("+ query · key of the distance", number(query)));
        steps.push(("+ key · query of the distance", number(key)));
    } else if let Some(bias) = score.bias {
        steps.push(("+ bias of the distance", number(bias)));
    }
    let hidden = score.hidden.map(|hidden| match hidden {
        WhyHidden::Causal => "hidden: the key comes after the query",
        WhyHidden::Window => "hidden: the key lies outside the sliding window",
        _ => "hidden: the edge is cut",
    });
    steps.push(("mask", hidden.unwrap_or("the query sees the key").to_owned()));
    steps.push(("score s", number(score.score.unwrap_or(f32::NEG_INFINITY))));
    steps.push(("temperature T", number(score.temperature)));
    steps.push(("largest score m", number(score.maximum.unwrap_or(f32::NEG_INFINITY))));
    steps.push(("sum of exp((s − m)/T)", number(score.sum as f32)));
    steps.push(("weight", checked(&score.weight)));
    steps
}
