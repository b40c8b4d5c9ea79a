//! Prints the lines of `regard bench --format json` on targets that the program is not for: `report.py --wasm` runs it in
//! WebAssembly under Node.js.

#![expect(clippy::print_stdout, reason = "the lines are for a program")]

use clap::Parser as _;
use regard_benches::{measure_while, ours};

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    what: regard_benches::Args,

    #[arg(long, value_parser = ["json"])]
    format: String,
}

fn main() -> anyhow::Result<()> {
    let Flags { what, .. } = Flags::parse();
    for (operation, shape) in what.operations()? {
        let mut subjects = ours::subjects(operation, shape)?;
        subjects.keep(&what.implementations)?;
        for line in measure_while(subjects, |_| true)? {
            println!("{}", line.json());
        }
    }
    Ok(())
}
