/// A part of a formula to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormulaPart<'a> {
    /// The characters.
    pub text: &'a str,
    /// Its place.
    pub script: Script,
}

/// The place of a part of a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// On the line.
    Base,
    /// Below the line: the Q of W_Q.
    Sub,
    /// Above the line: the power of e^x.
    Super,
}

/// The parts of a formula of a [`Step`](crate::Step), in which `_` precedes an index (of letters and digits) and `^` a power
/// (of letters and digits, or in brackets, which are left out).
///
/// ```
/// use regard_walkthrough::{Script, formula_parts};
/// let parts: Vec<_> = formula_parts("e^(s/T)·W_Q + 1").into_iter().map(|p| (p.text, p.script)).collect();
/// let (base, sub, sup) = (Script::Base, Script::Sub, Script::Super);
/// assert_eq!(parts, [("e", base), ("s/T", sup), ("·W", base), ("Q", sub), (" + 1", base)]);
/// let transposed: Vec<_> = formula_parts("W_Qᵀ").into_iter().map(|p| (p.text, p.script)).collect();
/// assert_eq!(transposed, [("W", base), ("Q", sub), ("ᵀ", base)]);
/// ```
pub fn formula_parts(formula: &str) -> Vec<FormulaPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = formula;
    while let Some((base, script)) = rest.split_once(['_', '^']) {
        let kind = if rest[base.len()..].starts_with('_') { Script::Sub } else { Script::Super };
        parts.push(FormulaPart { text: base, script: Script::Base });
        let (text, after) = argument(script);
        parts.push(FormulaPart { text, script: kind });
        rest = after;
    }
    parts.push(FormulaPart { text: rest, script: Script::Base });
    parts.retain(|p| !p.text.is_empty());
    parts
}

/// Splits a text into an index or a power and the rest.
fn argument(text: &str) -> (&str, &str) {
    if let Some(open) = text.strip_prefix('(') {
        let mut depth = 1;
        for (at, c) in open.char_indices() {
            depth += match c {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            if depth == 0 {
                return (&open[..at], &open[at + 1..]);
            }
        }
    }
    // The sign of a transposed matrix is a letter, but no part of an index.
    let ends = |c: char| !c.is_alphanumeric() || c == 'ᵀ';
    text.split_at(text.find(ends).unwrap_or(text.len()))
}
