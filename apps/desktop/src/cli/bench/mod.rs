//! `regard bench`: naive loops beside the kernels beside the multi-head layer.

mod measure;
mod subjects;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use self::measure::{Timing, fma_peak};
use self::subjects::{Subject, attention, dot, matmul, softmax};
use super::failure::{BadInput as _, Failure};
use super::{Format, print};

/// Measure the kernels against naive loops, on this machine
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure
    #[arg(value_enum, default_value_t = Operation::All)]
    operation: Operation,

    /// Batch entries of attention [default: 1]
    #[arg(long, value_name = "B")]
    batch: Option<usize>,

    /// Heads of attention [default: 8]
    #[arg(long, value_name = "H")]
    heads: Option<usize>,

    /// Queries; rows of the matrix product and of softmax [default: 512; 256; 64]
    #[arg(long, value_name = "N")]
    queries: Option<usize>,

    /// Keys; columns of the matrix product and of softmax [default: as queries; 256; 1024]
    #[arg(long, value_name = "N")]
    keys: Option<usize>,

    /// Elements a head; of the dot product; summed over in the matrix product [default: 64; 4096; 256]
    #[arg(long, value_name = "D")]
    dim: Option<usize>,

    /// Attention with a causal mask (the last query sees all keys)
    #[arg(long)]
    causal: bool,

    /// Threads of the multi-head layer [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,

    /// How to print the results: a table, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Operation {
    Dot,
    Matmul,
    Softmax,
    Attention,
    All,
}

/// The sizes of one measurement.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    dim: usize,
    causal: bool,
}

impl Args {
    fn shape(&self, operation: Operation) -> Shape {
        let (queries, keys, dim) = match operation {
            Operation::Dot => (1, 1, 4096),
            Operation::Matmul => (256, 256, 256),
            Operation::Softmax => (64, 1024, 1),
            Operation::Attention | Operation::All => (512, self.queries.unwrap_or(512), 64),
        };
        Shape {
            batch: self.batch.unwrap_or(1),
            heads: self.heads.unwrap_or(8),
            queries: self.queries.unwrap_or(queries),
            keys: self.keys.unwrap_or(keys),
            dim: self.dim.unwrap_or(dim),
            causal: self.causal,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let operations = match args.operation {
        Operation::All => vec![Operation::Dot, Operation::Matmul, Operation::Softmax, Operation::Attention],
        one => vec![one],
    };
    let peak = fma_peak();
    if args.format == Format::Text {
        print(&format!(
            "Kernels on {}; FMA peak of one thread, measured: {:.1} GFLOP/s\n\n{HEADER}\n",
            regard_kernels::Tier::active().name(),
            peak / 1e9
        ))?;
    }
    for operation in operations {
        let shape = args.shape(operation);
        let subjects = match operation {
            Operation::Dot => dot(shape),
            Operation::Matmul => matmul(shape),
            Operation::Softmax => softmax(shape),
            Operation::Attention | Operation::All => attention(shape, args.threads),
        };
        let subjects = subjects.bad_input()?;
        let bar = ProgressBar::new(measure::ROUNDS as u64).with_prefix(subjects.operation);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} rounds") {
            bar.set_style(style);
        }
        let mut implementations = subjects.implementations;
        let timings = measure::alternate(&mut implementations, || bar.inc(1)).bad_input()?;
        bar.finish_and_clear();
        for (subject, timing) in implementations.iter().zip(&timings) {
            let line = Line {
                operation: subjects.operation,
                shape: &subjects.shape,
                flops: subjects.flops,
                subject,
                timing: *timing,
                naive: timings[0],
                peak,
            };
            print(&match args.format {
                Format::Text => line.row(),
                Format::Json => line.json(),
            })?;
        }
    }
    Ok(())
}

const HEADER: &str = "operation  shape                                                   impl        threads     median  \
    spread   GFLOP/s  of peak   ratio";

/// One line of the results.
struct Line<'a> {
    operation: &'static str,
    shape: &'a serde_json::Value,
    /// Floating-point operations of useful work.
    flops: f64,
    subject: &'a Subject<'a>,
    timing: Timing,
    naive: Timing,
    peak: f64,
}

impl Line<'_> {
    fn gflops(&self) -> f64 {
        self.flops / self.timing.median / 1e9
    }

    fn fraction_of_peak(&self) -> f64 {
        self.gflops() * 1e9 / (self.peak * self.subject.threads as f64)
    }

    fn row(&self) -> String {
        let shape: Vec<String> =
            self.shape.as_object().into_iter().flatten().map(|(k, v)| format!("{k} {v}")).collect();
        format!(
            "{:<10} {:<55} {:<11} {:>7} {:>10} {:>7.1}% {:>9.2} {:>7.1}% {:>6.1}×\n",
            self.operation,
            shape.join(" ").replace("causal false", "").replace("causal true", "causal"),
            self.subject.name,
            self.subject.threads,
            duration(self.timing.median),
            100.0 * self.timing.spread(),
            self.gflops(),
            100.0 * self.fraction_of_peak(),
            self.naive.median / self.timing.median,
        )
    }

    fn json(&self) -> String {
        let line = json!({
            "op": self.operation,
            "impl": self.subject.name,
            "shape": self.shape,
            "threads": self.subject.threads,
            "median_s": self.timing.median,
            "spread": self.timing.spread(),
            "gflops": self.gflops(),
            "fraction_of_peak": self.fraction_of_peak(),
        });
        format!("{line}\n")
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.1} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
