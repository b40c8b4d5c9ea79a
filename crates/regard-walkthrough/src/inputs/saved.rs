//! Inputs in a file: the example and its changes.

use serde::{Deserialize, Serialize};

use super::Inputs;
use crate::input::{Edit, Sizes};
use crate::{Error, Example};

/// Inputs as a file holds them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    example: Example,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sizes: Option<Sizes>,
    heads: usize,
    #[serde(default)]
    edits: Vec<Edit>,
}

impl From<Inputs> for Saved {
    fn from(inputs: Inputs) -> Self {
        let (edits, heads) = (inputs.edits(), inputs.heads());
        let tokens = inputs.sizes.map(|_| inputs.tokens);
        Self { example: inputs.example, tokens, sizes: inputs.sizes, heads, edits }
    }
}

impl TryFrom<Saved> for Inputs {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Self, Error> {
        let Saved { example, tokens, sizes, heads, edits } = saved;
        let mut inputs = match (example, tokens, sizes) {
            (Example::Seeded, Some(tokens), Some(Sizes { d_model, d_k, seed })) => {
                Self::seeded(tokens, d_model, d_k, heads, seed)?
            }
            (Example::Seeded, ..) => {
                return Err(Error::Saved {
                    example: example.name(),
                    problem: "need tokens and sizes",
                });
            }
            (_, None, None) => Self::new(example),
            _ => {
                return Err(Error::Saved {
                    example: example.name(),
                    problem: "cannot have tokens or sizes of their own",
                });
            }
        };
        inputs.set_heads(heads)?;
        for Edit { matrix, row, col, value } in edits {
            inputs.set(matrix, row, col, value)?;
        }
        Ok(inputs)
    }
}
