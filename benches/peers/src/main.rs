//! The operations of Regard in other libraries, measured like `regard bench`: with the same flags and the same lines of output.

mod attention;
mod matmul;
mod vectors;

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};
use regard_benches::{HEADER, Operation, Shape, Subject, Subjects, measure};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    what: regard_benches::Args,

    /// How to print the results: a table, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    if cli.format == Format::Text {
        println!("{HEADER}");
    }
    for (operation, mut shape) in cli.what.operations()? {
        if shape.threads == 0 {
            shape.threads = std::thread::available_parallelism()?.get();
        }
        // SAFETY: nothing has started a thread yet, and nothing else has read the environment.
        unsafe { std::env::set_var("RAYON_NUM_THREADS", shape.threads.to_string()) };
        let mut subjects = subjects(operation, shape)?;
        subjects.keep(&cli.what.implementations)?;
        for line in measure(subjects)? {
            match cli.format {
                Format::Json => println!("{}", line.json()),
                Format::Text => print!("{}", line.row()),
            }
        }
    }
    Ok(())
}

fn subjects(operation: Operation, shape: Shape) -> Result<Subjects> {
    shape.check(operation)?;
    let implementations: Vec<Subject> = match operation {
        Operation::Dot => vectors::dot(shape),
        Operation::Softmax => vectors::softmax(shape)?,
        Operation::Matmul => matmul::matmul(shape),
        Operation::Attention | Operation::All => attention::attention(shape)?,
        Operation::Masks => bail!("no peer has the masks"),
    };
    ensure!(!implementations.is_empty(), "no peer has this operation");
    Ok(Subjects { operation, shape, implementations })
}
