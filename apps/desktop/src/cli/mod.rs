//! The command line: `regard` alone opens the window, and each subcommand has a module here.

mod attend;
mod bench;
mod calibrate;
mod completions;
mod destination;
mod embed;
mod export;
mod generate;
mod inputs;
mod limits;
mod man;
mod model;
pub(crate) mod models;
mod predict;
mod score;
pub(crate) mod suggest;
mod summary;
mod sweep;
mod tensors;
mod terminal;
mod trace;
mod walk;

use core::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use regard_kernels::Tier;
use regard_session::{Session, Start};
use regard_walkthrough::{Example, Settings};
use serde::Serialize;

use crate::failure::{BadInput as _, Failure};
use crate::model_files;
use crate::say::{Data, Printed, Text, tell};

/// The program's name.
const NAME: &str = "regard";

/// Attention, number by number.
///
/// Without a subcommand, opens the window. Without a display, summarises FILE or shows a walkthrough in the terminal.
#[derive(Debug, Parser)]
#[command(name = NAME, version)]
struct Cli {
    /// The example to open the window with
    #[arg(long, value_name = "NAME", value_parser = walk::example_parser())]
    example: Option<Example>,

    /// What to open: a model (english, a Hugging Face folder, a .gguf file, or a name in the local cache), a session that the
    /// window saved (.json) or copied as a link (#s=…), or a file of attention (safetensors, npy or npz)
    #[arg(value_name = "FILE", conflicts_with = "example")]
    file: Option<PathBuf>,

    /// A second model to compare with the first one, FILE: another quantization, or another model of its family
    #[arg(long, value_name = "MODEL", requires = "file")]
    compare: Option<String>,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Walk(walk::Args),
    Attend(attend::Args),
    Bench(bench::Args),
    Export(export::Args),
    Model(model::Args),
    Trace(trace::Args),
    Predict(predict::Args),
    Generate(generate::Args),
    Score(score::Args),
    Sweep(sweep::Args),
    Embed(embed::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Format {
    /// Prints a result: as text for people, or as JSON.
    fn print(self, text: impl FnOnce() -> String, value: &impl Serialize) -> Result<(), Failure> {
        match self {
            Self::Text => print(&Text(text())),
            Self::Json => print(&Data::json(value).context("writing JSON")?),
        }
    }
}

/// Runs the command line of this process. The exit code is 0 for success, 2 for wrong usage or bad input, and 1 for any other
/// failure.
pub fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|e| e.exit());
    regard_models::hide_caught_panics();
    let outcome = check_tier().and_then(|()| match cli.command {
        None => window(cli.example, cli.file.as_deref(), cli.compare.as_deref()),
        Some(Command::Walk(args)) => walk::run(&args),
        Some(Command::Attend(args)) => attend::run(&args),
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Export(args)) => export::run(&args),
        Some(Command::Model(args)) => model::run(&args),
        Some(Command::Trace(args)) => trace::run(&args),
        Some(Command::Predict(args)) => predict::run(&args),
        Some(Command::Generate(args)) => generate::run(&args),
        Some(Command::Score(args)) => score::run(&args),
        Some(Command::Sweep(args)) => sweep::run(&args),
        Some(Command::Embed(args)) => embed::run(&args),
        Some(Command::Completions(args)) => completions::run(&args),
        Some(Command::Man(args)) => man::run(&args),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(format_args!("error: {:#}", failure.error));
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Refuses a word in `REGARD_TIER` that the kernels would ignore.
fn check_tier() -> Result<(), Failure> {
    let set = std::env::var_os("REGARD_TIER").filter(|word| !word.is_empty());
    let Some(word) = set else { return Ok(()) };
    let word = word.display();
    match Tier::from_word(&word.to_string()) {
        Some(tier) if tier.is_available() => Ok(()),
        Some(tier) => {
            let why = format!("REGARD_TIER={word}: this processor has no {}", tier.name());
            Err(anyhow::anyhow!(why)).bad_input()
        }
        None => {
            let why = format!("REGARD_TIER={word}: the tiers are portable, avx2 and avx512");
            Err(anyhow::anyhow!(why)).bad_input()
        }
    }
}

/// The command line with all its commands.
fn command() -> clap::Command {
    take_negative_numbers(Cli::command())
}

/// Lets the value of each option be a negative number. The option then refuses it and says why. Without this, clap would report
/// `-1` as an option that does not exist.
fn take_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes_value = !arg.is_positional() && arg.get_action().takes_values();
            let is_list = arg.get_value_delimiter().is_some();
            let arg = if is_list { arg.allow_hyphen_values(true) } else { arg }; // `-1,2` is no number
            if takes_value { arg.allow_negative_numbers(true) } else { arg }
        })
        .mut_subcommands(take_negative_numbers)
}

