//! The names of the plots.

use crate::Room;

/// The plots of the rooms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotName {
    /// The weights of a query of an example, by temperature.
    Weights,
    /// A measure of the example that explains 1/√d, by d, numbered among the four.
    WhyScale(usize),
    /// The laboratory's weights of a row, sorted.
    Sorted,
    /// The entropy of a row of the laboratory, by temperature.
    Entropy,
    /// The gradient norm of a row of the laboratory, by temperature.
    Gradient,
    /// The gradient norm of the laboratory's rows, by d.
    GradientByDim,
}

impl PlotName {
    /// All plots.
    pub const ALL: [Self; 9] = [
        Self::Weights,
        Self::WhyScale(0),
        Self::WhyScale(1),
        Self::WhyScale(2),
        Self::WhyScale(3),
        Self::Sorted,
        Self::Entropy,
        Self::Gradient,
        Self::GradientByDim,
    ];

    /// The name in the list of commands.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weights => "weights by temperature",
            Self::WhyScale(0) => "why 1/√d, spread of the scores",
            Self::WhyScale(1) => "why 1/√d, largest weight",
            Self::WhyScale(2) => "why 1/√d, entropy",
            Self::WhyScale(_) => "why 1/√d, gradient norm",
            Self::Sorted => "weights, sorted",
            Self::Entropy => "entropy by temperature",
            Self::Gradient => "gradient norm by temperature",
            Self::GradientByDim => "gradient norm by d",
        }
    }

    /// The room that shows the plot.
    pub fn room(self) -> Room {
        match self {
            Self::Weights | Self::WhyScale(_) => Room::Walkthrough,
            _ => Room::Laboratory,
        }
    }
}
