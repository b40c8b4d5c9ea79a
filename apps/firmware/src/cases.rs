//! Attentions and the other operations of the kernels, whose bits are compared across machines.

use regard_kernels::{
    Attention, Error, Half, Mask, Mat, MatMut, Packed, PackedHalf, Pairing, Position, Stage, Store,
    Temperature, Window, add_row, attention_scratch_len, cosine_similarity, dot, exp, fixed, gelu,
    gelu_tanh, layer_norm, matmul, matmul_packed, matmul_packed_half, matmul_transposed, norm,
    packed_len, rms_norm, rotate, silu, softmax,
};

use crate::line::LineNumbers::Floats;
use crate::line::WriteLine;
use crate::numbers::{HALVES, NUMBERS, SEEN, fill, numbers};
use crate::{int8_cases, subnormal_cases};

/// A pseudo-random attention: \[n_q, d_k\], \[n_k, d_k\], \[n_k, d_v\].
struct Case {
    name: &'static str,
    shape: [usize; 4],
    attention: Attention<'static>,
}

const PLAIN: Attention<'static> = Attention::new().scale(2.0);

const fn case(name: &'static str, shape: [usize; 4], attention: Attention<'static>) -> Case {
    Case { name, shape, attention }
}

const fn masked(name: &'static str, shape: [usize; 4], mask: Mask<'static>) -> Case {
    Case { name, shape, attention: PLAIN.mask(mask) }
}

fn cases() -> Result<[Case; 18], Error> {
    let at = Position::Offset;
    let window = |left, right| Window { left: Some(left), right };
    let cold = Temperature::new(0.05)?;
    Ok([
        case("plain", [13, 40, 16, 24], Attention::new()),
        case("small", [5, 7, 4, 3], Attention::new()),
        case("one query", [1, 100, 32, 20], PLAIN),
        case("two queries", [2, 100, 32, 33], PLAIN),
        case("two tiles", [3, 300, 8, 5], PLAIN),
        case("wide", [4, 20, 64, 64], PLAIN),
        masked("causal, top-left", [20, 20, 8, 8], Mask::NONE.causal(Position::TopLeft)),
        masked("causal, bottom-right", [5, 37, 7, 5], Mask::NONE.causal(Position::BottomRight)),
        masked("causal, after a cache", [7, 300, 4, 16], Mask::NONE.causal(at(250))),
        masked("window", [19, 31, 12, 9], Mask::NONE.window(at(3), window(6, Some(2)))),
        masked(
            "window, rows that see nothing",
            [8, 12, 8, 8],
            Mask::NONE.window(at(8), window(2, None)),
        ),
        masked("key length", [4, 50, 8, 8], Mask::NONE.key_len(33)),
        masked("boolean mask", [9, 21, 8, 6], Mask::NONE.allowed(Mat::strided(&SEEN, 9, 21, 1)?)),
        masked(
            "additive mask",
            [10, 24, 16, 16],
            Mask::NONE.bias(numbers(77, 10, 24)?).causal(at(9)),
        ),
        case("soft cap", [6, 25, 8, 12], PLAIN.softcap(1.5)),
        case("cold", [6, 25, 8, 12], PLAIN.temperature(cold)),
        case("T = 0", [6, 25, 8, 12], PLAIN.temperature(Temperature::ZERO)),
        case(
            "T = ∞",
            [6, 25, 8, 12],
            PLAIN.temperature(Temperature::INFINITE).mask(Mask::NONE.causal(at(4))),
        ),
    ])
}

/// Computes every case in `memory`, and calls `line` with the names and the numbers.
///
/// # Errors
/// [`Error::Scratch`] or [`Error::Slice`] if there are fewer than [`MEMORY`](crate::MEMORY) elements.
pub fn run(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    let [weights, output] = robotics()?;
    line("I love robotics, weights", Floats(weights.as_flattened()));
    line("I love robotics, output", Floats(output.as_flattened()));
    attention_scores(line)?;
    vectors(memory, line)?;
    products(memory, line)?;
    subnormal_cases::run(memory, line)?;
    block(memory, line)?;
    attentions(memory, line)?;
    hidden_values(memory, line)?;
    grouped_queries(memory, line)?;
    decoding(memory, line)?;
    int8_cases::run(memory, line)
}

