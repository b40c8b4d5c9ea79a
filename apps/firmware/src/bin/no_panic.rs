//! The proof that no kernel can panic. The panic handler calls a function that does not exist, so the image links only if no panic
//! can be reached. The image calls every public kernel with numbers that the compiler does not know.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(unsafe_code)]

#[cfg(target_os = "none")]
mod image {
    use core::hint::black_box;
    use core::panic::PanicInfo;

    use regard_firmware::image::{entry, exit};
    use regard_kernels::{
        Attention, Error, Half, Mask, Mat, MatMut, Packed, PackedHalf, Pairing, Position,
        Quantization, Quantized, Stage, Store, Temperature, Tier, Window, add, add_row,
        attention_scratch_len, cosine_similarity, dot, exp, fixed, gelu, gelu_tanh, int8,
        internal::multiply_add_rounds, layer_norm, matmul, matmul_packed, matmul_packed_half,
        matmul_transposed, merge_finished, multiply, norm, packed_len, quantized_scratch_len, relu,
        rms_norm, rotate, silu, softmax, softmax_rows, softmax_with_log_sum_exp,
    };

    #[expect(unsafe_code, reason = "a declaration that nothing defines")]
    mod unresolved {
        unsafe extern "C" {
            /// The name in the linker's error if a panic can be reached.
            pub(super) safe fn a_panic_can_be_reached() -> !;
        }
    }

    #[panic_handler]
    fn panic(_: &PanicInfo<'_>) -> ! {
        unresolved::a_panic_can_be_reached()
    }

    #[entry]
    fn main() -> ! {
        let done = black_box([
            vectors,
            matrices,
            packed,
            narrow,
            block,
            views,
            attention,
            fixed_shapes,
            int8_attention,
            parts,
            #[cfg(embedded)]
            embedded,
            #[cfg(texts)]
            texts,
            #[cfg(classifies)]
            classifies,
        ])
        .map(|kernels| kernels().is_ok());
        exit(i32::from(!done.iter().all(|done| *done)))
    }

    #[cfg(any(embedded, texts, classifies))]
    #[expect(dead_code, reason = "not all of the crate is asked for")]
    mod model {
        include!(concat!(env!("REGARD_EMBED"), "/src/model.rs"));
    }

    /// Classifies a text, whose length the compiler does not know, by the model that `REGARD_EMBED` names.
    #[cfg(texts)]
    fn texts() -> Result<(), Error> {
        let mut state = black_box(model::State::new());
        let tokens = black_box([1; model::CONTEXT + 1]);
        let _ = black_box(model::classify_tokens(&mut state, some(&tokens)));
        Ok(())
    }

    /// Classifies an image, whose length the compiler does not know, by the model that `REGARD_EMBED` names.
    #[cfg(classifies)]
    fn classifies() -> Result<(), Error> {
        let mut state = black_box(model::State::new());
        let (numbers, samples) = black_box(([1.0; model::INPUTS], [1; model::INPUTS]));
        let _ = black_box(model::classify(&mut state, some(&numbers)));
        let _ = black_box(model::classify_samples(&mut state, some(&samples)));
        Ok(())
    }

    /// Runs a token through the model that `REGARD_EMBED` names. The state is on the stack, where no other borrow can be.
    #[cfg(embedded)]
    fn embedded() -> Result<(), Error> {
        let mut state = black_box(model::State::new());
        for token in black_box([1, usize::MAX]) {
            let _ = black_box(model::next(&mut state, token));
        }
        Ok(())
    }

    fn vectors() -> Result<(), Error> {
        let (a, mut b) = black_box(([1.0_f32; 20], [2.0_f32; 20]));
        let (a, b) = (some(&a), some_mut(&mut b));
        black_box((dot(a, b)?, norm(a), cosine_similarity(a, b)?));
        exp(b);
        softmax(b, Temperature::new(black_box(2.0))?);
        softmax_rows(MatMut::new(b, black_box(2), black_box(3))?, Temperature::default());
        black_box(softmax_with_log_sum_exp(b, Temperature::default()));
        black_box((multiply_add_rounds(black_box(1)), Tier::active().name()));
        Ok(())
    }

