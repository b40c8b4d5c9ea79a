//! Tests that views of `ndarray` give the bits of the same numbers in slices, or an error with their layout.

use half::f16;
use ndarray::{Array3, Array4, ArrayView4, s};
use regard::{Attention, Heads, Mask, Sequences, Tensor};

/// [batch, heads, tokens, head_dim], with no number twice.
fn numbers(shape: [usize; 4]) -> Array4<f32> {
    let [_, heads, n, d] = shape;
    Array4::from_shape_fn(shape, |(b, h, i, j)| {
        ((((b * heads + h) * n + i) * d + j) as f32 * 0.37).sin()
    })
}

fn attend(x: Heads<'_>) -> Tensor<4> {
    Attention::new().mask(Mask::CAUSAL).forward(x, x, x).unwrap()
}

#[test]
fn axes_may_lie_in_any_order_but_the_last() {
    let shape = [2, 3, 5, 4];
    let x = numbers(shape);
    let expected = attend(Heads::new("x", x.as_slice().unwrap(), shape).unwrap());
    for order in
        [[0, 1, 2, 3], [0, 2, 1, 3], [1, 0, 2, 3], [1, 2, 0, 3], [2, 0, 1, 3], [2, 1, 0, 3]]
    {
        // The numbers are stored in this order of axes, and viewed in the order of heads.
        let laid_out = x.view().permuted_axes(order).as_standard_layout().into_owned();
        let mut back = [0; 4];
        order.iter().enumerate().for_each(|(i, axis)| back[*axis] = i);
        let view = laid_out.view().permuted_axes(back);
        let heads = Heads::from_ndarray("x", view).unwrap();
        assert_eq!(heads.shape(), shape);
        assert_eq!(attend(heads), expected, "{order:?}");
    }
}

#[test]
fn a_part_without_gaps_is_a_view_too() {
    let x = numbers([3, 2, 5, 4]);
    let heads = Heads::from_ndarray("x", x.slice(s![1..2, 1.., 2..4, ..])).unwrap();
    let part: Vec<f32> = x.slice(s![1..2, 1.., 2..4, ..]).iter().copied().collect();
    assert_eq!(attend(heads), attend(Heads::new("x", &part, [1, 1, 2, 4]).unwrap()));
    // An axis of one element has no direction.
    let one = x.slice(s![2..;-1, 1..;-1, 4..;-1, ..]);
    let last: Vec<f32> = one.iter().copied().collect();
    assert_eq!(attend(Heads::from_ndarray("x", one).unwrap()), last, "one token sees itself");
}

#[test]
fn half_precision_is_a_view_too() {
    let (shape, transposed) = ([1, 2, 3, 4], [0, 2, 1, 3]);
    let x = numbers(shape).mapv(f16::from_f32);
    let y = x.view().permuted_axes(transposed).as_standard_layout().into_owned();
    let dense = Heads::from_ndarray("x", &x).unwrap();
    let view = Heads::from_ndarray("x", y.view().permuted_axes(transposed)).unwrap();
    let attention = Attention::new();
    assert_eq!(
        attention.forward(view, view, view).unwrap(),
        attention.forward(dense, dense, dense).unwrap()
    );
}

#[test]
fn what_lies_otherwise_is_refused_with_its_strides() {
    let x = numbers([2, 2, 3, 4]);
    let message =
        |view: ArrayView4<'_, f32>| Heads::from_ndarray("query", view).unwrap_err().to_string();
    assert_eq!(
        message(x.slice(s![.., .., ..;-1, ..])),
        "query of the shape [2, 2, 3, 4] has the strides [24, 12, -4, 1], but they must be positive"
    );
    assert_eq!(
        message(x.slice(s![.., .., .., ..;-1])),
        "query of the shape [2, 2, 3, 4] has the strides [24, 12, 4, -1], but they must be positive"
    );
    assert_eq!(
        message(numbers([1, 2, 3, 4]).broadcast([5, 2, 3, 4]).unwrap()),
        "query of the shape [5, 2, 3, 4] has the strides [0, 12, 4, 1], but they must be positive"
    );
    assert_eq!(
        message(x.view().permuted_axes([0, 1, 3, 2])),
        "query of the shape [2, 2, 4, 3] has the strides [24, 12, 1, 4], but that of the last axis must be 1"
    );
    assert_eq!(
        message(x.slice(s![.., .., ..2, ..])),
        "query of the shape [2, 2, 2, 4] has the strides [24, 12, 4, 1], but there may be no gaps between the numbers"
    );

    let x = Array3::<f32>::zeros([2, 3, 4]);
    assert_eq!(Sequences::from_ndarray("the input", &x).unwrap().shape(), [2, 3, 4]);
    assert_eq!(
        Sequences::from_ndarray("the input", x.view().permuted_axes([1, 0, 2]))
            .unwrap_err()
            .to_string(),
        "the input of the shape [3, 2, 4] has the strides [4, 12, 1], but those of the standard layout are needed"
    );
}

#[test]
fn nothing_has_any_layout() {
    let x = numbers([1, 2, 3, 4]);
    for view in [
        x.slice(s![.., .., ..;-1, 4..]),
        x.slice(s![.., .., 3.., ..;-1]),
        x.slice(s![1.., .., ..2, ..]),
    ] {
        let shape = <[usize; 4]>::from(view.dim());
        let heads = Heads::from_ndarray("x", view).unwrap();
        assert_eq!(heads.shape(), shape);
        assert_eq!(attend(heads), []);
    }
    let x = Array3::<f32>::zeros([2, 0, 4]);
    assert_eq!(
        Sequences::from_ndarray("the input", x.slice(s![..;-1, .., ..])).unwrap().shape(),
        [2, 0, 4]
    );
}
