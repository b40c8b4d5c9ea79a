//! Activation functions, in place, element by element. The bits of a result depend on its element alone.

use crate::arch::{Kernel, Lanes, Map, Simd, dispatch, exp_to_zero};

/// max(x, 0), in place. NaN stays NaN.
///
/// ```
/// let mut x = [-1.0, 2.0];
/// regard_kernels::relu(&mut x);
/// assert_eq!(x, [0.0, 2.0]);
/// ```
pub fn relu(x: &mut [f32]) {
    map(x, Relu);
}

/// GELU (Hendrycks and Gimpel 2016), in place: x·Φ(x), with Φ the normal distribution, ½·(1 + erf(x/√2)).
///
/// The result is within 7 ULP of the exact value, in the negative tail too (over all floats 6.4 ULP with fused multiply-add),
/// and −0 where e^(−x²/2) is below 2⁻¹²⁶ (x < −13.2). Without fused multiply-add the relative error of the tail is up to
/// x²·2⁻²⁴ more. −∞ gives −0, ∞ gives ∞, NaN gives NaN.
///
/// ```
/// let mut x = [1.0, -1.0, 0.0];
/// regard_kernels::gelu(&mut x);
/// assert!((x[0] - 0.841_344_75).abs() < 1e-6 && (x[1] + 0.158_655_25).abs() < 1e-6 && x[2] == 0.0);
/// ```
pub fn gelu(x: &mut [f32]) {
    map(x, Gelu);
}

/// GELU's tanh form (Hendrycks and Gimpel 2016, section 2), in place: ½x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
///
/// GPT-2 and related models call this GELU. The result is within 4 + 3|y| ULP of the formula, where y is twice the
/// argument of tanh, and −0 where e^y is below 2⁻¹²⁶. −∞ gives −0, ∞ gives ∞, NaN gives NaN.
///
/// ```
/// let mut x = [1.0, -1.0, 0.0];
/// regard_kernels::gelu_tanh(&mut x);
/// assert!((x[0] - 0.841_192).abs() < 1e-6 && (x[1] + 0.158_808).abs() < 1e-6 && x[2] == 0.0);
/// ```
pub fn gelu_tanh(x: &mut [f32]) {
    map(x, GeluTanh);
}

/// SiLU or swish (Elfwing et al. 2017), in place: x·σ(x) = x / (1 + e⁻ˣ).
///
/// The result is within 4 ULP, and −0 where eˣ is below 2⁻¹²⁶ (x < −87.3). −∞ gives −0, ∞ gives ∞, NaN gives NaN.
///
/// ```
/// let mut x = [1.0, -1.0, 0.0];
/// regard_kernels::silu(&mut x);
/// assert!((x[0] - 0.731_058_6).abs() < 1e-6 && (x[1] + 0.268_941_43).abs() < 1e-6 && x[2] == 0.0);
/// ```
pub fn silu(x: &mut [f32]) {
    map(x, Silu);
}

/// The hyperbolic tangent, in place.
///
/// The result is within 2 ULP. ±∞ gives ±1, −0 gives −0, NaN gives NaN.
///
/// ```
/// let mut x = [1.0, -1.0, 0.0];
/// regard_kernels::tanh(&mut x);
/// assert!((x[0] - 0.761_594_2).abs() < 1e-6 && x[1] == -x[0] && x[2] == 0.0);
/// ```
pub fn tanh(x: &mut [f32]) {
    map(x, Tanh);
}

#[inline(always)]
pub(crate) fn map<M: Map>(x: &mut [f32], f: M) {
    struct InPlace<'a, M>(&'a mut [f32], M);
    impl<M: Map> Kernel for InPlace<'_, M> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            simd.map(self.0, &self.1);
        }
    }
    dispatch(InPlace(x, f));
}

struct Relu;

impl Map for Relu {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
        lanes.max(lanes.splat(0.0), x) // NaN passes: `max` returns its second operand
    }
}

struct Gelu;

impl Map for Gelu {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
        let x = finite_below(lanes, x);
        let (power, factor) = normal_tail(lanes, x);
        let share = lanes.sub(lanes.splat(1.0), lanes.mul(power, factor));
        // The factors are multiplied in this order, because in the far tail their own product is subnormal, and the product
        // with x is not.
        let tail = lanes.mul(lanes.mul(x, power), factor);
        lanes.select(lanes.gt(x, lanes.splat(0.0)), lanes.mul(x, share), tail)
    }
}

struct GeluTanh;

impl Map for GeluTanh {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
        // ½·(1 + tanh(y/2)) = σ(y). LINEAR is twice √(2/π), and CUBIC is LINEAR times 0.044715.
        const LINEAR: f32 = 1.595_769_2;
        const CUBIC: f32 = 0.071_354_814;
        let x = finite_below(lanes, x);
        let factor = lanes.mul_add(lanes.mul(x, x), lanes.splat(CUBIC), lanes.splat(LINEAR));
        lanes.mul(x, sigmoid(lanes, lanes.mul(x, factor)))
    }
}

struct Silu;

