use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use regard_figure::{Figure, Format, LabelledMatrix, Look, Map, Plot};
use regard_heads::{AttentionMaps, ColorScale, MapPart, Progress, Survey, unattended};
use regard_session::laboratory::{self, Engine};
use regard_session::walkthrough::{self, WalkthroughState, of_step, of_walkthrough};
use regard_session::{PlotName, Room, Session};
use regard_walkthrough::{Example, Quantity, Settings, StepKey, Walkthrough};

use super::destination::Destination;
use super::suggest;
use crate::failure::{BadInput as _, Failure};
use crate::host::Native;
use crate::opened;
use crate::say::tell;

/// Write a matrix as a picture, as a page or as numbers
///
/// An example gives the matrix of a step [default: its weights]. A session (.json) gives the matrix of its open room. A file of
/// attention (safetensors, npy or npz) gives a head, or without --head the mean of the layer's heads. Layers and heads count
/// from 0.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An example's name, a file of attention, or a session
    #[arg(value_name = "EXAMPLE|FILE|SESSION.regard.json")]
    source: PathBuf,

    /// The step of an example [default: weights], or the attention of a file that has several, such as decoder_attentions, or
    /// attentions[1] for the second entry of a batch
    #[arg(long, value_name = "NAME")]
    matrix: Option<String>,

    /// The layer of a file [default: the last one]
    #[arg(long, value_name = "L", value_parser = super::parse_count)]
    layer: Option<usize>,

    /// The head of the layer
    #[arg(long, value_name = "H", value_parser = super::parse_count)]
    head: Option<usize>,

    /// Attention rollout of a file, up to the layer
    #[arg(long, conflicts_with = "head")]
    rollout: bool,

    /// The kind of file to write: the matrix; its weights as lines between tokens; all heads (grid) of a file, or of a session
    /// of the model room; or curves (.csv too). The curves of an example are the weights of a query at every temperature. Those
    /// of a laboratory's session are the sorted weights of a row (curves), or entropy, gradient, and gradient-by-d
    #[arg(long, value_enum, value_name = "VIEW")]
    view: Option<View>,

    /// The file to write: .png or .svg for a picture, .html for a page that shows the number under the pointer (one file that
    /// needs no network), .csv, .npy or .safetensors for numbers
    #[arg(long, value_name = "OUT")]
    to: PathBuf,

    /// The colours of a picture [default: those of the window or the session; diverging for numbers of both signs]
    #[arg(long, value_name = "MAP", value_parser = map_parser())]
    map: Option<Map>,

    /// Map colours to the logarithm of the numbers
    #[arg(long)]
    log: bool,

    /// Write the cells alone as .png, without title, labels and colour bar
    #[arg(long)]
    bare: bool,

    /// Overwrite the file that is read
    #[arg(long)]
    force: bool,
}

/// The view of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum View {
    Matrix,
    Lines,
    Grid,
    Curves,
    Entropy,
    Gradient,
    #[value(name = "gradient-by-d")]
    GradientByDim,
}

impl View {
    /// The plot of the laboratory, if the view is one.
    fn plot(self) -> Option<PlotName> {
        match self {
            Self::Curves => Some(PlotName::Sorted),
            Self::Entropy => Some(PlotName::Entropy),
            Self::Gradient => Some(PlotName::Gradient),
            Self::GradientByDim => Some(PlotName::GradientByDim),
            Self::Matrix | Self::Lines | Self::Grid => None,
        }
    }
}

