//! Numbers for readers.

/// The most decimals that a cell shows, unless all numbers are tiny.
const MOST: usize = 3;
/// With more decimals than these, and from a million on, a number has an exponent.
const MOST_OF_TINY: usize = 5;

/// The number of decimals of a matrix: 0 if all numbers are whole, at most 3, and more only if all are tiny.
pub fn decimals(numbers: &[f32]) -> usize {
    let exact = |n: usize| {
        let unit = 10_f32.powi(n as i32);
        numbers.iter().all(|x| !x.is_finite() || (x * unit - (x * unit).round()).abs() < 1e-4)
    };
    let largest = numbers.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f32::max);
    let tiny = largest > 0.0 && largest < 0.01;
    let most = if tiny { (2 - largest.log10().floor() as i32).clamp(3, 9) as usize } else { MOST };
    (0..most).find(|n| !tiny && exact(*n)).unwrap_or(most)
}

/// A number with `decimals` decimals, or fewer if it has three digits or more before them: "0.33", "−123.5".
///
/// A number that would have more than five decimals, or more than six digits before them, has an exponent: "1.2e−7".
pub fn fixed(x: f32, decimals: usize) -> String {
    if x.is_finite() && (x.abs() >= 1e6 || x != 0.0 && decimals > MOST_OF_TINY) {
        return tick(x);
    }
    rounded(x, if decimals > MOST_OF_TINY { 0 } else { decimals })
}

/// A number without an exponent, with `decimals` decimals, or fewer if it has three digits or more before them.
fn rounded(x: f32, decimals: usize) -> String {
    let decimals = match x.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => decimals.min(1),
        _ => decimals,
    };
    let text = if x.is_infinite() {
        x.to_string().replace("inf", "∞")
    } else {
        format!("{x:.decimals$}")
    };
    // A rounded −0 is 0.
    let text =
        if text.trim_matches(['-', '0', '.']).is_empty() { text.replace('-', "") } else { text };
    text.replace('-', "−")
}

/// A number by itself, to three digits: "0.42", "1.3e−9", "masked", "not a number".
pub fn spoken(x: f32) -> String {
    if x.is_nan() {
        return "not a number".to_owned();
    }
    if x == f32::NEG_INFINITY {
        return "masked".to_owned();
    }
    let size = x.abs();
    if x != 0.0 && size < 1e-4 || size >= 1e6 && x.is_finite() {
        return format!("{x:.2e}").replace('-', "−");
    }
    let digits =
        if size > 0.0 && size.is_finite() { (2 - size.log10().floor() as i32).max(0) } else { 0 };
    trimmed(&rounded(x, digits as usize))
}

/// A number by itself, where −∞ marks a masked cell that stands for `masked`: "0 (masked)".
pub fn spoken_masked(x: f32, masked: f32) -> String {
    if x == f32::NEG_INFINITY && masked.is_finite() {
        format!("{} (masked)", spoken(masked))
    } else {
        spoken(x)
    }
}

/// A number beside a colour bar, to two digits: "0.25", "2.5e−7".
pub fn tick(x: f32) -> String {
    let size = x.abs();
    if x != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{x:.1e}").replace(".0e", "e").replace('-', "−");
    }
    let digits = if x.fract() == 0.0 { 0 } else { (1 - size.log10().floor() as i32).clamp(0, 6) };
    trimmed(&rounded(x, digits as usize))
}

/// The text without the zeros that end a decimal fraction.
fn trimmed(text: &str) -> String {
    let is_fraction = text.contains('.');
    let text = if is_fraction { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    text.to_owned()
}

/// A rounding error: "0" or "1.2e−7".
pub fn error(x: f64) -> String {
    if x == 0.0 { "0".to_owned() } else { format!("{x:.1e}").replace('-', "−") }
}

/// The definition of a unit of the last place.
pub const ULP: &str =
    "A unit of the last place (ULP) is the gap between neighbouring 32-bit numbers of that size.";

/// A number of units of the last place. Small ones are rounded up: "0", "0.4", "12", "3.5e6".
pub fn ulp(x: f64) -> String {
    match x {
        0.0 => "0".to_owned(),
        x if x <= 9.9 => format!("{:.1}", (10.0 * x).ceil() / 10.0),
        x if x < 1e5 => format!("{x:.0}"),
        x => format!("{x:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_short() {
        let cases = [
            (0.3333, 3, "0.333"),
            (-0.0001, 3, "0.000"),
            (-1.5, 1, "−1.5"),
            (4.0, 0, "4"),
            (-123.456, 3, "−123.5"),
            (12345.6, 3, "12346"),
            (-f32::MAX, 3, "−3.4e38"),
            (1_234_567.0, 0, "1.2e6"),
            (0.000_012_3, 7, "1.2e−5"),
            (0.0, 7, "0"),
            (f32::NEG_INFINITY, 3, "−∞"),
            (f32::NAN, 0, "NaN"),
        ];
        for (x, decimals, text) in cases {
            assert_eq!(fixed(x, decimals), text);
        }
    }

    #[test]
    fn a_number_by_itself_has_three_digits() {
        let cases = [
            (0.4231, "0.423"),
            (0.5, "0.5"),
            (-12.34, "−12.3"),
            (1234.5, "1234"),
            (0.000_012_34, "1.23e−5"),
            (0.0, "0"),
            (f32::INFINITY, "∞"),
            (f32::NEG_INFINITY, "masked"),
            (f32::NAN, "not a number"),
        ];
        for (x, text) in cases {
            assert_eq!(spoken(x), text);
        }
    }

    #[test]
    fn a_number_beside_a_colour_bar_is_short() {
        let cases = [
            (0.0, "0"),
            (0.25, "0.25"),
            (-1.5, "−1.5"),
            (12.3, "12"),
            (-123.4, "−123"),
            (1000.0, "1000"),
            (1.0 / 3.0, "0.33"),
            (0.0123, "0.012"),
            (1e-5, "1e−5"),
            (-2.5e-7, "−2.5e−7"),
            (1e38, "1e38"),
        ];
        for (x, text) in cases {
            assert_eq!(tick(x), text);
        }
    }

    #[test]
    fn units_of_the_last_place_are_short_and_never_rounded_to_zero() {
        let cases = [
            (0.0, "0"),
            (0.001, "0.1"),
            (0.49, "0.5"),
            (0.41, "0.5"),
            (9.99, "10"),
            (123.4, "123"),
            (2.5e6, "2.5e6"),
        ];
        for (x, text) in cases {
            assert_eq!(ulp(x), text);
        }
    }

    #[test]
    fn a_matrix_has_as_many_decimals_as_it_needs() {
        assert_eq!(decimals(&[1.0, -2.0, f32::NEG_INFINITY]), 0);
        assert_eq!(decimals(&[1.0, 0.5, 0.1]), 1);
        assert_eq!(decimals(&[0.25]), 2);
        assert_eq!(decimals(&[1.0 / 3.0]), 3);
        assert_eq!(decimals(&[0.001, 0.0]), 5);
    }
}
