//! Arrays of `ndarray` as tensors, without a copy.

use ndarray::{ArrayView3, ArrayView4};

use crate::{Element, Error, Heads, Sequences};

impl<'a, T: Element> Heads<'a, T> {
    /// The heads of an array \[batch, heads, tokens, head_dim\], by reference, or of a view with this order of axes. `name` is
    /// the tensor's name in errors. Needs the feature `ndarray`.
    ///
    /// The numbers are borrowed. The features of a token must be contiguous, strides must be positive, and there must be no
    /// gaps between the numbers. `as_standard_layout` makes a copy that has this layout.
    ///
    /// # Errors
    /// [`Error::Layout`] if the numbers have another layout.
    ///
    /// ```
    /// use regard::ndarray::{Array4, array};
    /// use regard::{Attention, Heads, Mask};
    /// // Three tokens with two heads of one number: [batch, tokens, heads, head_dim], as projections give them.
    /// let x = array![[[[1.0], [10.0]], [[3.0], [30.0]], [[5.0], [50.0]]]];
    /// let x = Heads::from_ndarray("x", x.view().permuted_axes([0, 2, 1, 3]))?;
    /// let out = Attention::new().scale(0.0).mask(Mask::CAUSAL).forward(x, x, x)?;
    /// let out = Array4::from_shape_vec(out.shape(), out.into_vec())?;
    /// assert_eq!(out, array![[[[1.0], [2.0], [3.0]], [[10.0], [20.0], [30.0]]]]); // the mean of each token and those before
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn from_ndarray(
        name: &'static str,
        array: impl Into<ArrayView4<'a, T>>,
    ) -> Result<Self, Error> {
        let view = array.into();
        let shape = <[usize; 4]>::from(view.dim());
        if view.is_empty() {
            return Self::new(name, &[], shape);
        }
        let mut strides = [0; 4];
        for ((stride, found), n) in strides.iter_mut().zip(view.strides()).zip(shape) {
            match usize::try_from(*found) {
                _ if n == 1 => {} // an axis of one index may have any stride
                Ok(found @ 1..) => *stride = found,
                _ => return Err(layout(name, &shape, view.strides(), "they must be positive")),
            }
        }
        let [entry, head, token, number] = strides;
        if number > 1 {
            return Err(layout(name, &shape, view.strides(), "that of the last axis must be 1"));
        }
        let Some(data) = view.to_slice_memory_order() else {
            return Err(layout(
                name,
                &shape,
                view.strides(),
                "there may be no gaps between the numbers",
            ));
        };
        Self::strided(name, data, shape, [entry, head, token])
    }
}

impl<'a> Sequences<'a> {
    /// The sequences of an array \[batch, tokens, features\] in standard layout, by reference, or of a view. `name` is the
    /// tensor's name in errors. Needs the feature `ndarray`.
    ///
    /// # Errors
    /// [`Error::Layout`] if the numbers have another layout; `as_standard_layout` copies them into this one.
    ///
    /// ```
    /// use regard::ndarray::{Array3, array};
    /// use regard::{Linear, Sequences};
    /// let x = array![[[1.0, 2.0], [3.0, 4.0]]];
    /// let sum = Linear::from_conv1d([1.0, 1.0], [2, 1])?;
    /// let y = sum.forward(Sequences::from_ndarray("x", &x)?)?;
    /// assert_eq!(Array3::from_shape_vec([1, 2, 1], y.into_vec())?, array![[[3.0], [7.0]]]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn from_ndarray(
        name: &'static str,
        array: impl Into<ArrayView3<'a, f32>>,
    ) -> Result<Self, Error> {
        let view = array.into();
        let shape = <[usize; 3]>::from(view.dim());
        match view.to_slice() {
            Some(data) => Self::new(name, data, shape),
            None => {
                Err(layout(name, &shape, view.strides(), "those of the standard layout are needed"))
            }
        }
    }
}

fn layout(tensor: &'static str, shape: &[usize], strides: &[isize], needed: &'static str) -> Error {
    Error::Layout { tensor, shape: shape.to_vec(), strides: strides.to_vec(), needed }
}
