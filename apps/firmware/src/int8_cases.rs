//! Attentions on 8-bit integers, whose bits are the same on every core.

use regard_kernels::int8::{self, Attention, Scales};
use regard_kernels::{Error, Mask, Mat, MatMut, Position, Temperature, Window, fixed};

use crate::line::LineNumbers::{self, Integers};
use crate::line::WriteLine;
use crate::memory::split;
use crate::numbers::{INTEGERS, SCALES, SEEN, fill, integers, next};

/// A pseudo-random attention: \[n_q, d_k\], \[n_k, d_k\], \[n_k, d_v\].
pub(crate) struct Int8Case {
    name: &'static str,
    pub(crate) shape: [usize; 4],
    /// The scores' factor, besides 1/√d_k.
    pub(crate) factor: f32,
    pub(crate) temperature: Temperature,
    pub(crate) mask: Mask<'static>,
}

const fn case(name: &'static str, shape: [usize; 4], factor: f32) -> Int8Case {
    Int8Case { name, shape, factor, temperature: Temperature::ONE, mask: Mask::NONE }
}

const fn masked(name: &'static str, shape: [usize; 4], mask: Mask<'static>) -> Int8Case {
    Int8Case { name, shape, factor: 2.0, temperature: Temperature::ONE, mask }
}

const fn at(name: &'static str, shape: [usize; 4], temperature: Temperature) -> Int8Case {
    Int8Case { name, shape, factor: 1.0, temperature, mask: Mask::NONE }
}

const fn seen(rows: usize, cols: usize) -> Mask<'static> {
    match Mat::strided(&SEEN, rows, cols, 1) {
        Ok(seen) => Mask::NONE.allowed(seen),
        Err(_) => panic!("SEEN is too short"), // an error of the compiler
    }
}

const COLD: Temperature = match Temperature::new(0.05) {
    Ok(cold) => cold,
    Err(_) => panic!("a temperature"),
};

const fn offset(offset: isize) -> Position {
    Position::Offset(offset)
}

const fn window(left: usize, right: Option<usize>) -> Window {
    Window { left: Some(left), right }
}

/// Shapes with and without whole words, and with more and fewer than 4 and 8 queries and 256 keys, where the loops differ. They
/// lie in flash, because the smallest board's RAM has no room for them.
pub(crate) static CASES: [Int8Case; 24] = [
    case("int8, plain", [13, 40, 16, 24], 1.0),
    case("int8, small", [5, 7, 5, 3], 1.0),
    case("int8, one column", [8, 9, 1, 1], 1.0),
    case("int8, one query", [1, 100, 32, 20], 2.0),
    case("int8, one query, odd", [1, 99, 31, 19], 2.0),
    case("int8, two queries", [2, 100, 32, 33], 2.0),
    case("int8, many keys", [3, 300, 8, 5], 2.0),
    case("int8, many queries and keys", [9, 259, 6, 7], 2.0),
    case("int8, wide", [12, 20, 64, 35], 2.0),
    case("int8, odd", [11, 37, 13, 19], 4.0),
    case("int8, all weights alike", [1, 1100, 3, 6], 0.0),
    case("int8, hardly different weights", [5, 600, 3, 2], 1e-5),
    masked("int8, causal, top-left", [20, 20, 8, 8], Mask::NONE.causal(Position::TopLeft)),
    masked("int8, causal, bottom-right", [5, 37, 7, 5], Mask::NONE.causal(Position::BottomRight)),
    masked("int8, causal, after a cache", [7, 300, 4, 16], Mask::NONE.causal(offset(250))),
    masked("int8, window", [19, 31, 12, 9], Mask::NONE.window(offset(3), window(6, Some(2)))),
    masked(
        "int8, rows that see nothing",
        [8, 12, 8, 8],
        Mask::NONE.window(offset(8), window(2, None)),
    ),
    masked("int8, key length", [4, 50, 8, 8], Mask::NONE.key_len(33)),
    masked("int8, boolean mask", [9, 21, 8, 6], seen(9, 21)),
    masked(
        "int8, all masks",
        [13, 21, 8, 6],
        seen(13, 21).causal(offset(5)).window(offset(4), window(9, None)).key_len(20),
    ),
    at("int8, cold", [6, 25, 8, 12], COLD),
    at("int8, T = 0", [6, 25, 8, 12], Temperature::ZERO),
    at("int8, T = 0, one query", [1, 25, 8, 12], Temperature::ZERO),
    at("int8, T = ∞", [6, 25, 8, 12], Temperature::INFINITE),
];

pub(crate) fn run(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    robotics(line)?;
    for case in &CASES {
        case.run(memory, line)?;
    }
    decoding(memory, line)?;
    many_shapes(memory, line)
}