    fn matrices() -> Result<(), Error> {
        let (a, b, mut out) = black_box(([1.0; 24], [1.0; 24], [0.0; 24]));
        let [m, k, n] = black_box([3, 4, 5]);
        matmul(Mat::new(&a, m, k)?, Mat::new(&b, k, n)?, MatMut::new(&mut out, m, n)?)?;
        matmul_transposed(Mat::new(&a, m, k)?, Mat::new(&b, n, k)?, MatMut::new(&mut out, m, n)?)?;
        black_box(out);
        Ok(())
    }

    fn packed() -> Result<(), Error> {
        let (a, b, mut out, mut memory) =
            black_box(([1.0; 24], [1.0; 24], [0.0; 24], [0.0; packed_len(4, 5)]));
        let [m, k, n] = black_box([3, 4, 5]);
        Packed::pack(Mat::new(&b, k, n)?, some_mut(&mut memory))?;
        Packed::pack_transposed(Mat::new(&b, n, k)?, some_mut(&mut memory))?;
        let b = Packed::new(some(&memory), k, n)?;
        b.unpack(MatMut::new(&mut out, k, n)?)?;
        black_box((b.shape(), packed_len(k, n)));
        matmul_packed(Mat::new(&a, m, k)?, b, MatMut::new(&mut out, m, n)?, black_box(Store::Add))?;
        black_box(out);
        Ok(())
    }

    /// Weights of 16 bits, and in blocks of integers.
    fn narrow() -> Result<(), Error> {
        let (x, bits, bytes) = black_box(([1.0; 256], [1; packed_len(4, 5)], [1; 272]));
        let (mut out, mut scratch) = black_box(([0.0; 256], [0.0; 8]));
        let ([m, k, n], store) = black_box(([3, 4, 5], Store::Add));
        for kind in black_box([Half::F16, Half::Bf16]) {
            let b = PackedHalf::new(some(&bits), kind, k, n)?;
            let out = MatMut::new(&mut out, m, n)?;
            matmul_packed_half(Mat::new(&x, m, k)?, b, out, store)?;
        }
        for &format in black_box(Quantization::ALL) {
            let (numbers, size) = format.block();
            let w = Quantized::new(bytes.get(..size).unwrap_or_default(), format, 1, numbers)?;
            w.widen(MatMut::new(&mut out, 1, numbers)?)?;
            black_box(quantized_scratch_len(m));
            // The smallest part has no room for enough scratch memory. This is an error at run time.
            let (x, out) = (Mat::new(&x, 1, numbers)?, MatMut::new(&mut out, 1, 1)?);
            let _ = black_box(w.multiply(x, out, store, some_mut(&mut scratch)));
        }
        black_box(out);
        Ok(())
    }

    fn block() -> Result<(), Error> {
        let (mut x, y, [n, d]) = black_box(([1.0; 40], [2.0; 40], [2, 20]));
        let rows = |x: &mut [f32]| {
            layer_norm(
                MatMut::new(x, n, d)?,
                y.get(..d).unwrap_or_default(),
                y.get(..d).unwrap_or_default(),
                1e-5,
            )?;
            rms_norm(MatMut::new(x, n, d)?, y.get(..d).unwrap_or_default(), 1e-5)?;
            add_row(MatMut::new(x, n, d)?, y.get(..d).unwrap_or_default())?;
            for pairing in black_box([Pairing::Interleaved, Pairing::HalfSplit]) {
                rotate(
                    MatMut::new(x, n, d)?,
                    Mat::new(&y, n, d / 2)?,
                    Mat::new(&y, n, d / 2)?,
                    pairing,
                )?;
            }
            Ok::<(), Error>(())
        };
        rows(&mut x)?;
        let x = some_mut(&mut x);
        add(x, some(&y))?;
        multiply(x, some(&y))?;
        for activation in black_box([gelu, gelu_tanh, silu, relu]) {
            activation(x);
        }
        black_box(x);
        Ok(())
    }

    fn views() -> Result<(), Error> {
        let mut data = black_box([0.0; 12]);
        let [rows, cols, stride, i] = black_box([3, 4, 4, 2]);
        let m = Mat::strided(&data, rows, cols, stride)?;
        black_box((
            m.shape(),
            m.rows(),
            m.cols(),
            m.stride(),
            m.row(i),
            m.block(i, rows, i, cols),
            m.rows_from(i, rows),
        ));
        let mut m = MatMut::strided(&mut data, rows, cols, stride)?;
        black_box((m.shape(), m.rows(), m.cols()));
        black_box(m.row_mut(i));
        Ok(())
    }

