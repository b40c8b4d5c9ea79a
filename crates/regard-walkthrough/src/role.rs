use crate::{Quantity, RowRole};

/// A role of a token in attention. The texts of its projection are those of the [`quantity`](Self::quantity).
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

    pub fn rows(self) -> RowRole {
        if self == Self::Query { RowRole::Queries } else { RowRole::Keys }
    }
}
