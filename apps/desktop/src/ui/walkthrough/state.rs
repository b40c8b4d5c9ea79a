//! What the user chose in a walkthrough. Everything else follows from it.

use std::collections::BTreeMap;

use regard_walkthrough::{Example, Settings};
use serde::{Deserialize, Serialize};

use crate::ui::heatmap::{Cell, View};

/// What the user chose in a walkthrough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The worked example.
    #[serde(with = "as_text::example")]
    pub example: Example,
    /// Temperature, mask, and what is left out.
    #[serde(with = "as_text::settings")]
    pub settings: Settings,
    /// The cell under the pointer.
    #[serde(skip)]
    pub hovered: Option<At>,
    /// The cell clicked on, which stays when the pointer leaves.
    pub chosen: Option<At>,
    /// What is zoomed in or pinned, by the key of the step.
    pub views: BTreeMap<String, View>,
}

/// A cell of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    /// The key of the step.
    pub step: String,
    /// (row, column).
    pub cell: Cell,
}

impl Default for State {
    fn default() -> Self {
        Self::new(Example::ALL[0])
    }
}

impl State {
    /// An example as it is given.
    pub fn new(example: Example) -> Self {
        Self { example, settings: Settings::default(), hovered: None, chosen: None, views: BTreeMap::new() }
    }

    /// Goes to another example. The settings stay, to be compared.
    pub fn open(&mut self, example: Example) {
        *self = Self { settings: self.settings, ..Self::new(example) };
    }

    /// The example `by` places farther in the list, around its end.
    pub fn go_by(&mut self, by: isize) {
        let all = Example::ALL;
        let here = all.iter().position(|example| *example == self.example).unwrap_or(0);
        self.open(all[(here as isize + by).rem_euclid(all.len() as isize) as usize]);
    }

    /// The cell that is explained: the one under the pointer, else the chosen one.
    pub fn pointed(&self) -> Option<&At> {
        self.hovered.as_ref().or(self.chosen.as_ref())
    }

    /// What is undone and redone: the choices, but not where one looks.
    pub fn choices(&self) -> Self {
        Self { settings: self.settings, ..Self::new(self.example) }
    }

    /// Takes the choices of another state, and goes on looking where one looked.
    pub fn take(&mut self, choices: &Self) {
        if self.example != choices.example {
            self.open(choices.example);
        }
        self.settings = choices.settings;
    }
}

/// How examples and settings are written down: by the names that the command line knows.
mod as_text {
    pub mod example {
        use regard_walkthrough::Example;
        use serde::de::Error as _;
        use serde::{Deserialize as _, Deserializer, Serializer};

        pub fn serialize<S: Serializer>(example: &Example, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(example.name())
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Example, D::Error> {
            String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
        }
    }

    pub mod settings {
        use regard_kernels::Temperature;
        use regard_walkthrough::Settings;
        use serde::de::Error as _;
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        use crate::ui::temperature;

        #[derive(Serialize, Deserialize)]
        struct Written {
            #[serde(with = "temperature::as_text")]
            temperature: Temperature,
            causal: bool,
            without: Option<String>,
        }

        pub fn serialize<S: Serializer>(settings: &Settings, serializer: S) -> Result<S::Ok, S::Error> {
            let Settings { temperature, causal, without } = *settings;
            let without = without.map(|without| without.name().to_owned());
            Written { temperature, causal, without }.serialize(serializer)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Settings, D::Error> {
            let Written { temperature, causal, without } = Written::deserialize(deserializer)?;
            let without = without.map(|name| name.parse()).transpose().map_err(D::Error::custom)?;
            Ok(Settings { temperature, causal, without })
        }
    }
}