    fn attention() -> Result<(), Error> {
        let (q, k, v, seen, bias) =
            black_box(([1.0; 8], [1.0; 12], [1.0; 18], [true; 12], [0.5; 12]));
        let (mut out, mut log_sum_exp, mut scratch) =
            black_box(([0.0; 12], [0.0; 2], [0.0; SCRATCH]));
        let [n_q, n_k, d_k, d_v] = black_box([2, 6, 2, 3]);
        let (q, k, v) = (Mat::new(&q, n_q, d_k)?, Mat::new(&k, n_k, d_k)?, Mat::new(&v, n_k, d_v)?);
        let at = Position::Offset(black_box(4));
        let window = Window { left: black_box(Some(3)), right: black_box(Some(1)) };
        let mask = Mask::NONE
            .causal(black_box(at))
            .window(black_box(Position::BottomRight), window)
            .key_len(n_k);
        let mask = mask.allowed(Mat::new(&seen, n_q, n_k)?).bias(Mat::new(&bias, n_q, n_k)?);
        black_box((mask.sees(n_q, n_k, n_q, n_k), mask.rows(black_box(0), n_q, n_q, n_k)));
        let temperature = Temperature::new(black_box(1.5))?;
        black_box(temperature.get());
        let attention =
            black_box(Attention::new().scale(1.0).softcap(2.0).mask(mask).temperature(temperature));
        attention.check()?;
        black_box(attention_scratch_len(n_q, n_k, d_k, d_v));
        attention.forward(q, k, v, MatMut::new(&mut out, n_q, d_v)?, &mut scratch)?;
        let out_view = MatMut::new(&mut out, n_q, d_v)?;
        attention.forward_with_log_sum_exp(
            q,
            k,
            v,
            out_view,
            some_mut(&mut log_sum_exp),
            &mut scratch,
        )?;
        for stage in black_box([Stage::Raw, Stage::Softcapped, Stage::Masked, Stage::Weights]) {
            attention.scores(stage, q, k, MatMut::new(&mut out, n_q, n_k)?, &mut scratch)?;
        }
        black_box((out, log_sum_exp));
        Ok(())
    }

    fn parts() -> Result<(), Error> {
        let (q, k, v) = black_box(([1.0; 8], [1.0; 12], [1.0; 18]));
        let (mut out, mut other, mut scratch) = black_box(([0.0; 6], [0.0; 6], [0.0; SCRATCH]));
        let (mut state, mut other_state) = black_box(([0.0; 4], [0.0; 4]));
        let [n_q, n_k, d_k, d_v, split] = black_box([2, 6, 2, 3, 4]);
        let (q, k, v) = (Mat::new(&q, n_q, d_k)?, Mat::new(&k, n_k, d_k)?, Mat::new(&v, n_k, d_v)?);
        let attention = black_box(Attention::new().sink(0.5));
        let alibi = Mask::NONE.alibi(black_box(Position::BottomRight), black_box(0.5));
        let first = attention.mask(alibi.keys(0, split));
        let mut part =
            first.partial(d_k, MatMut::new(&mut out, n_q, d_v)?, some_mut(&mut state))?;
        first.forward_partial(q, k, v, &mut part, &mut scratch)?;
        let second = attention.mask(alibi.columns(split, n_k - split, n_q, n_k));
        let mut rest =
            second.partial(d_k, MatMut::new(&mut other, n_q, d_v)?, some_mut(&mut other_state))?;
        let (k, v) = (k.rows_from(split, n_k), v.rows_from(split, n_k));
        second.forward_partial(q, k, v, &mut rest, &mut scratch)?;
        part.merge(&rest)?;
        let mut log_sum_exp = black_box([0.0; 2]);
        part.finish(Some(some_mut(&mut log_sum_exp)))?;
        let (out, other) = (MatMut::new(&mut out, n_q, d_v)?, Mat::new(&other, n_q, d_v)?);
        merge_finished(out, some_mut(&mut log_sum_exp), other, some(&other_state[..2]))?;
        black_box(log_sum_exp);
        Ok(())
    }

