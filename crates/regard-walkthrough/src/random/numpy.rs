use rand_mt::Mt;

/// `numpy.random.seed(seed)` and the legacy `numpy.random.randn`: Marsaglia's polar method.
///
/// ```
/// use regard_walkthrough::random::NumpyRng;
/// let x = NumpyRng::seed(0).randn(2); // numpy.random.seed(0); numpy.random.randn(2)
/// assert!((x[0] - 1.764052345967664).abs() < 1e-15 && (x[1] - 0.4001572083672233).abs() < 1e-15);
/// ```
#[derive(Clone, Debug)]
pub struct NumpyRng {
    twister: Mt,
    /// The other number of the last pair.
    kept: Option<f64>,
}

impl NumpyRng {
    /// Seeds as `numpy.random.seed` does.
    pub fn seed(seed: u32) -> Self {
        Self { twister: Mt::new(seed), kept: None }
    }

    /// Draws as `numpy.random.randn` does, for an array of `n` elements of any shape.
    pub fn randn(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.one()).collect()
    }

    fn one(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        loop {
            let (x1, x2) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let r2 = x1 * x1 + x2 * x2;
            if r2 < 1.0 && r2 != 0.0 {
                let f = (-2.0 * r2.ln() / r2).sqrt();
                self.kept = Some(f * x1);
                return f * x2;
            }
        }
    }

    /// 53 random bits as a fraction. The upper 27 are drawn first.
    fn uniform(&mut self) -> f64 {
        let (high, low) = (self.twister.next_u32() >> 5, self.twister.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }
}
