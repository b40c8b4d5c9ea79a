use crate::{Quantity, Rows};

/// A role of a token in attention.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Query,
    Key,
    Value,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Query, Self::Key, Self::Value];

    /// The role whose projection a step shows.
    pub fn of(quantity: Quantity) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.quantity() == quantity)
    }

    /// Q, K or V.
    pub fn quantity(self) -> Quantity {
        match self {
            Self::Query => Quantity::Q,
            Self::Key => Quantity::K,
            Self::Value => Quantity::V,
        }
    }

    /// Its projection matrix.
    pub fn weights(self) -> Quantity {
        match self {
            Self::Query => Quantity::WQ,
            Self::Key => Quantity::WK,
            Self::Value => Quantity::WV,
        }
    }

    pub fn rows(self) -> Rows {
        if self == Self::Query { Rows::Queries } else { Rows::Keys }
    }

    /// The letter of its features: q0, q1, …
    pub fn feature(self) -> &'static str {
        self.quantity().name()
    }

    pub fn symbol(self) -> &'static str {
        match self {
            Self::Query => "Q",
            Self::Key => "K",
            Self::Value => "V",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::Query => "Queries",
            Self::Key => "Keys",
            Self::Value => "Values",
        }
    }

    pub fn code(self) -> &'static str {
        match self {
            Self::Query => "matmul(x, w_q, q)",
            Self::Key => "matmul(x, w_k, k)",
            Self::Value => "matmul(x, w_v, v)",
        }
    }

    pub fn weights_meaning(self) -> &'static str {
        match self {
            Self::Query => {
                "Learned. It turns a token into its query: what it looks for in other tokens."
            }
            Self::Key => "Learned. It turns a token into its key: what other tokens find it by.",
            Self::Value => {
                "Learned. It turns a token into its value: what it passes on to the tokens that attend to it."
            }
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            Self::Query => {
                "Row i is what token i looks for. Each token plays three roles; this is the first."
            }
            Self::Key => "Row j is what token j offers: every query is compared with it.",
            Self::Value => {
                "Row j is what token j passes on, in proportion to the attention it gets."
            }
        }
    }
}
