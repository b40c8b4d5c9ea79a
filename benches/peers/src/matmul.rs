//! Matrix products, each in the layout that its library prefers.

use std::hint::black_box;

use faer::{Accum, Mat, Par};
use gemm::Parallelism;
use nalgebra::{DMatrix, SMatrix};
use regard_benches::{Shape, Subject, numbers};

pub fn matmul(shape: Shape) -> Vec<Subject> {
    let mut subjects = vec![
        with_gemm(shape),
        with_nano_gemm(shape),
        with_matrixmultiply(shape),
        with_nalgebra(shape),
        with_faer(shape),
    ];
    if shape.fixed && shape.queries == shape.keys && shape.keys == shape.dim {
        match shape.dim {
            4 => subjects.push(with_static_nalgebra::<4>()),
            8 => subjects.push(with_static_nalgebra::<8>()),
            16 => subjects.push(with_static_nalgebra::<16>()),
            32 => subjects.push(with_static_nalgebra::<32>()),
            64 => subjects.push(with_static_nalgebra::<64>()),
            _ => {}
        }
    }
    subjects
}

/// A, B and memory for their product.
fn matrices(shape: Shape) -> [Vec<f32>; 3] {
    let Shape { queries: m, keys: n, dim: k, .. } = shape;
    [numbers(m * k, 0.1), numbers(k * n, 0.2), vec![0.0; m * n]]
}

fn with_gemm(shape: Shape) -> Subject {
    let Shape { queries: m, keys: n, dim: k, threads, .. } = shape;
    let [a, b, mut out] = matrices(shape);
    let parallelism = if threads == 1 { Parallelism::None } else { Parallelism::Rayon(threads) };
    let (m_stride, k_stride) = (m as isize, k as isize);
    let call = move || {
        // SAFETY: column-major matrices of m × n, m × k and k × n elements.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                out.as_mut_ptr(),
                m_stride,
                1,
                false,
                black_box(&a).as_ptr(),
                m_stride,
                1,
                black_box(&b).as_ptr(),
                k_stride,
                1,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        }
        black_box(&out);
        Ok(())
    };
    Subject::new("gemm", call).threads(threads)
}

fn with_nano_gemm(shape: Shape) -> Subject {
    let Shape { queries: m, keys: n, dim: k, .. } = shape;
    let [a, b, mut out] = matrices(shape);
    let plan = nano_gemm::Plan::new_colmajor_lhs_and_dst_f32(m, n, k);
    let (m_stride, k_stride) = (m as isize, k as isize);
    Subject::new("nano-gemm", move || {
        let (a, b) = (black_box(&a).as_ptr(), black_box(&b).as_ptr());
        // SAFETY: column-major matrices of m × n, m × k and k × n elements, as planned.
        unsafe {
            let out = out.as_mut_ptr();
            plan.execute_unchecked(m, n, k, out, 1, m_stride, a, 1, m_stride, b, 1, k_stride, 0.0, 1.0, false, false);
        }
        black_box(&out);
        Ok(())
    })
}

fn with_matrixmultiply(shape: Shape) -> Subject {
    let Shape { queries: m, keys: n, dim: k, .. } = shape;
    let [a, b, mut out] = matrices(shape);
    let (n_stride, k_stride) = (n as isize, k as isize);
    Subject::new("matrixmultiply", move || {
        let (a, b) = (black_box(&a).as_ptr(), black_box(&b).as_ptr());
        // SAFETY: row-major matrices of m × n, m × k and k × n elements.
        unsafe {
            let out = out.as_mut_ptr();
            matrixmultiply::sgemm(m, k, n, 1.0, a, k_stride, 1, b, n_stride, 1, 0.0, out, n_stride, 1);
        }
        black_box(&out);
        Ok(())
    })
}

fn with_nalgebra(shape: Shape) -> Subject {
    let Shape { queries: m, keys: n, dim: k, .. } = shape;
    let [a, b, out] = matrices(shape);
    let (a, b) = (DMatrix::from_vec(m, k, a), DMatrix::from_vec(k, n, b));
    let mut out = DMatrix::from_vec(m, n, out);
    Subject::new("nalgebra", move || {
        black_box(&a).mul_to(black_box(&b), &mut out);
        black_box(&out);
        Ok(())
    })
}

fn with_static_nalgebra<const N: usize>() -> Subject {
    let [a, b] = [0.1, 0.2].map(|seed| SMatrix::<f32, N, N>::from_column_slice(&numbers(N * N, seed)));
    Subject::new("nalgebra-static", move || {
        let out = black_box(&a) * black_box(&b);
        black_box(&out);
        Ok(())
    })
}

fn with_faer(shape: Shape) -> Subject {
    let Shape { queries: m, keys: n, dim: k, threads, .. } = shape;
    let [a, b, _] = matrices(shape);
    let a = Mat::from_fn(m, k, |i, j| a[j * m + i]);
    let b = Mat::from_fn(k, n, |i, j| b[j * k + i]);
    let mut out = Mat::<f32>::zeros(m, n);
    let par = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
    let call = move || {
        faer::linalg::matmul::matmul(&mut out, Accum::Replace, black_box(&a), black_box(&b), 1.0, par);
        black_box(&out);
        Ok(())
    };
    Subject::new("faer", call).threads(threads)
}
