//! The command line: `regard` alone opens the window, and each subcommand has a module.

mod attend;
mod bench;
mod export;
mod failure;
mod generate;
mod inputs;
mod model;
pub(crate) mod models;
mod predict;
mod score;
mod summary;
mod sweep;
mod tensors;
mod terminal;
mod trace;
mod walk;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use regard_kernels::Temperature;
use regard_ui::{Session, Start};
use regard_walkthrough::{Example, Settings};

use self::failure::BadInput as _;
pub(crate) use self::failure::Failure;

/// Attention you can trust, and see.
///
/// Without a subcommand, opens the window. Without a display, summarises FILE or shows a walkthrough in the terminal.
#[derive(Debug, Parser)]
#[command(name = "regard", version)]
struct Cli {
    /// The example to open the window with
    #[arg(long, value_name = "NAME")]
    example: Option<Example>,

    /// What to open: a model (story, a Hugging Face folder, a .gguf file, or a name in the local cache), a session that the
    /// window saved (.json), or a file of attention (safetensors, npy or npz)
    #[arg(value_name = "FILE", conflicts_with = "example")]
    file: Option<PathBuf>,

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
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Runs the command line of this process. 0 for success, 2 for wrong usage or bad input, 1 for any other failure.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        None => window(cli.example, cli.file.as_deref()),
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
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            anstream::eprintln!("error: {:#}", failure.error);
            ExitCode::from(failure.exit_code)
        }
    }
}

fn window(example: Option<Example>, file: Option<&Path>) -> Result<(), Failure> {
    let model = file.and_then(Path::to_str).filter(|name| models::open::is_model(name));
    let start = match (model, file) {
        (Some(name), _) => {
            // A fault of the files is told here, before there is a window.
            let checkpoint = models::open::checkpoint(name, false)?;
            regard_models::Description::of(&checkpoint).bad_input()?;
            let path = std::path::absolute(name).unwrap_or_default();
            let is_path = name != crate::bundled::NAME && path.exists();
            Start::Model(if is_path { path.display().to_string() } else { name.to_owned() })
        }
        (None, Some(path)) => {
            if Session::is_named(path) {
                Session::read(&crate::host::Native, path).bad_input()?;
            } else {
                std::fs::metadata(path)
                    .with_context(|| format!("cannot read {}", path.display()))
                    .bad_input()?;
            }
            Start::File(path.to_owned())
        }
        (None, None) => example.map_or(Start::Last, Start::Example),
    };
    let example = example.unwrap_or(Example::ALL[0]);
    let why = if has_display() {
        match crate::window::run(start) {
            Ok(()) => return Ok(()),
            Err(e) => {
                // What stands before the last colon is where in the window library it was found.
                let reason = e.to_string();
                format!(
                    "the window could not be opened ({})",
                    reason.rsplit(": ").next().unwrap_or_default()
                )
            }
        }
    } else {
        "there is no display".to_owned()
    };
    if let Some(name) = model {
        anstream::eprintln!("regard: {why}; this is a summary of the model");
        return model::summarize(name);
    }
    if let Some(path) = file {
        let text = summary::of_file(path).bad_input()?;
        anstream::eprintln!("regard: {why}; this is a summary of the file");
        return print(&text);
    }
    anstream::eprintln!(
        "regard: {why}; this is the walkthrough in the terminal, and `regard --help` lists the subcommands"
    );
    walk::show(example, &Settings::default())
}

/// Whether a window can be expected to open. Only where the environment says so can it be known beforehand.
fn has_display() -> bool {
    let is_set =
        |name: &str| std::env::var_os(name).is_some_and(|value: OsString| !value.is_empty());
    let by_environment = cfg!(all(unix, not(target_vendor = "apple"), not(target_os = "android")));
    !by_environment || ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"].into_iter().any(is_set)
}

fn parse_temperature(text: &str) -> Result<Temperature, String> {
    let t: f32 = text.parse().map_err(|e| format!("{e}"))?;
    Temperature::new(t).map_err(|e| e.to_string())
}

/// Prints with colours where the terminal has them.
fn print(text: &str) -> Result<(), Failure> {
    print_to(anstream::stdout().lock(), text)
}

/// Prints a text that is not the program's own, every character of it.
fn print_as_is(text: &str) -> Result<(), Failure> {
    print_to(std::io::stdout().lock(), text)
}

/// A reader that stops early (`| head`) is no error.
fn print_to(mut out: impl std::io::Write, text: &str) -> Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(e).context("writing to the terminal")?
        }
        _ => Ok(()),
    }
}
