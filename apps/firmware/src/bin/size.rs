//! The image whose size is measured: it runs one operation, which REGARD_OPERATION names at build time, or none.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
mod image {
    use core::hint::black_box;
    use core::panic::PanicInfo;

    use regard_firmware::image::{entry, exit};
    use regard_kernels::{
        Attention, Mask, Mat, MatMut, Position, Temperature, attention_scratch_len, exp, fixed,
        int8, matmul, softmax,
    };

    /// Whether the operation is called. Without the call, the image holds only its surroundings.
    const CALL: bool = equal(option_env!("REGARD_CALL"), "yes");

    /// A constant, so that the compiler removes the other operations.
    const fn is(operation: &str) -> bool {
        equal(option_env!("REGARD_OPERATION"), operation)
    }

    const fn equal(a: Option<&str>, b: &str) -> bool {
        let (Some(a), b) = (a, b.as_bytes()) else { return false };
        let (a, mut i) = (a.as_bytes(), 0);
        while i < a.len() && i < b.len() && a[i] == b[i] {
            i += 1;
        }
        i == a.len() && i == b.len()
    }

    #[entry]
    fn main() -> ! {
        run();
        exit(0)
    }

    /// This is a function because in a function that never returns the compiler treats every call as rare.
    #[inline(never)]
    fn run() {
        const SCRATCH: usize = attention_scratch_len(64, 64, 32, 32);
        if const { is("attention") } {
            attention::<64, 64, 32, SCRATCH>(|| const { &Attention::new() });
        } else if const { is("causal attention") } {
            attention::<64, 64, 32, SCRATCH>(|| const { &causal() });
        } else if const { is("any attention") } {
            // The attention is described at run time, so that the linker can leave out no part of it.
            attention::<64, 64, 32, SCRATCH>(black_box(|| const { &anything() }));
        } else if const { is("attention at 3 shapes") } {
            attention::<8, 8, 8, { attention_scratch_len(8, 8, 8, 8) }>(
                || const { &Attention::new() },
            );
            attention::<32, 32, 32, { attention_scratch_len(32, 32, 32, 32) }>(|| {
                const { &Attention::new() }
            });
            attention::<64, 64, 32, SCRATCH>(|| const { &Attention::new() });
        } else if const { is("decode step") } {
            attention::<1, 64, 32, { attention_scratch_len(1, 64, 32, 32) }>(|| {
                const { &Attention::new() }
            });
        } else if const { is("int8 attention") } {
            int8_attention::<64, 64, 32, { int8::attention_scratch_len(64, 64, 32, 32) }>(
                const { &int8_known() },
            );
        } else if const { is("any int8 attention") } {
            let attention = const { &int8_known().mask(Mask::NONE.causal(Position::TopLeft)) };
            int8_attention::<64, 64, 32, { int8::attention_scratch_len(64, 64, 32, 32) }>(
                black_box(attention),
            );
        } else if const { is("int8 decode step") } {
            int8_attention::<1, 64, 32, { int8::attention_scratch_len(1, 64, 32, 32) }>(
                const { &int8_known() },
            );
        } else if const { is("matmul") } {
            let (a, b, mut out) = black_box(([0.0; 8], [0.0; 8], [0.0; 8]));
            if let (Ok(a), Ok(b), Ok(out)) =
                (Mat::new(&a, 4, 2), Mat::new(&b, 2, 2), MatMut::new(&mut out, 4, 2))
            {
                let (a, b, out) = black_box((a, b, out));
                if CALL {
                    let _ = black_box(matmul(a, b, out));
                }
            }
            black_box(out);
        } else if const { is("softmax") } {
            row(|row| softmax(row, Temperature::ONE));
        } else if const { is("exp") } {
            row(exp);
        }
    }

    const fn causal() -> Attention<'static> {
        Attention::new().mask(Mask::NONE.causal(Position::TopLeft))
    }

    /// Returns an attention with a part of every kind.
    const fn anything() -> Attention<'static> {
        Attention::new().mask(Mask::NONE.causal(Position::TopLeft).alibi(Position::TopLeft, 0.5))
    }

    #[inline(always)]
    fn row(f: impl FnOnce(&mut [f32])) {
        let mut row = [0.0; 8];
        let row = black_box(&mut row[..]);
        if CALL {
            f(row);
        }
        black_box(row);
    }

    /// `describe` is inlined, so that the compiler knows the description.
    #[inline(always)]
    fn attention<const N_Q: usize, const N_K: usize, const D: usize, const SCRATCH: usize>(
        describe: impl FnOnce() -> &'static Attention<'static>,
    ) {
        let q = black_box(&[[0.0; D]; N_Q]);
        let kv = black_box(&[[0.0; D]; N_K]);
        let mut out = [[0.0; D]; N_Q];
        let mut scratch = [0.0; SCRATCH];
        let (out, scratch) = black_box((&mut out, &mut scratch));
        if CALL {
            compute(describe, q, kv, out, scratch);
        }
        black_box((out, scratch));
    }

    /// This is a function so that the memory for output and scratch is not in its stack frame: firmware has it in statics, and
    /// variables that lie kilobytes away in a frame need longer instructions.
    #[inline(never)]
    fn compute<const N_Q: usize, const N_K: usize, const D: usize, const SCRATCH: usize>(
        describe: impl FnOnce() -> &'static Attention<'static>,
        q: &[[f32; D]; N_Q],
        kv: &[[f32; D]; N_K],
        out: &mut [[f32; D]; N_Q],
        scratch: &mut [f32; SCRATCH],
    ) {
        black_box(fixed::attention(describe(), q, kv, kv, out, scratch).is_ok());
    }

    const fn int8_known() -> int8::Attention<'static> {
        let scales = int8::Scales { query: 0.03, key: 0.03, value: 0.02, output: 0.02 };
        match int8::Attention::new(scales, int8::default_scale(32), Temperature::ONE) {
            Ok(attention) => attention,
            Err(_) => panic!("scales are finite and positive"),
        }
    }

    /// This is a function for the same reason as [`attention`].
    #[inline(always)]
    fn int8_attention<const N_Q: usize, const N_K: usize, const D: usize, const SCRATCH: usize>(
        attention: &int8::Attention<'_>,
    ) {
        let q = black_box(&[[0; D]; N_Q]);
        let kv = black_box(&[[0; D]; N_K]);
        let mut out = [[0; D]; N_Q];
        let mut scratch = [0; SCRATCH];
        let (out, scratch) = black_box((&mut out, &mut scratch));
        if CALL {
            black_box(fixed::int8_attention(attention, q, kv, black_box(kv), out, scratch).is_ok());
        }
        black_box((out, scratch));
    }

    #[panic_handler]
    fn panic(_: &PanicInfo<'_>) -> ! {
        exit(1)
    }
}

#[cfg(not(target_os = "none"))]
fn main() {}
