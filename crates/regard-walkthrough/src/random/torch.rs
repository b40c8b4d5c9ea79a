use core::f64::consts::TAU;

use rand_mt::Mt;

use super::cephes;

/// The generator of `torch.manual_seed(seed)` and `torch.randn` on the CPU.
///
/// Tensors of at least 16 elements are filled 16 at a time, by the Box-Muller transform of `f32` uniforms. Smaller tensors are
/// filled number by number from `f64` uniforms. Both are tested bit by bit against PyTorch 2.15 on a CPU with AVX2. On other
/// CPUs, PyTorch's logarithm and cosine differ in the last bit.
///
/// ```
/// use regard_walkthrough::random::TorchRng;
/// let mut rng = TorchRng::seed(42);
/// let x = rng.randn(32); // torch.manual_seed(42); torch.randn(4, 8)
/// assert_eq!(x[..3], [1.9269153, 1.4872841, 0.9007172]);
/// ```
#[derive(Clone, Debug)]
pub struct TorchRng {
    twister: Mt,
    /// The sine of a pair, kept for the next number of a small tensor.
    kept: Option<f64>,
}

impl TorchRng {
    /// Seeds as `torch.manual_seed` does.
    pub fn seed(seed: u32) -> Self {
        Self { twister: Mt::new(seed), kept: None }
    }

    /// Draws as `torch.randn(n)` does, for a tensor of `n` elements of type `float32` of any shape.
    pub fn randn(&mut self, n: usize) -> Vec<f32> {
        if n < BLOCK {
            return (0..n).map(|_| self.one() as f32).collect();
        }
        let mut data: Vec<f32> = (0..n).map(|_| self.uniform()).collect();
        let (blocks, tail) = data.as_chunks_mut::<BLOCK>();
        for block in blocks {
            box_muller(block);
        }
        if !tail.is_empty()
            && let Some(last) = data.last_chunk_mut::<BLOCK>()
        {
            // The last block overlaps the one before it, so its 16 numbers are drawn again.
            *last = core::array::from_fn(|_| self.uniform());
            box_muller(last);
        }
        data
    }

    /// 24 random bits as a fraction.
    fn uniform(&mut self) -> f32 {
        (self.twister.next_u32() & 0xff_ffff) as f32 / 16_777_216.0
    }

    /// One number of a small tensor.
    fn one(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        let (u1, u2) = (self.uniform_f64(), self.uniform_f64());
        let radius = (-2.0 * (-u2).ln_1p()).sqrt();
        let (sin, cos) = (TAU * u1).sin_cos();
        self.kept = Some(radius * sin);
        radius * cos
    }

    /// 53 random bits as a fraction.
    fn uniform_f64(&mut self) -> f64 {
        let (high, low) = (self.twister.next_u32(), self.twister.next_u32());
        let bits = ((u64::from(high) << 32) | u64::from(low)) & ((1 << 53) - 1);
        bits as f64 / 9_007_199_254_740_992.0
    }
}

/// Elements that PyTorch transforms together.
const BLOCK: usize = 16;

/// Turns 16 uniforms into 16 normals: the first 8 give radii, the last 8 angles. PyTorch uses single precision.
fn box_muller(block: &mut [f32; BLOCK]) {
    let (first, second) = block.split_at_mut(BLOCK / 2);
    for (a, b) in first.iter_mut().zip(second) {
        let radius = (-2.0 * cephes::ln(1.0 - *a)).sqrt();
        let (sin, cos) = cephes::sin_cos(TAU as f32 * *b);
        (*a, *b) = (radius * cos, radius * sin);
    }
}
