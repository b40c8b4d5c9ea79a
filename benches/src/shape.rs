//! The choice of measurements: the flags of the command line, operations and sizes.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The flags that select what is measured.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// What to measure
    #[arg(value_enum, default_value_t = Operation::All)]
    operation: Operation,

    /// Batch entries of attention [default: 1]
    #[arg(long, value_name = "B")]
    batch: Option<usize>,

    /// Heads of attention [default: 8; 1 with --fixed]
    #[arg(long, value_name = "H")]
    heads: Option<usize>,

    /// Heads of keys and values, for grouped queries [default: as heads]
    #[arg(long, value_name = "H")]
    kv_heads: Option<usize>,

    /// Queries of attention, or rows of the matrix product and of softmax [default: 512; 256; 64]
    #[arg(long, value_name = "N")]
    queries: Option<usize>,

    /// Keys of attention, or columns of the matrix product and of softmax [default: as queries; 256; 1024]
    #[arg(long, value_name = "N")]
    keys: Option<usize>,

    /// Elements of a head, of the dot product's vectors, or of a sum in the matrix product [default: 64; 4096; 256]
    #[arg(long, value_name = "D")]
    dim: Option<usize>,

    /// Attention with a causal mask (the last query sees all keys)
    #[arg(long)]
    causal: bool,

    /// Also measure sizes known at compile time: a matrix product of 4, 8, 16, 32 or 64 cubed, or attention of one head with
    /// 4 queries and keys × 8 or 16 × 16 [default: 16]
    #[arg(long)]
    fixed: bool,

    /// Threads of the implementations that can use several; 0 means one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,

    /// Measure only these implementations [default: all; naive loops only up to 10 GFLOP a call]
    #[arg(long = "impl", value_name = "NAME", value_delimiter = ',')]
    pub implementations: Vec<String>,
}

/// The operations that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Operation {
    /// The dot product of two vectors
    Dot,
    /// The product of two matrices
    Matmul,
    /// Softmax of the rows of a matrix
    Softmax,
    /// Scaled dot-product attention
    Attention,
    /// Scaled dot-product attention under each kind of mask, and without one (GFLOP/s count hidden keys, too)
    Masks,
    /// All of these except masks
    All,
}

/// The sizes of one measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Batch entries of attention.
    pub batch: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Queries, or rows.
    pub queries: usize,
    /// Keys, or columns.
    pub keys: usize,
    /// Elements of a head, or of a sum.
    pub dim: usize,
    /// Whether attention has a causal mask, bottom-right.
    pub causal: bool,
    /// Whether the compiler knows the sizes.
    pub fixed: bool,
    /// Threads to use, at least one.
    pub threads: usize,
}

impl Args {
    /// The operations that the flags select, with their sizes.
    ///
    /// # Errors
    /// If a flag is given that none of these operations has.
    pub fn operations(&self) -> Result<Vec<(Operation, Shape)>> {
        let operations = match self.operation {
            Operation::All if self.fixed => vec![Operation::Matmul, Operation::Attention],
            Operation::All => {
                vec![Operation::Dot, Operation::Matmul, Operation::Softmax, Operation::Attention]
            }
            one => vec![one],
        };
        self.check(&operations)?;
        Ok(operations.into_iter().map(|operation| (operation, self.shape(operation))).collect())
    }

    fn check(&self, operations: &[Operation]) -> Result<()> {
        use Operation::{Attention, Dot, Masks, Matmul, Softmax};
        let names = |operations: &[Operation]| {
            operations.iter().map(|operation| operation.name()).collect::<Vec<_>>().join(", ")
        };
        for (flag, is_given, of) in [
            ("--batch", self.batch.is_some(), &[Attention, Masks][..]),
            ("--heads", self.heads.is_some(), &[Attention, Masks]),
            ("--kv-heads", self.kv_heads.is_some(), &[Attention, Masks]),
            ("--queries", self.queries.is_some(), &[Matmul, Softmax, Attention, Masks]),
            ("--keys", self.keys.is_some(), &[Matmul, Softmax, Attention, Masks]),
            ("--dim", self.dim.is_some(), &[Dot, Matmul, Attention, Masks]),
            ("--causal", self.causal, &[Attention]),
            ("--fixed", self.fixed, &[Matmul, Attention]),
        ] {
            ensure!(
                !is_given || operations.iter().any(|operation| of.contains(operation)),
                "{flag} is for {}; {} has no use for it",
                names(of),
                names(operations)
            );
        }
        Ok(())
    }