/// Reads a map's name, and lists the names in the help.
fn map_parser() -> impl TypedValueParser<Value = Map> {
    PossibleValuesParser::new(Map::ALL.iter().map(|map| map.name()))
        .try_map(|name| name.parse::<Map>())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // The format is checked before a large file is read.
    let format = Format::of(&args.to).bad_input()?;
    let look = Look { logarithmic: args.log.then_some(true), ..Look::default() };
    if args.bare && (format != Format::Png || args.view.is_some_and(|view| view != View::Matrix)) {
        return Err(anyhow::anyhow!("--bare is for a .png of a matrix")).bad_input();
    }
    if !format.is_picture() && (args.map.is_some() || args.log) {
        return Err(anyhow::anyhow!(
            "--map and --log are for pictures, and {} holds numbers",
            args.to.display()
        ))
        .bad_input();
    }
    let to = Destination::new(&args.to, args.force)?;
    let name = || args.source.display().to_string();
    if args.view == Some(View::Grid) {
        let figure = of_all_heads(args, look).with_context(name).bad_input()?;
        let bytes = figure.encode(format).bad_input()?;
        return to.write_and_tell(&bytes, figure.title());
    }
    if let Some(plot) = args.view.and_then(View::plot) {
        let plot = curves(args, plot).bad_input()?;
        let bytes = plot.encode(format).bad_input()?;
        return to.write_and_tell(&bytes, &plot.title);
    }
    let matrix = match name().parse::<Example>() {
        Ok(example) => of_example(example, args, look),
        Err(_) if Session::is_named(&args.source) => of_session(args),
        Err(_) if args.source.exists() => of_file(args, look).with_context(name),
        Err(_) => Err(unknown(&name())),
    };
    let matrix = matrix.bad_input()?;
    let matrix = match args.map {
        Some(map) => matrix.with_map(map),
        None => matrix,
    };
    let bytes = match args.view {
        _ if args.bare => matrix.bare_png(),
        Some(View::Lines) => matrix.lines().and_then(|figure| figure.encode(format)),
        _ => matrix.encode(format),
    };
    let bytes = bytes.bad_input()?;
    let (rows, cols) = (matrix.rows.len(), matrix.cols.len());
    to.write_and_tell(&bytes, &format!("{}, {rows} × {cols}", matrix.title))
}

/// All heads of a file of attention, or of the model of a session.
fn of_all_heads(args: &Args, look: Look) -> Result<Figure> {
    ensure!(
        args.layer.is_none() && args.head.is_none() && !args.rollout,
        "--layer, --head and --rollout choose one matrix, and --view grid shows all heads"
    );
    let look = Look { map: args.map.unwrap_or(look.map), ..look };
    if Session::is_named(&args.source) {
        let session = Session::read(&Native, &args.source)?;
        return match session.room {
            Room::Stage => regard_session::model::grid(&Native, &session.model, look),
            room => bail!(
                "--view grid shows the heads of a model, and the {} has no model",
                in_words(room)
            ),
        };
    }
    ensure!(args.source.exists(), "--view grid shows the heads of a file of attention");
    let maps = opened_maps(args, &unattended)?;
    let survey = Survey::new(&maps, &unattended)?;
    Ok(survey.figure(&maps, look, ColorScale::Shared))
}

/// A room in a sentence.
fn in_words(room: Room) -> &'static str {
    match room {
        Room::Walkthrough => "walkthrough of this session",
        Room::Laboratory => "laboratory of this session",
        Room::Stage => "stage of this session",
    }
}

/// The weights of a query by temperature, or a plot of a session of the laboratory. The query is the first one of an example,
/// or the one that is picked in a session.
fn curves(args: &Args, plot: PlotName) -> Result<Plot> {
    ensure!(
        args.layer.is_none() && args.head.is_none() && !args.rollout && args.matrix.is_none(),
        "--matrix, --layer, --head and --rollout choose a matrix, and this view shows curves"
    );
    let name = args.source.display().to_string();
    let state = match name.parse::<Example>() {
        Ok(example) => WalkthroughState::new(example),
        Err(_) if Session::is_named(&args.source) => {
            let session = Session::read(&Native, &args.source)?;
            match session.room {
                Room::Laboratory => return of_laboratory(&session, plot),
                Room::Walkthrough => {}
                Room::Stage => bail!(
                    "the {} shows no curves; examples and the laboratory do",
                    in_words(Room::Stage)
                ),
            }
            session.walkthrough
        }
        Err(_) if args.source.exists() => bail!(
            "{name}: curves are of an example or of a session; a file of attention has --view matrix, lines and grid"
        ),
        Err(_) => return Err(unknown(&name)),
    };
    ensure!(
        plot == PlotName::Sorted,
        "this view is for a session of the laboratory; an example has --view curves"
    );
    let walkthrough = Walkthrough::compute(&state.inputs, &state.settings)?;
    let name = state.example().name();
    walkthrough::curves(&state, &walkthrough).with_context(|| format!("{name} has no weights"))
}

