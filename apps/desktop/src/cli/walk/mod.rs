mod markdown;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use regard_kernels::Temperature;
use regard_walkthrough::{Effective, Example, Inputs, Settings, Walkthrough, Without};
use serde_json::json;

use super::{print, terminal};
use crate::failure::{BadInput as _, Failure};
use crate::say::{Data, Text};

/// Walk through an example, step by step, in the terminal
///
/// Without a name, lists the examples.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The example's name
    #[arg(value_parser = example_parser())]
    example: Option<Example>,

    /// How to print it
    #[arg(long, value_enum, default_value_t = WalkFormat::Text)]
    format: WalkFormat,

    /// Divide the scores by T before softmax: 0 keeps the largest score alone, inf makes the weights uniform
    #[arg(long, value_name = "T", default_value = "1", requires = "example")]
    temperature: Temperature,

    /// Hide the tokens after each token
    #[arg(long, requires = "example")]
    causal: bool,

    /// Leave out a step, to see what breaks
    #[arg(long, value_name = "STEP", value_parser = step_parser(), requires = "example")]
    without: Option<Without>,
}

/// How a walkthrough is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WalkFormat {
    /// Coloured heatmaps for the terminal.
    Text,
    /// Every number.
    Json,
    /// A chapter with pictures, for a book, a course or a notebook. It needs an example.
    Markdown,
}

/// Reads an example's name, and lists the names in the help.
pub(crate) fn example_parser() -> impl TypedValueParser<Value = Example> {
    PossibleValuesParser::new(Example::ALL.iter().copied().map(Example::name))
        .try_map(|name| name.parse::<Example>())
}

/// Reads a step's name, and lists the names in the help.
fn step_parser() -> impl TypedValueParser<Value = Without> {
    PossibleValuesParser::new(Without::ALL.iter().copied().map(Without::name))
        .try_map(|name| name.parse::<Without>())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Some(example) = args.example else {
        return match args.format {
            WalkFormat::Text => print(&Text(terminal::list_of_examples())),
            WalkFormat::Json => print(&list_of_examples()?),
            WalkFormat::Markdown => {
                let what = "--format markdown needs an example; `regard walk` lists them";
                Err(anyhow::anyhow!(what)).bad_input()
            }
        };
    };
    let settings =
        Settings { temperature: args.temperature, causal: args.causal, without: args.without };
    check(example, &settings).bad_input()?;
    if args.format == WalkFormat::Text {
        return show(example, &settings);
    }
    let walkthrough = Walkthrough::run(example, &settings).bad_input()?;
    if args.format == WalkFormat::Markdown {
        return print(&Data::new(markdown::walkthrough(&walkthrough)?));
    }
    print(&Data::pretty_json(&walkthrough.to_json()).context("writing JSON")?)
}

/// Refuses a setting that changes no step of the example.
fn check(example: Example, settings: &Settings) -> Result<()> {
    let Settings { temperature, causal, without } = *settings;
    let effective = |example| Effective::of(&Inputs::new(example));
    let refuse_unused = |option: &str, uses: &dyn Fn(&Effective) -> bool| {
        if uses(&effective(example)?) {
            return Ok(());
        }
        let mut users = Vec::new();
        for &other in Example::ALL {
            users.extend(uses(&effective(other)?).then_some(other.name()));
        }
        bail!("{option} changes nothing in {}; it does in {}", example.name(), users.join(", "))
    };
    if temperature != Temperature::ONE {
        refuse_unused("--temperature", &|effective| effective.temperature)?;
    }
    if causal {
        refuse_unused("--causal", &|effective| effective.causal)?;
    }
    if let Some(step) = without {
        let option = format!("--without {}", step.name());
        refuse_unused(&option, &|effective| effective.without.contains(&step))?;
    }
    Ok(())
}

/// All examples, as a list of objects.
fn list_of_examples() -> Result<Data> {
    let list = Example::ALL
        .iter()
        .map(|e| json!({ "name": e.name(), "title": e.title(), "summary": e.summary() }));
    Data::pretty_json(&list.collect::<Vec<_>>()).context("writing JSON")
}

/// The walkthrough as coloured heatmaps.
pub(crate) fn show(example: Example, settings: &Settings) -> Result<(), Failure> {
    let walkthrough = Walkthrough::run(example, settings).bad_input()?;
    print(&Text(terminal::walkthrough(&walkthrough)))
}