impl Map for Silu {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
        let x = finite_below(lanes, x);
        lanes.mul(x, sigmoid(lanes, x))
    }
}

struct Tanh;

impl Map for Tanh {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
        /// Below this bound tanh x is x plus an odd polynomial (Moshier, Cephes 2.2, `tanhf.c`). Above it 1 − e^(−2x) loses no
        /// digits.
        const SMALL: f32 = 0.625;
        const POLYNOMIAL: [f32; 4] = [2.063_909e-2, -5.373_971_6e-2, 0.133_314_42, -0.333_332_83];
        let magnitude = minus_magnitude(lanes, x);
        let power = exp_to_zero(lanes, lanes.add(magnitude, magnitude));
        let one = lanes.splat(1.0);
        let numerator = lanes.sub(one, power);
        let negated = lanes.sub(power, one);
        let numerator = lanes.select(lanes.gt(x, lanes.splat(0.0)), numerator, negated);
        let large = lanes.div(numerator, lanes.add(one, power));
        let square = lanes.mul(x, x);
        let mut small = lanes.splat(-5.704_988_7e-3);
        for c in POLYNOMIAL {
            small = lanes.mul_add(small, square, lanes.splat(c));
        }
        let small = lanes.mul(lanes.mul_add(small, square, one), x);
        lanes.select(lanes.gt(magnitude, lanes.splat(-SMALL)), small, large)
    }
}

/// c·tanh(x / c).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capped(pub(crate) f32);

impl Map for Capped {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
        let cap = lanes.splat(self.0);
        lanes.mul(cap, Tanh.of(lanes, lanes.div(x, cap)))
    }
}

/// x, with the least finite number in place of −∞. Its share is 0, and 0·(−∞) would be NaN.
#[inline(always)]
fn finite_below<L: Lanes>(lanes: L, x: L::V) -> L::V {
    lanes.max(lanes.splat(f32::MIN), x) // NaN passes
}

/// −|x|.
#[inline(always)]
fn minus_magnitude<L: Lanes>(lanes: L, x: L::V) -> L::V {
    let negated = lanes.sub(lanes.splat(0.0), x);
    lanes.select(lanes.gt(x, negated), negated, x)
}

/// σ(x) = 1 / (1 + e⁻ˣ), computed from the exponential of −|x|, which cannot overflow.
#[inline(always)]
fn sigmoid<L: Lanes>(lanes: L, x: L::V) -> L::V {
    let power = exp_to_zero(lanes, minus_magnitude(lanes, x));
    let one = lanes.splat(1.0);
    let numerator = lanes.select(lanes.gt(x, lanes.splat(0.0)), one, power);
    lanes.div(numerator, lanes.add(one, power))
}

/// Φ(−|x|) = ½·erfc(|x|/√2), the part of the normal distribution beyond |x|, as two factors: e^(−x²/2) and the rest.
///
/// With t = |x| the rest is P(u)/(t + 4), where P is a polynomial of degree 9 in u = (t − 4)/(t + 4), after Shepherd and
/// Laframboise (1981). P is close to constant, so nothing cancels. With rounded coefficients its error is 1.8e-8, 0.3 of half
/// an ULP.
#[inline(always)]
fn normal_tail<L: Lanes>(lanes: L, x: L::V) -> (L::V, L::V) {
    const CENTRE: f32 = 4.0;
    /// Below this x the exponential is below 2⁻¹²⁶, and counts as 0.
    const LOWEST: f32 = -13.5;
    /// The coefficients of the odd powers and of the even powers, from the highest down. Two chains of multiply-adds do not
    /// wait for each other.
    const ODD: [f32; 5] =
        [-1.054_607_06e-4, 1.566_103_4e-3, -7.528_789_3e-3, -0.186_522_65, -0.607_896_6];
    const EVEN: [f32; 4] = [-3.541_538_7e-3, 0.060_410_466, 0.387_136_37, 0.755_285_14];

    let x = lanes.max(lanes.splat(LOWEST), minus_magnitude(lanes, x)); // −t; NaN passes
    let centre = lanes.splat(CENTRE);
    let reciprocal = lanes.div(lanes.splat(1.0), lanes.sub(centre, x));
    let u = lanes.mul(lanes.sub(lanes.splat(-CENTRE), x), reciprocal);
    let square_of_u = lanes.mul(u, u);
    let mut even = lanes.splat(2.221_165_2e-4);
    for c in EVEN {
        even = lanes.mul_add(even, square_of_u, lanes.splat(c));
    }
    let factor = lanes.polynomial(&ODD, square_of_u, u, even);
    let factor = lanes.mul(factor, reciprocal);
    // x² = square + rest. Without the rest, the rounding of the square would cost 40 ULP of the result in the far tail.
    let square = lanes.mul(x, x);
    let rest = lanes.mul_add(x, x, lanes.sub(lanes.splat(0.0), square));
    let power = exp_to_zero(lanes, lanes.mul(square, lanes.splat(-0.5)));
    (lanes.mul_add(lanes.mul(power, rest), lanes.splat(-0.5), power), factor)
}