fn of_laboratory(session: &Session, name: PlotName) -> Result<Plot> {
    let state = &session.laboratory;
    let outcome = Engine::new(Arc::new(Native)).run(state.request(), &|_| ())?;
    laboratory::plot(&outcome, state.chosen, name).context("the laboratory has no such plot")
}

/// The error of a name that is neither an example nor a file.
fn unknown(source: &str) -> anyhow::Error {
    let names: Vec<_> = Example::ALL.iter().copied().map(Example::name).collect();
    let hint = suggest::hint(source, names.iter().copied());
    let names = names.join(", ");
    anyhow::anyhow!(
        "{source}: there is neither such a file nor such an example{hint}; the examples are {names}"
    )
}

fn of_example(example: Example, args: &Args, look: Look) -> Result<LabelledMatrix> {
    ensure!(
        args.layer.is_none() && args.head.is_none() && !args.rollout,
        "--layer, --head and --rollout are for files; a head of an example is a step, such as head_1.weights"
    );
    let walkthrough = Walkthrough::run(example, &Settings::default())?;
    let steps = || walkthrough.steps.iter().map(|s| s.key.to_string()).collect::<Vec<_>>();
    let Some(key) = &args.matrix else {
        let weights = Some(Quantity::Weights.into());
        return of_walkthrough(&walkthrough, weights, look).context("the example has no step");
    };
    let step = key.parse::<StepKey>().ok().and_then(|key| walkthrough.step(key));
    let step = step.with_context(|| {
        let (hint, steps) = (suggest::hint(key, steps()), steps().join(", "));
        format!("{} has no matrix `{key}`{hint}; it has {steps}", example.name())
    })?;
    Ok(of_step(&walkthrough, step, look))
}

/// The matrix that the open room of a session shows.
fn of_session(args: &Args) -> Result<LabelledMatrix> {
    ensure!(
        args.layer.is_none() && args.head.is_none() && !args.rollout && args.matrix.is_none(),
        "--matrix, --layer, --head and --rollout are not for sessions, which tell themselves what is shown"
    );
    let session = Session::read(&Native, &args.source)?;
    let logarithmic = args.log.then_some(true).or(session.look.logarithmic);
    let look = Look { logarithmic, ..session.look };
    match session.room {
        Room::Walkthrough => {
            let state = &session.walkthrough;
            let walkthrough = Walkthrough::compute(&state.inputs, &state.settings)?;
            of_walkthrough(&walkthrough, state.picked_step(), look)
                .context("the example has no step")
        }
        Room::Laboratory => Ok(Engine::new(Arc::new(Native))
            .run(session.laboratory.request(), &|_| ())?
            .matrix(look)),
        Room::Stage => regard_session::model::matrix(&Native, &session.model, look),
    }
}

/// Opens the attention of a file. If there are others, and none was named, it tells how to choose them.
fn opened_maps(args: &Args, progress: &Progress<'_>) -> Result<AttentionMaps> {
    let name = args.matrix.as_deref();
    let maps = AttentionMaps::open(&opened::stream, &args.source, name, progress)?;
    if name.is_none() && maps.names().len() > 1 {
        tell(format_args!(
            "regard: this is `{}`; --matrix chooses another: {}",
            maps.name(),
            others(&maps)
        ));
    }
    Ok(maps)
}

/// The names of the other attentions of a file.
pub(super) fn others(maps: &AttentionMaps) -> String {
    let others = maps.names().iter().filter(|name| *name != maps.name());
    others.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn of_file(args: &Args, look: Look) -> Result<LabelledMatrix> {
    let bar = ProgressBar::new(100);
    let progress = |part: f32| {
        bar.set_position((part * 100.0) as u64);
        core::ops::ControlFlow::Continue(())
    };
    let maps = opened_maps(args, &progress)?;
    let layer = args.layer.unwrap_or_else(|| maps.layer_number(maps.shape().layers - 1));
    let part = match args.head {
        Some(head) => MapPart::Head(maps.find(layer, head)?),
        None if args.rollout => MapPart::Rollout(maps.find_layer(layer)?),
        None => MapPart::Mean(maps.find_layer(layer)?),
    };
    let matrix = maps.matrix(part, look, &progress)?;
    bar.finish_and_clear();
    Ok(matrix)
}