/// The weights and the output of "I love robotics", as an embedded program would compute them: shapes known to the compiler, and
/// matrices in flash.
///
/// # Errors
/// None with these shapes. Errors of the kernels are passed on.
pub fn robotics() -> Result<[[[f32; 3]; 3]; 2], Error> {
    static X: [[f32; 4]; 3] = [[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]];
    static W_Q: [[f32; 3]; 4] =
        [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];
    static W_K: [[f32; 3]; 4] =
        [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]];
    static W_V: [[f32; 3]; 4] =
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]];
    let (q, k, v) = (fixed::matmul(&X, &W_Q), fixed::matmul(&X, &W_K), fixed::matmul(&X, &W_V));
    let attention = Attention::new();
    let mut scratch = [0.0; attention_scratch_len(3, 3, 3, 3)];
    let (mut weights, mut output) = ([[0.0; 3]; 3], [[0.0; 3]; 3]);
    fixed::attention_weights(&attention, &q, &k, &mut weights, &mut scratch)?;
    fixed::attention(&attention, &q, &k, &v, &mut output, &mut scratch)?;
    Ok([weights, output])
}

/// The operations of a transformer block besides attention.
fn block(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const ROWS: usize = 3;
    const COLS: usize = 26;
    let rows = memory.get_mut(..ROWS * COLS).unwrap_or_default();
    let mut change = |name: &str, by: &mut dyn FnMut(&mut [f32]) -> Result<(), Error>| {
        for (x, number) in rows.iter_mut().zip(&NUMBERS[11..]) {
            *x = number * 4.0;
        }
        by(rows)?;
        line(name, Floats(rows));
        Ok::<(), Error>(())
    };
    let (gamma, beta) = (&NUMBERS[200..200 + COLS], &NUMBERS[300..300 + COLS]);
    change("layer norm", &mut |x| layer_norm(MatMut::new(x, ROWS, COLS)?, gamma, beta, 1e-5))?;
    change("RMS norm", &mut |x| rms_norm(MatMut::new(x, ROWS, COLS)?, gamma, 1e-6))?;
    for (name, activation) in
        [("GELU", gelu as fn(&mut [f32])), ("GELU by tanh", gelu_tanh), ("SiLU", silu)]
    {
        change(name, &mut |x| {
            activation(x);
            Ok(())
        })?;
    }
    let angles = numbers(400, ROWS, COLS / 2)?;
    for (name, pairing) in
        [("rotary, pairs", Pairing::Interleaved), ("rotary, halves", Pairing::HalfSplit)]
    {
        change(name, &mut |x| rotate(MatMut::new(x, ROWS, COLS)?, angles, angles, pairing))?;
    }
    packed_products(memory, line)
}

fn packed_products(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const STEPS: usize = 40;
    let (weights, out) = memory.split_at_mut_checked(packed_len(STEPS, 9)).unwrap_or_default();
    let out = out.get_mut(..5 * 9).unwrap_or_default();
    let b = Packed::pack(numbers(120, STEPS, 9)?, weights)?;
    matmul_packed(numbers(31, 5, STEPS)?, b, MatMut::new(out, 5, 9)?, Store::Set)?;
    line("product, packed", Floats(out));
    add_row(MatMut::new(out, 5, 9)?, &NUMBERS[..9])?;
    matmul_packed(numbers(77, 5, STEPS)?, b, MatMut::new(out, 5, 9)?, Store::Add)?;
    line("product, packed, added", Floats(out));
    // Cortex-M reads bfloat16 numbers at a multiple of 4 bytes with other instructions than at other addresses.
    for (name, half, first) in [
        ("product, bfloat16", Half::Bf16, 0),
        ("product, bfloat16, at 2 of 4 bytes", Half::Bf16, 1),
        ("product, binary16", Half::F16, 0),
    ] {
        let bits = HALVES.0.get(first..first + packed_len(STEPS, 9)).unwrap_or_default();
        let b = PackedHalf::new(bits, half, STEPS, 9)?;
        for store in [Store::Set, Store::Add] {
            matmul_packed_half(numbers(31, 5, STEPS)?, b, MatMut::new(out, 5, 9)?, store)?;
            line(name, Floats(out));
        }
    }
    Ok(())
}

