//! Jinja for chat templates, set up as in transformers, with bounds.
//!
//! A template comes from a stranger. Everything that can grow has a bound that is checked before it grows:
//!
//! - the template: [`LONGEST`] bytes, and [`NESTED`] levels of brackets and blocks. Chains (`a + b + …`, `x|f|g`, `elif`) are lists
//!   and not nested, so that neither reading nor freeing them recurses;
//! - the work: a number of steps. Each node that is evaluated takes one, and so does each 32 bytes that are written, copied, compared or
//!   searched. The steps bound the memory with the time: 500,000 of them make 16 MB;
//! - the stack: [`DEEP`] levels of evaluation, calls of macros included;
//! - values: [`DEEPEST`] levels of lists and dictionaries. None contains a namespace or a loop, which alone can change, so that no value
//!   contains itself.
//!
//! Values print, compare and divide as Python's do.

mod lexer;
mod library;
mod parser;
mod run;
mod text;
mod value;

pub(crate) use self::value::Value;

/// The most bytes of a template. The longest of known models have 30 KB.
pub(crate) const LONGEST: usize = 1 << 18;
/// The most levels of brackets and blocks in a template.
const NESTED: usize = 48;
/// The most levels of evaluation: of blocks, expressions and calls. Without optimization, a level takes less than 10 KB of stack.
const DEEP: usize = 96;
/// The most levels of lists and dictionaries in a value.
const DEEPEST: u8 = 32;

/// This fault keeps a template from being applied.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It takes more steps than it is allowed.
    Steps,
    /// The fault, and its line.
    Wrong(String, Option<u32>),
}

impl Fault {
    fn new(what: impl Into<String>) -> Self {
        Self::Wrong(what.into(), None)
    }

    /// Adds the line unless it is known.
    fn on(self, line: u32) -> Self {
        match self {
            Self::Wrong(what, None) => Self::Wrong(what, Some(line)),
            other => other,
        }
    }
}

type Result<T> = core::result::Result<T, Fault>;

/// The text that a template makes from values, in at most `steps` steps. `now` is the time in seconds since 1970, for
/// `strftime_now`.
pub(crate) fn render<'s>(
    template: &'s str,
    values: impl IntoIterator<Item = (&'s str, Value<'s>)>,
    steps: u64,
    now: i64,
) -> Result<String> {
    if template.len() > LONGEST {
        let length = template.len();
        return Err(Fault::new(format!("it has {length} bytes, and {LONGEST} are the most")));
    }
    let body = parser::parse(lexer::tokens(template)?)?;
    run::Run::new(values, steps, now).template(&body)
}
