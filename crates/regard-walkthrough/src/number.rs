/// A number for a learner: three decimals, more if it is small, and none if it is whole.
pub(crate) fn number(x: f64) -> String {
    let size = x.abs();
    let text = if x == 0.0 {
        "0".to_owned() // −0 too
    } else if !x.is_finite() {
        x.to_string().replace("inf", "∞")
    } else if size < 0.001 || size >= 1e6 {
        let text = format!("{x:.2e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        format!("{}·10{}", trimmed(mantissa), superscript(exponent))
    } else {
        let decimals = if size >= 0.1 {
            3
        } else if size >= 0.01 {
            4
        } else {
            5
        };
        trimmed(&format!("{x:.decimals$}")).to_owned()
    };
    text.replace('-', "−")
}

/// A number after an operator, in brackets if it is negative.
pub(crate) fn bracketed(x: f64) -> String {
    if x < 0.0 { format!("({})", number(x)) } else { number(x) }
}

/// Removes the zeros that end a decimal fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn superscript(exponent: &str) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    exponent.chars().map(|c| c.to_digit(10).map_or('⁻', |d| DIGITS[d as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_three_digits() {
        let cases = [
            (4.0, "4"),
            (2.309401, "2.309"),
            (1.0 / 3.0, "0.333"),
            (-0.25, "−0.25"),
            (0.008282688, "0.00828"),
            (2.2637726e-8, "2.26·10⁻⁸"),
            (-1.5e12, "−1.5·10¹²"),
            (f64::NEG_INFINITY, "−∞"),
            (-0.0, "0"),
            (1200.0, "1200"),
        ];
        for (x, text) in cases {
            assert_eq!(number(x), text);
        }
        assert_eq!(bracketed(-1.5), "(−1.5)");
    }
}
