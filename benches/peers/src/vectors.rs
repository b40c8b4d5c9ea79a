//! Dot products and softmax.

use std::hint::black_box;

use anyhow::{Result, anyhow};
use candle_core::{Device, Tensor};
use nalgebra::DVector;
use numkong::Dot as _;
use regard_benches::{Shape, Subject, aligned_numbers};
use rten_simd::SimdOp as _;

pub fn dot(shape: Shape) -> Vec<Subject> {
    let [a, b] = [0.1, 0.2].map(|seed| aligned_numbers(shape.dim, seed));
    let [x, y] = [&a, &b].map(|x| DVector::from_column_slice(x));
    vec![
        // It sums in f64.
        Subject::new("numkong", move || {
            black_box(f32::dot(black_box(&a), black_box(&b)));
            Ok(())
        }),
        Subject::new("nalgebra", move || {
            black_box(black_box(&x).dot(black_box(&y)));
            Ok(())
        }),
    ]
}

pub fn softmax(shape: Shape) -> Result<Vec<Subject>> {
    let Shape { queries: rows, keys: cols, threads, .. } = shape;
    let mut scores = aligned_numbers(rows * cols, 0.1);
    let tensor = Tensor::from_slice(&scores, (rows, cols), &Device::Cpu)?;
    Ok(vec![
        Subject::new("rten-vecmath", move || {
            for row in black_box(&mut scores).chunks_exact_mut(cols) {
                rten_vecmath::Softmax::new_mut(row).dispatch();
            }
            Ok(())
        }),
        Subject::new("candle-nn", move || {
            black_box(candle_nn::ops::softmax_last_dim(black_box(&tensor)).map_err(|e| anyhow!(e))?);
            Ok(())
        })
        .threads(threads),
    ])
}
