use regard_kernels::Tier;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::timing::Timing;
use crate::{Operation, Shape};

/// The tier on which the kernels run, and the tier whose peak their speed is compared with.
pub fn tiers() -> String {
    format!(
        "Kernels on {}; the FMA peak is that of {}",
        Tier::active().name(),
        Tier::fastest().name()
    )
}

/// The heading of the rows.
pub const HEADER: &str = "operation  shape                                impl             threads     median  spread   \
    GFLOP/s  of FMA peak     ratio";

/// One line of the results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResultLine {
    pub(crate) operation: Operation,
    pub(crate) shape: Shape,
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) timing: Timing,
    /// The timing of the first implementation, to which ratios refer.
    pub(crate) first: Timing,
    /// The FMA peak of one thread in FLOP/s, the median of the run.
    pub(crate) peak: f64,
}

impl ResultLine {
    /// The implementation's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of threads that the implementation used.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The median time of a call, in seconds.
    pub fn seconds(&self) -> f64 {
        self.timing.median
    }

    /// GFLOP/s: billions of floating-point operations per second.
    pub fn gflops(&self) -> f64 {
        self.shape.flops(self.operation) / self.timing.median / 1e9
    }

    /// The FMA peak of all its threads, in GFLOP/s.
    pub fn peak_gflops(&self) -> f64 {
        self.peak * self.threads as f64 / 1e9
    }

    /// [`gflops`](Self::gflops) as a share of [`peak_gflops`](Self::peak_gflops).
    pub fn fraction_of_peak(&self) -> f64 {
        self.gflops() / self.peak_gflops()
    }

    fn ns_per_element(&self) -> f64 {
        self.timing.median * 1e9 / (self.shape.queries * self.shape.keys) as f64
    }

    /// A row of the table.
    pub fn row(&self) -> String {
        let ns = match self.operation {
            Operation::Softmax => format!("  {:.3} ns an element", self.ns_per_element()),
            _ => String::new(),
        };
        format!(
            "{:<10} {:<36} {:<16} {:>7} {:>10} {:>6.1}% {:>9.2} {:>6.1}% of {:>5.1} {:>6.1}×{ns}\n",
            self.operation.name(),
            self.shape.text(self.operation),
            self.name,
            self.threads,
            duration(self.timing.median),
            100.0 * self.timing.spread,
            self.gflops(),
            100.0 * self.fraction_of_peak(),
            self.peak_gflops(),
            self.first.median / self.timing.median,
        )
    }

    /// The same as JSON, for programs.
    pub fn json(&self) -> Value {
        let mut line = json!({
            "op": self.operation.name(),
            "impl": self.name,
            "shape": self.shape.json(self.operation),
            "threads": self.threads,
            "median_s": self.timing.median,
            "spread": self.timing.spread,
            "gflops": self.gflops(),
            "fraction_of_peak": self.fraction_of_peak(),
            "peak_gflops": self.peak / 1e9,
            "tier": Tier::active().name(),
            "peak_tier": Tier::fastest().name(),
        });
        if self.operation == Operation::Softmax {
            line["ns_per_element"] = self.ns_per_element().into();
        }
        line
    }
}

/// A time to three digits, with its unit.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.1} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