/// The model that the window opens. An error in its files is reported here, before the window opens.
fn model_to_show(name: &Path) -> Result<String, Failure> {
    let checkpoint = model_files::checkpoint(name, false)?;
    regard_models::Description::of(&checkpoint).bad_input()?;
    let path = std::path::absolute(name).unwrap_or_default();
    let is_path = !crate::bundled::is_name(name) && path.exists();
    Ok(if is_path { path.display().to_string() } else { name.display().to_string() })
}

fn window(
    example: Option<Example>,
    file: Option<&Path>,
    compare: Option<&str>,
) -> Result<(), Failure> {
    let model = file.filter(|path| !Session::is_named(path) && model_files::is_model(path));
    let start = match (model, file) {
        (Some(name), _) => {
            let second = compare.map(|name| model_to_show(Path::new(name))).transpose()?;
            Start::Model { name: model_to_show(name)?, second }
        }
        (None, Some(path)) if compare.is_some() => {
            return Err(anyhow::anyhow!(
                "--compare compares two models, and {} is not a model",
                path.display()
            ))
            .bad_input();
        }
        (None, Some(path)) => {
            if Session::is_named(path) {
                Session::read(&crate::host::Native, path).bad_input()?;
            } else {
                std::fs::metadata(path)
                    .with_context(|| format!("cannot read {}{}", path.display(), meant(path)))
                    .bad_input()?;
            }
            Start::File(path.to_owned())
        }
        (None, None) => example.map_or(Start::Last, Start::Example),
    };
    let example = example.unwrap_or(Example::MathOfAttention);
    let Err(why) = crate::window::open(start) else { return Ok(()) };
    if let Some(name) = model {
        tell(format_args!("regard: {why}; this is a summary of the model"));
        return model::summarize(name);
    }
    if let Some(path) = file {
        let text = summary::of_file(path).bad_input()?;
        tell(format_args!("regard: {why}; this is a summary of the file"));
        return print(&Text(text));
    }
    tell(format_args!(
        "regard: {why}; this is the walkthrough in the terminal, and `regard --help` lists the subcommands"
    ));
    walk::show(example, &Settings::default())
}

/// The command or the example whose name is most similar to that of a file that does not exist.
fn meant(path: &Path) -> String {
    let name = path.to_string_lossy();
    let command = command();
    let commands =
        command.get_subcommands().map(|command| format!("{NAME} {}", command.get_name()));
    let examples =
        Example::ALL.iter().map(|example| format!("{NAME} --example {}", example.name()));
    let models = regard_bundled::NAMES.map(|model| format!("{NAME} {model}"));
    let known = commands.chain(examples).chain(models);
    let last_word = |line: &String| line.rsplit(' ').next().map(str::to_owned);
    let (lines, words): (Vec<String>, Vec<String>) =
        known.filter_map(|line| last_word(&line).map(|word| (line, word))).unzip();
    let nearest = suggest::nearest(&name, words.clone());
    let line = nearest.and_then(|word| lines.get(words.iter().position(|known| *known == word)?));
    line.map_or_else(String::new, |line| format!(" (did you mean `{line}`?)"))
}

/// The number of threads for `--threads`: at most the number of cores, because more threads are no faster; 0 means one for each
/// core.
fn threads(count: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    if count > cores {
        tell(format_args!("note: {count} threads are more than the cores; {cores} are used"));
    }
    if count == 0 { cores } else { count.min(cores) }
}

/// Parses a number of things, or the index of one of them.
fn parse_count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_e| "a whole number from 0 on is needed".to_owned())
}

/// Prints text for people or data for programs.
fn print(what: &impl Printed) -> Result<(), Failure> {
    Ok(what.print().context("writing to the terminal")?)
}