/// Every case. The function is separate so that the table does not stay on the stack: the smallest board has no room for it.
#[inline(never)]
fn attentions(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    for case in cases()? {
        case.run(memory, line)?;
    }
    Ok(())
}

/// The worked example that begins with queries and keys.
fn attention_scores(line: &mut WriteLine<'_>) -> Result<(), Error> {
    let q = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]];
    let k = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [0.5, 0.5, 0.5, 0.5]];
    let (mut weights, mut scratch) = ([[0.0; 3]; 3], [0.0; attention_scratch_len(3, 3, 4, 0)]);
    Attention::new().scores(
        Stage::Weights,
        (&q).into(),
        (&k).into(),
        (&mut weights).into(),
        &mut scratch,
    )?;
    line("attention scores, weights", Floats(weights.as_flattened()));
    Ok(())
}

fn vectors(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    let (a, b) = (&NUMBERS[..301], &NUMBERS[301..602]);
    line(
        "dot, norm, cosine",
        Floats(&[dot(a, b)?, norm(a), cosine_similarity(a, b)?, dot(&a[..9], &b[..9])?]),
    );
    for (name, temperature) in [("softmax", 0.5), ("softmax, flat", 30.0), ("softmax, T = 0", 0.0)]
    {
        let row = memory.get_mut(..39).unwrap_or_default();
        row.copy_from_slice(&NUMBERS[5..44]);
        softmax(row, Temperature::new(temperature)?);
        line(name, Floats(row));
    }
    let row = memory.get_mut(..39).unwrap_or_default();
    for (x, number) in row.iter_mut().zip(&NUMBERS[5..]) {
        *x = number * 110.0; // from 0 through subnormal numbers to ∞
    }
    exp(row);
    line("exp", Floats(row));
    limits(line);
    Ok(())
}

/// Exponentials at the ends of their range. The bits of NaN differ between processors, so the line says where NaN stands.
#[inline(never)]
fn limits(line: &mut WriteLine<'_>) {
    const INF: f32 = f32::INFINITY;
    let ends = [
        INF, -INF, 0.0, -0.0, 86.99, 87.01, 88.72, 88.73, -86.99, -87.01, -87.34, -103.9, -104.1,
        1e30, -1e30, 1e-40,
    ];
    let mut x = ends;
    exp(&mut x);
    line("exp at its ends", Floats(&x));
    let mut x = [-INF, 1.0, -1e30, -86.0, -87.0, f32::MAX, -INF, 3.0];
    for (name, row) in
        [("softmax of ∞", &mut [1.0, INF, -INF, INF][..]), ("softmax at its ends", &mut x[..])]
    {
        softmax(row, Temperature::ONE);
        line(name, Floats(row));
    }
    let (mut x, mut y) = ([1.0, f32::NAN, -200.0], [1.0, f32::NAN, -200.0]);
    exp(&mut x);
    softmax(&mut y, Temperature::ONE);
    let nan = [x, y].map(|x| x.map(|x| f32::from(u8::from(x.is_nan()))));
    line("exp and softmax of NaN", Floats(nan.as_flattened()));
}

fn products(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    for (name, [m, k, n]) in
        [("product", [13, 77, 19]), ("small product", [3, 5, 2]), ("outer product", [9, 1, 9])]
    {
        let out = memory.get_mut(..m * n).unwrap_or_default();
        matmul(numbers(1, m, k)?, numbers(2, k, n)?, MatMut::new(out, m, n)?)?;
        line(name, Floats(out));
        matmul_transposed(numbers(1, m, k)?, numbers(2, n, k)?, MatMut::new(out, m, n)?)?;
        line(name, Floats(out));
    }
    Ok(())
}

impl Case {
    fn run(&self, memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
        let [n_q, n_k, d_k, d_v] = self.shape;
        let (q, k, v) = (numbers(3, n_q, d_k)?, numbers(900, n_k, d_k)?, numbers(1700, n_k, d_v)?);
        let (out, rest) = memory.split_at_mut_checked(n_q * d_v).unwrap_or_default();
        let (log_sum_exp, scratch) = rest.split_at_mut_checked(n_q).unwrap_or_default();
        let view = MatMut::new(out, n_q, d_v)?;
        self.attention.forward_with_log_sum_exp(q, k, v, view, log_sum_exp, scratch)?;
        line(self.name, Floats(out));
        line(self.name, Floats(log_sum_exp));
        Ok(())
    }
}