/// The worked example "I love robotics", from Q, K and V in `f32`.
fn robotics(line: &mut WriteLine<'_>) -> Result<(), Error> {
    const SCRATCH: usize = int8::attention_scratch_len(3, 3, 3, 3);
    let q = [[1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]];
    let k = [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]];
    let v = [[2.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]];
    let scale = |x: &[[f32; 3]; 3]| int8::scale_for(x.as_flattened());
    let scales = Scales { query: scale(&q), key: scale(&k), value: scale(&v), output: scale(&v) };
    let attention = Attention::new(scales, int8::default_scale(3), Temperature::ONE)?;
    let mut tensors = [[[0; 3]; 3]; 3];
    for ((x, scale), out) in
        [(q, scales.query), (k, scales.key), (v, scales.value)].into_iter().zip(&mut tensors)
    {
        int8::quantize(x.as_flattened(), scale, out.as_flattened_mut())?;
        line("int8, I love robotics", Integers(out.as_flattened()));
    }
    let [q, k, v] = tensors;
    let mut out = [[0; 3]; 3];
    fixed::int8_attention(&attention, &q, &k, &v, &mut out, &mut [0; SCRATCH])?;
    line("int8, I love robotics, output", Integers(out.as_flattened()));
    let mut numbers = [0.0; 9];
    int8::dequantize(out.as_flattened(), scales.output, &mut numbers)?;
    line("int8, I love robotics, output", LineNumbers::Floats(&numbers));
    Ok(())
}

impl Int8Case {
    fn run(&self, memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
        let [n_q, n_k, d_k, d_v] = self.shape;
        let attention =
            Attention::new(SCALES, self.factor * int8::default_scale(d_k), self.temperature)?
                .mask(self.mask);
        let (q, k, v) =
            (integers(3, n_q, d_k)?, integers(900, n_k, d_k)?, integers(1700, n_k, d_v)?);
        let (out, scratch) = split(memory, n_q * d_v);
        attention.forward(q, k, v, MatMut::new(out, n_q, d_v)?, scratch)?;
        line(self.name, Integers(out.get(..n_q * d_v).unwrap_or_default()));
        Ok(())
    }
}

/// A hundred pseudo-random shapes and masks. The line has one hash of all outputs.
fn many_shapes(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    let (mut state, mut hash) = (1, 0x811c_9dc5_u32);
    for _ in 0..100 {
        let mut below = |n: u16| {
            state = next(state);
            usize::from((state >> 16) as u16 % n)
        };
        let [n_q, n_k, d_k, d_v] = [14, 70, 40, 40].map(|n| 1 + below(n));
        let (q, k, v) = (below(64), below(999), below(999));
        let (q, k, v) = (integers(q, n_q, d_k)?, integers(k, n_k, d_k)?, integers(v, n_k, d_v)?);
        let mut mask = Mask::NONE;
        if below(2) == 0 {
            mask = mask.causal(offset(below(70) as isize - 5));
        }
        if below(3) == 0 {
            mask = mask.window(Position::BottomRight, window(below(20), Some(below(20))));
        }
        if below(3) == 0 {
            mask = mask.key_len(below(70).min(n_k));
        }
        if below(3) == 0 {
            mask = mask.allowed(Mat::strided(&SEEN, n_q, n_k, 1)?);
        }
        let factor = [0.0, 0.3, 1.0, 20.0].get(below(4)).copied().unwrap_or_default();
        let attention =
            Attention::new(SCALES, factor * int8::default_scale(d_k), Temperature::ONE)?.mask(mask);
        let (out, scratch) = split(memory, n_q * d_v);
        attention.forward(q, k, v, MatMut::new(out, n_q, d_v)?, scratch)?;
        for byte in out.iter().take(n_q * d_v) {
            hash = (hash ^ u32::from(*byte as u8)).wrapping_mul(0x0100_0193); // Fowler, Noll and Vo's
        }
    }
    line("int8, many shapes", Integers(&hash.to_le_bytes().map(|byte| byte as i8)));
    Ok(())
}

/// Steps of decoding against a cache in `memory`, which grows beyond 256 keys: two heads of queries share it.
fn decoding(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const CACHED: usize = 250;
    const STEPS: usize = 10;
    const D_K: usize = 6;
    const D_V: usize = 5;
    const ROOM: usize = CACHED + STEPS;
    let attention = Attention::new(SCALES, int8::default_scale(D_K), Temperature::ONE)?;
    let (bytes, scratch) = split(memory, ROOM * (D_K + D_V) + 2 * D_V);
    let (keys, bytes) = bytes.split_at_mut_checked(ROOM * D_K).unwrap_or_default();
    let (values, out) = bytes.split_at_mut_checked(ROOM * D_V).unwrap_or_default();
    fill(keys, 0, CACHED * D_K, &INTEGERS, 7);
    fill(values, 0, CACHED * D_V, &INTEGERS, 7);
    for step in 0..STEPS {
        let len = CACHED + step;
        fill(keys, len * D_K, D_K, &INTEGERS, 3 * step);
        fill(values, len * D_V, D_V, &INTEGERS, 5 * step);
        let (k, v) = (Mat::new(keys, len + 1, D_K)?, Mat::new(values, len + 1, D_V)?);
        for (head, out) in out.chunks_exact_mut(D_V).take(2).enumerate() {
            let q = integers(100 + 2 * step + head, 1, D_K)?;
            attention.forward(q, k, v, MatMut::new(out, 1, D_V)?, scratch)?;
        }
        line("int8, decoding", Integers(out.get(..2 * D_V).unwrap_or_default()));
    }
    Ok(())
}
