//! `regard bench`: naive loops beside the kernels beside the multi-head layer.

use regard_benches::{HEADER, Line, measure, ours, tiers};

use super::failure::{BadInput as _, Failure};
use super::{Format, print};

/// Measure the kernels against naive loops, on this machine
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    what: regard_benches::Args,

    /// How to print the results: a table, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.format == Format::Text {
        print(&format!("{}\n\n{HEADER}\n", tiers()))?;
    }
    for (operation, shape) in args.what.operations() {
        let mut subjects = ours::subjects(operation, shape).bad_input()?;
        subjects.keep(&args.what.implementations).bad_input()?;
        let lines = measure(subjects).bad_input()?;
        let text = match args.format {
            Format::Text => lines.iter().map(Line::row).collect::<String>(),
            Format::Json => lines.iter().map(Line::json).collect(),
        };
        print(&text)?;
    }
    Ok(())
}