    fn shape(&self, operation: Operation) -> Shape {
        let (queries, keys, dim) = match operation {
            Operation::Dot => (1, 1, 4096),
            Operation::Matmul if self.fixed => {
                (16, self.queries.unwrap_or(16), self.queries.unwrap_or(16))
            }
            Operation::Matmul => (256, 256, 256),
            Operation::Softmax => (64, 1024, 1),
            _ if self.fixed => (16, self.queries.unwrap_or(16), 16),
            Operation::Attention | Operation::Masks | Operation::All => {
                (512, self.queries.unwrap_or(512), 64)
            }
        };
        let heads = self.heads.unwrap_or(if self.fixed { 1 } else { 8 });
        Shape {
            batch: self.batch.unwrap_or(1),
            heads,
            kv_heads: self.kv_heads.unwrap_or(heads),
            queries: self.queries.unwrap_or(queries),
            keys: self.keys.unwrap_or(keys),
            dim: self.dim.unwrap_or(dim),
            causal: self.causal,
            fixed: self.fixed,
            threads: self.threads,
        }
    }
}

impl Operation {
    /// The operation's word on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Shape {
    /// Checks that an operation can be measured in these sizes.
    ///
    /// # Errors
    /// If a tensor is empty or has more than 2²⁸ elements, or if sizes do not fit each other.
    pub fn check(&self, operation: Operation) -> Result<()> {
        let Self { batch, heads, kv_heads, queries, keys, dim, .. } = *self;
        match operation {
            Operation::Dot => check_elements("a vector", &[dim]),
            Operation::Softmax => check_elements("the scores", &[queries, keys]),
            Operation::Matmul => {
                check_elements("A", &[queries, dim])?;
                check_elements("B", &[dim, keys])?;
                check_elements("the product", &[queries, keys])
            }
            Operation::Attention | Operation::Masks | Operation::All => {
                check_elements("the queries", &[batch, heads, queries, dim])?;
                check_elements("the keys", &[batch, kv_heads, keys, dim])?;
                ensure!(
                    heads.is_multiple_of(kv_heads),
                    "{kv_heads} heads of keys and values do not divide {heads} heads"
                );
                Ok(())
            }
        }
    }

    /// The number of useful floating-point operations.
    pub fn flops(&self, operation: Operation) -> f64 {
        let [batch, heads, n_q, n_k, dim] =
            [self.batch, self.heads, self.queries, self.keys, self.dim].map(|n| n as f64);
        match operation {
            Operation::Dot => 2.0 * dim,
            Operation::Matmul => 2.0 * n_q * dim * n_k,
            // Compare, subtract, exponentiate, add, divide.
            Operation::Softmax => 5.0 * n_q * n_k,
            Operation::Attention | Operation::Masks | Operation::All => {
                // The lower triangle of the square on the right, and the rectangle to its left.
                let seen = match self.causal {
                    false => n_q * n_k,
                    true if n_q <= n_k => n_q * n_k - n_q * n_q / 2.0,
                    true => n_k * n_k / 2.0,
                };
                4.0 * batch * heads * seen * dim
            }
        }
    }

    /// The sizes as JSON, under the names of the flags.
    pub fn json(&self, operation: Operation) -> Value {
        let Self { batch, heads, kv_heads, queries, keys, dim, causal, .. } = *self;
        match operation {
            Operation::Dot => json!({ "dim": dim }),
            Operation::Matmul => json!({ "queries": queries, "dim": dim, "keys": keys }),
            Operation::Softmax => json!({ "queries": queries, "keys": keys }),
            Operation::Attention | Operation::Masks | Operation::All => json!({
                "batch": batch, "heads": heads, "kv_heads": kv_heads, "queries": queries, "keys": keys, "dim": dim,
                "causal": causal,
            }),
        }
    }

    /// The sizes as text.
    pub fn text(&self, operation: Operation) -> String {
        let Self { batch, heads, kv_heads, queries, keys, dim, .. } = *self;
        match operation {
            Operation::Dot => format!("{dim}"),
            Operation::Matmul => format!("{queries} × {dim} × {keys}"),
            Operation::Softmax => format!("{queries} × {keys}"),
            Operation::Attention | Operation::Masks | Operation::All => {
                let batch = if batch == 1 { String::new() } else { format!("batch {batch}, ") };
                let grouped =
                    if kv_heads == heads { String::new() } else { format!("/{kv_heads}") };
                let keys = if keys == queries { String::new() } else { format!(" on {keys}") };
                let causal = if self.causal { ", causal" } else { "" };
                format!("{batch}heads {heads}{grouped}, {queries}{keys} × {dim}{causal}")
            }
        }
    }
}

fn check_elements(what: &str, dimensions: &[usize]) -> Result<()> {
    const MOST: usize = 1 << 28;
    let product = dimensions
        .iter()
        .try_fold(1_usize, |product, n| product.checked_mul(*n))
        .unwrap_or(usize::MAX);
    ensure!(
        (1..=MOST).contains(&product),
        "{what} {dimensions:?} would have {product} elements: from 1 to {MOST} can be measured"
    );
    Ok(())
}