    const SCRATCH: usize = attention_scratch_len(6, 6, 6, 6);

    fn fixed_shapes() -> Result<(), Error> {
        let (a, b, t) = black_box(([[1.0; 6]; 6], [[1.0; 6]; 6], Temperature::ONE));
        let (mut out, mut log_sum_exp, mut scratch) =
            black_box(([[0.0; 6]; 6], [0.0; 6], [0.0; SCRATCH]));
        let (x, y) = black_box(([1.0; 19], [2.0; 19]));
        black_box((
            fixed::dot(&x, &y),
            fixed::norm(&x),
            fixed::cosine_similarity(&x, &y),
            fixed::softmax(&x, t),
        ));
        black_box((fixed::matmul(&a, &b), fixed::matmul_transposed(&a, &b)));
        black_box((
            fixed::matmul(&[[1.0; 2]; 3], &[[x[0]; 8]; 2]),
            fixed::matmul(&[[1.0; 2]; 3], &[[x[0]; 4]; 2]),
        ));
        black_box(fixed::matmul(&[[1.0; 2]; 3], &[[x[0]; 16]; 2]));
        let mut rows = a;
        fixed::layer_norm(&mut rows, &log_sum_exp, &log_sum_exp, 1e-5);
        fixed::rms_norm(&mut rows, &log_sum_exp, 1e-5);
        black_box(rows);
        let attention = black_box(Attention::new());
        fixed::attention(&attention, &a, &b, &a, &mut out, &mut scratch)?;
        fixed::attention_with_log_sum_exp(
            &attention,
            &a,
            &b,
            &a,
            &mut out,
            &mut log_sum_exp,
            &mut scratch,
        )?;
        fixed::attention_weights(&attention, &a, &b, &mut out, &mut scratch)?;
        black_box((out, log_sum_exp));
        Ok(())
    }

    fn int8_attention() -> Result<(), Error> {
        let (x, mut integers, mut back) = black_box(([1.0; 20], [0; 20], [0.0; 20]));
        int8::quantize(some(&x), int8::scale_for(some(&x)), some_mut(&mut integers))?;
        int8::dequantize(some(&integers), black_box(0.5), some_mut(&mut back))?;
        let scales = black_box(int8::Scales { query: 0.1, key: 0.1, value: 0.1, output: 0.1 });
        let [n_q, n_k, d_k, d_v] = black_box([9, 10, 6, 5]);
        let attention = int8::Attention::new(
            scales,
            int8::default_scale(d_k),
            Temperature::new(black_box(1.5))?,
        )?;

        let (q, k, v, seen) = black_box(([1; 54], [2; 60], [3; 50], [true; 90]));
        let (mut out, mut scratch) = black_box(([0; 45], [0; INT8_SCRATCH]));
        let (q, k, v) = (Mat::new(&q, n_q, d_k)?, Mat::new(&k, n_k, d_k)?, Mat::new(&v, n_k, d_v)?);
        let window = Window { left: black_box(Some(3)), right: black_box(Some(1)) };
        let mask = Mask::NONE
            .causal(Position::Offset(black_box(4)))
            .window(black_box(Position::BottomRight), window);
        let mask = mask.key_len(n_k).allowed(Mat::new(&seen, n_q, n_k)?);
        black_box(int8::attention_scratch_len(n_q, n_k, d_k, d_v));
        let view = MatMut::new(&mut out, n_q, d_v)?;
        black_box(attention.mask(mask)).forward(q, k, v, view, some_mut(&mut scratch))?;

        let (a, mut out) = black_box(([[1; 6]; 10], [[0; 6]; 10]));
        fixed::int8_attention(&black_box(attention), &a, &a, &a, &mut out, &mut scratch)?;
        black_box((back, out));
        Ok(())
    }

    const INT8_SCRATCH: usize = int8::attention_scratch_len(10, 10, 6, 6);

    /// The slice with a length that the compiler does not know.
    fn some<T>(x: &[T]) -> &[T] {
        x.get(..black_box(x.len())).unwrap_or_default()
    }

    fn some_mut<T>(x: &mut [T]) -> &mut [T] {
        let len = black_box(x.len());
        x.get_mut(..len).unwrap_or_default()
    }
}

#[cfg(not(target_os = "none"))]
fn main() {}
