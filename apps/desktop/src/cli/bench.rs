//! `regard bench`: the naive loops, the kernels and the multi-head layer, measured in turns.

use regard_benches::{HEADER, ModelArgs, Shape, measure, measure_model, ours, tiers};
use serde_json::Value;

use super::models::open;
use super::{Format, print, threads};
use crate::failure::{BadInput as _, Failure};
use crate::say::Text;

/// Measure the kernels against naive loops, on this machine
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    whole: Option<Whole>,

    #[command(flatten)]
    what: regard_benches::Args,

    /// How to print the results: a table, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Measurements with flags of their own.
#[derive(Debug, clap::Subcommand)]
enum Whole {
    /// Measure a model: opening it, reading texts, and writing a token compared with a loop that reads memory
    Model {
        #[command(flatten)]
        model: open::Args,

        #[command(flatten)]
        what: ModelArgs,

        /// How to print the results: as text, or one JSON object a line
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(Whole::Model { model, what, format }) = &args.whole {
        if *format == Format::Text {
            print(&Text(format!("{}\n\n", tiers())))?;
        }
        let tell = |text: String, json: Value| {
            format.print(|| format!("{text}\n"), &json).map_err(|failure| failure.error)
        };
        let checkpoint = || model.checkpoint().map_err(|failure| failure.error);
        let mut what = what.clone();
        what.threads.iter_mut().for_each(|count| *count = threads(*count));
        return measure_model(checkpoint, &what, tell).bad_input();
    }
    let operations = args.what.operations().bad_input()?;
    let mut is_headed = args.format == Format::Json;
    let threads = threads(args.what.threads);
    for (operation, shape) in operations {
        let shape = Shape { threads, ..shape };
        let mut subjects = ours::subjects(operation, shape).bad_input()?;
        subjects.keep(&args.what.implementations).bad_input()?;
        if !core::mem::replace(&mut is_headed, true) {
            print(&Text(format!("{}\n\n{HEADER}\n", tiers())))?;
        }
        for line in measure(subjects).bad_input()? {
            args.format.print(|| line.row(), &line.json())?;
        }
    }
    Ok(())
}