/// Infinite and NaN values of hidden keys, in both tiles of keys.
#[inline(never)]
fn hidden_values(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const N_Q: usize = 7;
    const N_K: usize = 300;
    const D_K: usize = 4;
    const D_V: usize = 3;
    static SEEN: [bool; N_K] = {
        let mut seen = [true; N_K];
        seen[100] = false;
        seen
    };
    let (v, rest) = memory.split_at_mut_checked(N_K * D_V).unwrap_or_default();
    let (out, scratch) = rest.split_at_mut_checked(N_Q * D_V).unwrap_or_default();
    v.copy_from_slice(&NUMBERS[1700..1700 + N_K * D_V]);
    for (key, value) in [(100, f32::INFINITY), (270, f32::NAN)] {
        v[key * D_V + 1] = value;
    }
    let mask = Mask::NONE.allowed(Mat::strided(&SEEN, N_Q, N_K, 0)?).causal(Position::Offset(260));
    let (q, k) = (numbers(3, N_Q, D_K)?, numbers(900, N_K, D_K)?);
    let position = Mask::NONE.causal(Position::Offset(264));
    let window = position.window(Position::Offset(264), Window { left: Some(170), right: None });
    for (name, mask) in [
        ("hidden values", mask),
        ("values hidden by position", position),
        ("values hidden by a window", window),
    ] {
        let v = Mat::new(v, N_K, D_V)?;
        PLAIN.mask(mask).forward(q, k, v, MatMut::new(out, N_Q, D_V)?, scratch)?;
        line(name, Floats(out));
    }
    Ok(())
}

/// Four heads of queries, two of keys and values, side by side.
fn grouped_queries(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const N_Q: usize = 6;
    const N_K: usize = 18;
    const D: usize = 8;
    let attention = Attention::new().mask(Mask::NONE.causal(Position::BottomRight));
    let (out, scratch) = memory.split_at_mut_checked(N_Q * 4 * D).unwrap_or_default();
    for head in 0..4 {
        let column = head * D;
        let q = numbers(8, N_Q, 4 * D)?.block(0, N_Q, column, D);
        let kv = column / 2 / D * D;
        let (k, v) = (
            numbers(9, N_K, 2 * D)?.block(0, N_K, kv, D),
            numbers(10, N_K, 2 * D)?.block(0, N_K, kv, D),
        );
        let view = MatMut::strided(out.get_mut(column..).unwrap_or_default(), N_Q, D, 4 * D)?;
        attention.forward(q, k, v, view, scratch)?;
    }
    line("grouped queries", Floats(out));
    Ok(())
}

/// Steps of decoding against a cache in `memory`, which grows beyond a tile of 256 keys: two heads of queries share it.
fn decoding(memory: &mut [f32], line: &mut WriteLine<'_>) -> Result<(), Error> {
    const CACHED: usize = 250;
    const STEPS: usize = 10;
    const D_K: usize = 4;
    const D_V: usize = 3;
    const ROOM: usize = CACHED + STEPS;
    let (keys, rest) = memory.split_at_mut_checked(ROOM * D_K).unwrap_or_default();
    let (values, rest) = rest.split_at_mut_checked(ROOM * D_V).unwrap_or_default();
    let (out, scratch) = rest.split_at_mut_checked(2 * D_V).unwrap_or_default();
    fill(keys, 0, CACHED * D_K, &NUMBERS, 7);
    fill(values, 0, CACHED * D_V, &NUMBERS, 7);
    for step in 0..STEPS {
        let len = CACHED + step;
        fill(keys, len * D_K, D_K, &NUMBERS, 7 + 3 * step);
        fill(values, len * D_V, D_V, &NUMBERS, 7 + 5 * step);
        let (k, v) = (Mat::new(keys, len + 1, D_K)?, Mat::new(values, len + 1, D_V)?);
        for (head, out) in out.chunks_exact_mut(D_V).enumerate() {
            let q = numbers(100 + 2 * step + head, 1, D_K)?;
            PLAIN.forward(q, k, v, MatMut::new(out, 1, D_V)?, scratch)?;
        }
        line("decoding", Floats(out));
    }
    Ok(())
}
