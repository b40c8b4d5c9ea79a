use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use regard_walkthrough::{Example, Kind, Settings, Walkthrough};

use super::failure::{BadInput as _, Failure};
use crate::export::{self, Format, Matrix};
use crate::heads::{AttentionMaps, Over, unattended};
use crate::palette::{Map, Scale};
use crate::token::Token;
use crate::ui::heads::Opened;
use crate::ui::laboratory::Engine;
use crate::ui::{Room, Session};

/// Write a matrix as a picture or as numbers
///
/// From an example, the matrix of a step. From a session (.json), the matrix of its room. From a file of attention (safetensors, npy or npz), a head; without --head the
/// mean of a layer's heads, without --layer the mean over the layers. Layers and heads count from 0.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An example's name, a file of attention, or a session
    #[arg(value_name = "EXAMPLE|FILE|SESSION.regard.json")]
    source: String,

    /// The step of an example, such as weights; or the tensor of a file that has several
    #[arg(long, value_name = "NAME")]
    matrix: Option<String>,

    /// The layer, of a file
    #[arg(long, value_name = "L")]
    layer: Option<usize>,

    /// The head, of a file
    #[arg(long, value_name = "H")]
    head: Option<usize>,

    /// Attention rollout as far as the layer (or the last), of a file
    #[arg(long, conflicts_with = "head")]
    rollout: bool,

    /// The file to write: .png, .svg, .csv, .npy or .safetensors
    #[arg(long, value_name = "OUT")]
    to: PathBuf,

    /// The colours of a picture [default: ylorrd for weights, diverging for numbers of any sign]
    #[arg(long, value_name = "MAP", value_parser = map_parser())]
    map: Option<Map>,

    /// Spread the colours by the numbers' logarithm
    #[arg(long)]
    log: bool,
}

/// Reads a map's name, and lists the names in the help.
fn map_parser() -> impl TypedValueParser<Value = Map> {
    PossibleValuesParser::new(Map::ALL.map(Map::name)).try_map(|name| name.parse::<Map>())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Said at once, not after a large file was read.
    Format::of(&args.to).bad_input()?;
    let matrix = match args.source.parse::<Example>() {
        Ok(example) => of_example(example, args),
        Err(_) if Session::is_named(Path::new(&args.source)) => of_session(args),
        Err(_) if Path::new(&args.source).exists() => of_file(args).with_context(|| args.source.clone()),
        Err(e) => Err(anyhow::anyhow!("{e}; and no such file")),
    };
    let scale = if args.log { Scale::Logarithmic } else { Scale::Linear };
    match matrix.bad_input()?.write(&args.to, args.map, scale) {
        Err(e @ export::Error::Write { .. }) => Err(anyhow::Error::from(e).into()),
        outcome => outcome.bad_input(),
    }
}

fn of_example(example: Example, args: &Args) -> Result<Matrix> {
    ensure!(
        args.layer.is_none() && args.head.is_none() && !args.rollout,
        "--layer, --head and --rollout are for files: a head of an example is a step of its own, such as head_1.weights"
    );
    let walkthrough = Walkthrough::run(example, &Settings::default())?;
    let steps = || walkthrough.steps.iter().map(|s| s.key.as_str()).collect::<Vec<_>>().join(", ");
    let Some(key) = &args.matrix else {
        bail!("--matrix is missing: {} has {}", example.name(), steps());
    };
    let step = walkthrough.step(key);
    let step = step.with_context(|| format!("{} has no matrix `{key}`; it has {}", example.name(), steps()))?;
    Ok(Matrix::of_step(&walkthrough, step))
}

/// What the room of a session shows.
fn of_session(args: &Args) -> Result<Matrix> {
    ensure!(
        args.layer.is_none() && args.head.is_none() && !args.rollout && args.matrix.is_none(),
        "--matrix, --layer, --head and --rollout are not for sessions: a session says itself what is shown"
    );
    let session = Session::read(Path::new(&args.source))?;
    match session.room {
        Room::Walkthrough => {
            let state = &session.walkthrough;
            let walkthrough = Walkthrough::compute(&state.inputs, &state.settings)?;
            crate::ui::of_walkthrough(&walkthrough, state.picked_step()).context("the example has no step")
        }
        Room::Laboratory => Ok(Engine::default().run(session.laboratory.request(), &|_| ())?.matrix()),
        Room::Heads => Ok(Opened::open(session.heads.source.clone(), &unattended)?.matrix(session.heads)?),
    }
}

fn of_file(args: &Args) -> Result<Matrix> {
    let bar = ProgressBar::new(100);
    let progress = |part: f32| {
        bar.set_position((part * 100.0) as u64);
        core::ops::ControlFlow::Continue(())
    };
    let maps = AttentionMaps::open(Path::new(&args.source), args.matrix.as_deref(), &progress)?;
    let shape = maps.shape();
    let (title, values) = match (args.layer, args.head) {
        (layer, None) if args.rollout => {
            let layer = layer.map_or(Ok(shape.layers - 1), |number| maps.find_layer(number))?;
            let title = format!("Attention rollout to layer {}", maps.layer_number(layer));
            (title, maps.rollout(layer, &progress)?)
        }
        (Some(layer), Some(head)) => {
            (format!("Layer {layer}, head {head}"), maps.head(maps.find(layer, head)?).into_owned())
        }
        (Some(layer), None) => {
            let mean = maps.mean(Over::HeadsOf(maps.find_layer(layer)?))?;
            (format!("Layer {layer}, mean of {} heads", shape.heads), mean)
        }
        (None, Some(head)) => {
            (format!("Head {head}, mean of {} layers", shape.layers), maps.mean(Over::LayersOf(head))?)
        }
        (None, None) => (format!("Mean of {} layers of {} heads", shape.layers, shape.heads), maps.mean(Over::All)?),
    };
    bar.finish_and_clear();
    let tokens = |tokens: Option<&[Token]>, n| tokens.map_or_else(|| Token::numbers(n), <[Token]>::to_vec);
    // Scores, say, are opened as well.
    let kind = if values.iter().any(|x| *x < 0.0) { Kind::Signed } else { Kind::Weights };
    Ok(Matrix {
        title,
        name: "attention".to_owned(),
        values: Arc::new(values),
        rows: tokens(maps.query_tokens(), shape.queries),
        cols: tokens(maps.key_tokens(), shape.keys),
        axes: ["query", "key"],
        kind,
    })
}
