/// Shrinks a matrix to the largest number of each rectangle of cells. NaN counts as the largest.
///
/// Rows are added one by one, in order.
#[derive(Debug)]
pub(super) struct Pool {
    /// The rows and the columns of a rectangle.
    factors: [usize; 2],
    cols: usize,
    /// The largest numbers of the rows since the last pooled row.
    largest: Vec<f32>,
    rows: usize,
    pooled: Vec<f32>,
}

/// The rows and the columns of the rectangles of which at most `limit` remain along each side.
pub(super) fn factors(sides: [usize; 2], limit: usize) -> [usize; 2] {
    sides.map(|side| side.div_ceil(limit.max(1)).max(1))
}

impl Pool {
    pub(super) fn new(factors: [usize; 2], cols: usize) -> Self {
        Self { factors, cols, largest: vec![f32::NEG_INFINITY; cols], rows: 0, pooled: Vec::new() }
    }

    pub(super) fn add(&mut self, row: &[f32]) {
        for (largest, x) in self.largest.iter_mut().zip(row) {
            *largest = larger(*largest, *x);
        }
        self.rows += 1;
        if self.rows == self.factors[0] {
            self.finish_row();
        }
    }

    /// The pooled matrix, row by row: ⌈rows / factor⌉ × ⌈cols / factor⌉, each with its own factor.
    pub(super) fn finish(mut self) -> Vec<f32> {
        if self.rows > 0 {
            self.finish_row();
        }
        self.pooled
    }

    fn finish_row(&mut self) {
        let parts = self.largest.chunks(self.factors[1]);
        self.pooled.extend(parts.map(|part| part.iter().copied().fold(f32::NEG_INFINITY, larger)));
        self.largest = vec![f32::NEG_INFINITY; self.cols];
        self.rows = 0;
    }
}

fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_seen_and_minus_infinity_is_not_a_maximum() {
        let pooled = |row: &[f32]| {
            let mut pool = Pool::new([3, 3], 3);
            pool.add(row);
            pool.finish()[0]
        };
        assert!(pooled(&[f32::NAN, 1.0, 2.0]).is_nan() && pooled(&[1.0, f32::NAN, 2.0]).is_nan());
        assert_eq!(pooled(&[f32::NEG_INFINITY, -3.0, f32::NEG_INFINITY]), -3.0);
    }

    #[test]
    fn few_cells_stay() {
        let few = |sides| factors(sides, 96);
        assert_eq!(
            [few([96, 96]), few([97, 3]), few([512, 512]), few([4, 1500])],
            [[1, 1], [2, 1], [6, 6], [1, 16]]
        );
    }
}
