//! "I love robotics", small enough to work by hand, as an embedded program would compute it: shapes known to the compiler,
//! weights in flash, no allocator.

use core::fmt;

use regard_kernels::{Attention, Error, attention_scratch_len, fixed};

/// The three words.
pub const TOKENS: [&str; 3] = ["I", "love", "robotics"];

/// The place of "love" among them.
pub const LOVE: usize = 1;

/// The output of "love", worked by hand: the mean of all three values, because its three scores are equal.
pub const OUTPUT_OF_LOVE: [f32; 3] = [4.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0];

/// The words' embeddings, \[3, 4\].
static X: [[f32; 4]; 3] = [[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]];

static W_Q: [[f32; 3]; 4] = [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];

static W_K: [[f32; 3]; 4] = [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]];

static W_V: [[f32; 3]; 4] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]];

/// The attention that the three words pay to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Robotics {
    /// The weight of each word (column) for each word (row).
    pub weights: [[f32; 3]; 3],
    /// The output of each word (row).
    pub output: [[f32; 3]; 3],
}

impl Robotics {
    /// Projects X to Q, K and V, and computes attention.
    ///
    /// # Errors
    /// None with these shapes; the kernels' [`Error`] is passed on.
    pub fn compute() -> Result<Self, Error> {
        let (q, k, v) = (fixed::matmul(&X, &W_Q), fixed::matmul(&X, &W_K), fixed::matmul(&X, &W_V));
        let attention = Attention::new();
        let mut scratch = [0.0; attention_scratch_len(3, 3, 3, 3)];
        let (mut weights, mut output) = ([[0.0; 3]; 3], [[0.0; 3]; 3]);
        fixed::attention_weights(&attention, &q, &k, &mut weights, &mut scratch)?;
        fixed::attention(&attention, &q, &k, &v, &mut output, &mut scratch)?;
        Ok(Self { weights, output })
    }

    /// Whether the row of "love" is the one worked by hand, within 1e-6.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.output[LOVE]
            .iter()
            .zip(OUTPUT_OF_LOVE)
            .all(|(found, expected)| (found - expected).abs() <= 1e-6)
    }
}

/// Prints numbers as decimals and as bits, so that two machines can be compared bit by bit.
struct Row<'a>(&'a [f32; 3]);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for x in self.0 {
            write!(f, "  {x:.7} {:08x}", x.to_bits())?;
        }
        Ok(())
    }
}

/// The report, which the image and the host print.
impl fmt::Display for Robotics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "weights")?;
        for (token, row) in TOKENS.iter().zip(&self.weights) {
            writeln!(f, "{token:>8}{}", Row(row))?;
        }
        writeln!(f, "output")?;
        for (token, row) in TOKENS.iter().zip(&self.output) {
            writeln!(f, "{token:>8}{}", Row(row))?;
        }
        let verdict = if self.is_right() { "as worked by hand" } else { "NOT as worked by hand" };
        write!(f, "love ={}: {verdict}", Row(&self.output[LOVE]))
    }
}
