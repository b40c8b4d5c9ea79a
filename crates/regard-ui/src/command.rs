//! The commands: one list for the menu, the shortcuts and the command palette.

use egui::{Key, KeyboardShortcut, Modifiers, ThemePreference};
use regard_walkthrough::Example;

use super::colors::Map;
use super::plots::PlotName;
use super::session::Room;
use super::setting::SETTINGS;
use super::walkthrough::real_head;

/// An action that needs no pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Shows the list of all commands.
    Palette,
    /// Opens the book.
    Book,
    /// Shows the keys and gestures.
    Keys,
    /// Goes to a room.
    Room(Room),
    /// Goes to the next example.
    NextExample,
    /// Goes to the previous example.
    PreviousExample,
    /// Goes to an example.
    Example(Example),
    /// Goes through the example one step at a time, with a question before each.
    Guide,
    /// Shows the example one step at a time, as large as the window.
    Present,
    /// Goes to the page of a trained model's head.
    RealHead,
    /// Undoes the last change.
    Undo,
    /// Redoes the change that was undone last.
    Redo,
    /// Resets the room to its initial state.
    Reset,
    /// Restores the numbers of the walkthrough that were typed over.
    ResetNumbers,
    /// Pins the laboratory's present state as A.
    PinA,
    /// Forgets A.
    ForgetA,
    /// Starts the laboratory's benchmark, or stops it.
    Benchmark,
    /// Reads a session from a file.
    OpenSession,
    /// Writes the session to a file.
    SaveSession,
    /// Copies what opens this view elsewhere.
    CopyLink,
    /// Writes the window's picture to a file.
    SaveImage,
    /// Reads a file of attention.
    OpenAttention,
    /// Opens a model.
    OpenModel,
    /// Asks for a second model, to compare with.
    OpenModelB,
    /// Opens an image for a model of images.
    OpenImage,
    /// Opens a recording for a model of sound.
    OpenRecording,
    /// Reads a file of queries and keys.
    OpenTokens,
    /// Writes the matrix that is shown to a file.
    ExportMatrix,
    /// Writes the effect of each head of a model to a file.
    ExportSweep,
    /// Writes the curves of a plot to a file.
    ExportPlot(PlotName),
    /// Copies the matrix that is shown as CSV.
    CopyMatrix,
    /// Hides the panel at the left, or shows it.
    SidePanel,
    /// Makes everything larger.
    ZoomIn,
    /// Makes everything smaller.
    ZoomOut,
    /// Shows everything at its normal size.
    ZoomReset,
    /// Chooses light or dark.
    Theme(ThemePreference),
    /// Chooses the colours of weights.
    Map(Map),
    /// Lets equal steps of colour stand for equal differences, or leaves the scale to the data again.
    Linear,
    /// Lets equal steps of colour stand for equal factors, or leaves the scale to the data again.
    Logarithmic,
    /// Makes a choice of a room, by its place in the table of choices.
    Setting(usize),
}

impl Command {
    /// All commands in the order of the menu, where a line separates the groups.
    pub(crate) fn groups() -> Vec<Vec<Self>> {
        use ThemePreference::{Dark, Light, System};
        vec![
            vec![Self::Palette, Self::Keys, Self::Book],
            Room::ALL.map(Self::Room).to_vec(),
            [Self::NextExample, Self::PreviousExample, Self::Guide, Self::Present, Self::RealHead]
                .into_iter()
                .chain(Example::ALL.iter().copied().map(Self::Example))
                .collect(),
            vec![
                Self::Undo,
                Self::Redo,
                Self::Reset,
                Self::ResetNumbers,
                Self::PinA,
                Self::ForgetA,
                Self::Benchmark,
            ],
            vec![
                Self::OpenModel,
                Self::OpenModelB,
                Self::OpenImage,
                Self::OpenRecording,
                Self::OpenAttention,
                Self::OpenTokens,
                Self::ExportMatrix,
                Self::ExportSweep,
                Self::CopyMatrix,
            ],
            PlotName::ALL.map(Self::ExportPlot).to_vec(),
            vec![Self::OpenSession, Self::SaveSession, Self::CopyLink, Self::SaveImage],
            vec![Self::SidePanel, Self::ZoomIn, Self::ZoomOut, Self::ZoomReset],
            [Light, Dark, System].map(Self::Theme).to_vec(),
            Map::SEQUENTIAL
                .iter()
                .copied()
                .map(Self::Map)
                .chain([Self::Linear, Self::Logarithmic])
                .collect(),
        ]
    }

    /// All commands, the choices of the rooms first.
    pub(crate) fn all() -> Vec<Self> {
        let settings = (0..SETTINGS.len()).map(Self::Setting);
        settings.chain(Self::groups().concat()).collect()
    }

    /// The room that the command belongs to. `None`: every room.
    pub(crate) fn room(self) -> Option<Room> {
        match self {
            Self::Setting(i) => Some(SETTINGS[i].room),
            Self::Example(_)
            | Self::NextExample
            | Self::PreviousExample
            | Self::Guide
            | Self::Present
            | Self::RealHead
            | Self::ResetNumbers => Some(Room::Walkthrough),
            Self::PinA | Self::ForgetA | Self::Benchmark | Self::OpenTokens => {
                Some(Room::Laboratory)
            }
            Self::OpenModel
            | Self::OpenModelB
            | Self::OpenImage
            | Self::OpenRecording
            | Self::OpenAttention
            | Self::ExportSweep => Some(Room::Model),
            _ => None,
        }
    }

    /// Other words by which the palette finds the command.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Setting(i) => SETTINGS[i].words,
            Self::Book => "help manual documentation learn",
            Self::Keys => "help shortcuts keyboard mouse gestures",
            Self::Guide => "lesson questions quiz teach",
            Self::Present => "slides full screen teach",
            Self::RealHead => "start landing first page story",
            Self::Undo | Self::Redo => "back history",
            Self::Reset | Self::ResetNumbers => "restore initial default",
            Self::PinA => "compare",
            Self::Benchmark => "speed measure time",
            Self::OpenModel => "load hugging face gguf weights",
            Self::OpenModelB => "compare second quantization",
            Self::OpenImage => "load vit picture",
            Self::OpenRecording => "load whisper sound audio wav speech",
            Self::OpenAttention => "load file heads safetensors npy npz",
            Self::OpenTokens => "load queries keys file",
            Self::OpenSession | Self::SaveSession => "load file json",
            Self::CopyLink => "share address url send view session",
            Self::SaveImage => "screenshot png",
            Self::ExportMatrix => "save figure png svg html csv npy lines grid",
            Self::ExportSweep => "save ablate ablation knock out",
            Self::ExportPlot(_) => "save figure plot svg csv",
            Self::CopyMatrix => "clipboard numbers",
            Self::SidePanel => "hide controls drawer",
            Self::ZoomIn | Self::ZoomOut | Self::ZoomReset => "size larger smaller text font",
            Self::Theme(_) => "mode appearance",
            Self::Map(_) => "map palette colors",
            Self::Linear | Self::Logarithmic => "log scale colors",
            _ => "",
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Palette => "Commands".to_owned(),
            Self::Book => "Read the book".to_owned(),
            Self::Keys => "Keys".to_owned(),
            Self::Setting(i) => SETTINGS[i].name.to_owned(),
            Self::Room(room) => format!("Go to {}", room.name()),
            Self::NextExample => "Next example".to_owned(),
            Self::PreviousExample => "Previous example".to_owned(),
            Self::Example(example) => format!("Example: {}", example.title()),
            Self::Guide => "Guide me through the example".to_owned(),
            Self::Present => "Present the example".to_owned(),
            Self::RealHead => format!("Example: {}", real_head::TITLE),
            Self::Undo => "Undo".to_owned(),
            Self::Redo => "Redo".to_owned(),
            Self::Reset => "Reset room".to_owned(),
            Self::ResetNumbers => "Reset numbers".to_owned(),
            Self::PinA => "Pin as A".to_owned(),
            Self::ForgetA => "Forget A".to_owned(),
            Self::Benchmark => "Start or stop the benchmark".to_owned(),
            Self::OpenSession => "Open session".to_owned(),
            Self::SaveSession => "Save session".to_owned(),
            Self::CopyLink => "Copy link".to_owned(),
            Self::SaveImage => "Save picture of the window".to_owned(),
            Self::OpenAttention => "Open attention file".to_owned(),
            Self::OpenModel => "Open model".to_owned(),
            Self::OpenModelB => "Open model B".to_owned(),
            Self::OpenImage => "Open image".to_owned(),
            Self::OpenRecording => "Open recording".to_owned(),
            Self::OpenTokens => "Open tokens".to_owned(),
            Self::ExportMatrix => "Export matrix".to_owned(),
            Self::ExportSweep => "Export the effect of each head".to_owned(),
            Self::ExportPlot(plot) => format!("Export curves: {}", plot.name()),
            Self::CopyMatrix => "Copy matrix as CSV".to_owned(),
            Self::SidePanel => "Side panel".to_owned(),
            Self::ZoomIn => "Zoom in".to_owned(),
            Self::ZoomOut => "Zoom out".to_owned(),
            Self::ZoomReset => "Zoom to 100 %".to_owned(),
            Self::Theme(ThemePreference::Light) => "Theme: light".to_owned(),
            Self::Theme(ThemePreference::Dark) => "Theme: dark".to_owned(),
            Self::Theme(ThemePreference::System) => "Theme: as the system".to_owned(),
            Self::Map(map) => format!("Colours: {}", map.name()),
            Self::Linear => "Colours: linear".to_owned(),
            Self::Logarithmic => "Colours: logarithmic".to_owned(),
        }
    }

    /// The effect, in one sentence.
    pub(crate) fn tooltip(self) -> String {
        match self {
            Self::Palette => "Find a view, a choice or a command by its name or another word for it.".to_owned(),
            Self::Keys => "Show the keys and what the pointer does.".to_owned(),
            Self::Setting(i) => format!("In the room {}.", SETTINGS[i].room.name()),
            Self::Book => {
                "Open the book in the browser: the mathematics of attention, with every number.".to_owned()
            }
            Self::Room(room) => room.summary().to_owned(),
            Self::NextExample => "Go to the next example.".to_owned(),
            Self::PreviousExample => "Go to the previous example.".to_owned(),
            Self::Example(example) => example.summary().to_owned(),
            Self::Guide => {
                "Go through the example one step at a time. Each step asks a question before it shows its numbers."
                    .to_owned()
            }
            Self::Present => {
                "Show one step at a time, as large as the window. Esc leaves.".to_owned()
            }
            Self::RealHead => real_head::SUMMARY.to_owned(),
            Self::Undo => "Undo the last change.".to_owned(),
            Self::Redo => "Redo the change that was undone last.".to_owned(),
            Self::Reset => "Reset this room to its initial state.".to_owned(),
            Self::ResetNumbers => {
                "Restore every number of the walkthrough that was typed over.".to_owned()
            }
            Self::PinA => {
                "Pin the laboratory's present state as A, to compare later states with it."
                    .to_owned()
            }
            Self::ForgetA => "Stop comparing with A.".to_owned(),
            Self::Benchmark => {
                "Measure how fast this machine computes the laboratory's attention.".to_owned()
            }
            Self::OpenSession => "Continue a session from a file.".to_owned(),
            Self::SaveSession => {
                "Save every choice to a file, to continue later or elsewhere.".to_owned()
            }
            Self::CopyLink => {
                "Copy what opens this view elsewhere: on the desktop a command, in a browser the address."
                    .to_owned()
            }
            Self::SaveImage => "Save a picture of the window as PNG.".to_owned(),
            Self::OpenAttention => {
                "Open the attention of a model from a safetensors, npy or npz file.".to_owned()
            }
            Self::OpenModel => {
                "Open a model from a Hugging Face folder or a .gguf file, and watch it read."
                    .to_owned()
            }
            Self::OpenImage => {
                "Open an image (PNG or JPEG) for a model of images, such as vit.".to_owned()
            }
            Self::OpenRecording => {
                "Open a recording (WAV) for a model of sound, such as whisper.".to_owned()
            }
            Self::OpenModelB => {
                "Open a second model of the same family, or another quantization, and compare the two."
                    .to_owned()
            }
            Self::OpenTokens => {
                "Open queries and keys for the laboratory from a safetensors, npy or npz file."
                    .to_owned()
            }
            Self::ExportMatrix => {
                "Export what this room shows as a picture (PNG, SVG), as a page (HTML), or its numbers (CSV, npy, safetensors)."
                    .to_owned()
            }
            Self::ExportSweep => {
                "Export what each head of the model does for the next token: layers × heads, as a picture, a page or numbers."
                    .to_owned()
            }
            Self::ExportPlot(_) => {
                "Export these curves as a picture (SVG, PNG), as a page (HTML), or their points (CSV)."
                    .to_owned()
            }
            Self::CopyMatrix => {
                "Copy the numbers of this room's matrix with its tokens.".to_owned()
            }
            Self::SidePanel => "Show or hide the panel at the left.".to_owned(),
            Self::ZoomIn => "Make everything larger.".to_owned(),
            Self::ZoomOut => "Make everything smaller.".to_owned(),
            Self::ZoomReset => "Show everything at its normal size.".to_owned(),
            Self::Theme(ThemePreference::Light) => "Use dark text on a light ground.".to_owned(),
            Self::Theme(ThemePreference::Dark) => "Use light text on a dark ground.".to_owned(),
            Self::Theme(ThemePreference::System) => "Follow the theme of the system.".to_owned(),
            Self::Map(_) => "Use these colours for weights.".to_owned(),
            Self::Linear => {
                "Let equal steps of colour stand for equal differences. Chosen again: by the data."
                    .to_owned()
            }
            Self::Logarithmic => {
                "Let equal steps of colour stand for equal factors. Chosen again: by the data."
                    .to_owned()
            }
        }
    }

    pub(crate) fn shortcut(self) -> Option<KeyboardShortcut> {
        let (modifiers, key) = match self {
            Self::Palette => (Modifiers::COMMAND, Key::K),
            Self::Keys => (Modifiers::NONE, Key::Questionmark),
            Self::Room(Room::Walkthrough) => (Modifiers::COMMAND, Key::Num1),
            Self::Room(Room::Laboratory) => (Modifiers::COMMAND, Key::Num2),
            Self::Room(Room::Model) => (Modifiers::COMMAND, Key::Num3),
            Self::NextExample => (Modifiers::ALT, Key::ArrowRight),
            Self::PreviousExample => (Modifiers::ALT, Key::ArrowLeft),
            Self::Undo => (Modifiers::COMMAND, Key::Z),
            Self::Redo => (Modifiers::COMMAND.plus(Modifiers::SHIFT), Key::Z),
            Self::Reset => (Modifiers::COMMAND, Key::R),
            Self::PinA => (Modifiers::COMMAND, Key::B),
            Self::Benchmark => (Modifiers::COMMAND.plus(Modifiers::SHIFT), Key::B),
            Self::OpenSession => (Modifiers::COMMAND, Key::O),
            Self::SaveSession => (Modifiers::COMMAND, Key::S),
            Self::SaveImage => (Modifiers::COMMAND, Key::E),
            Self::OpenAttention => (Modifiers::COMMAND.plus(Modifiers::SHIFT), Key::O),
            Self::OpenModel => (Modifiers::COMMAND.plus(Modifiers::SHIFT), Key::M),
            Self::ExportMatrix => (Modifiers::COMMAND.plus(Modifiers::SHIFT), Key::E),
            Self::CopyMatrix => (Modifiers::COMMAND, Key::M),
            Self::SidePanel => (Modifiers::COMMAND, Key::Backslash),
            Self::ZoomIn => (Modifiers::COMMAND, Key::Plus),
            Self::ZoomOut => (Modifiers::COMMAND, Key::Minus),
            Self::ZoomReset => (Modifiers::COMMAND, Key::Num0),
            Self::Logarithmic => (Modifiers::COMMAND, Key::L),
            _ => return None,
        };
        Some(KeyboardShortcut::new(modifiers, key))
    }

    /// Whether a text field uses these keys itself.
    pub(crate) fn is_of_text(self) -> bool {
        matches!(
            self,
            Self::Undo | Self::Redo | Self::NextExample | Self::PreviousExample | Self::Keys
        )
    }
}

/// The command whose shortcut is pressed. Longer shortcuts are tried first, because ⌘ Z is part of ⇧ ⌘ Z.
pub(crate) fn pressed(ctx: &egui::Context) -> Option<Command> {
    let typing = ctx.text_edit_focused();
    let mut commands = Command::all();
    commands.sort_by_key(|command| !command.shortcut().is_some_and(|keys| keys.modifiers.shift));
    let is_pressed = |input: &mut egui::InputState, command: Command| {
        command.shortcut().is_some_and(|keys| input.consume_shortcut(&keys))
            // Many keyboards have + on the key of =.
            || command == Command::ZoomIn && input.consume_key(Modifiers::COMMAND, Key::Equals)
    };
    ctx.input_mut(|input| {
        commands
            .into_iter()
            .filter(|command| !(typing && command.is_of_text()))
            .find(|c| is_pressed(input, *c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_commands_share_a_name_or_keys() {
        let all = Command::all();
        for (i, a) in all.iter().enumerate() {
            assert!(!a.tooltip().is_empty());
            for b in &all[..i] {
                assert_ne!(a.name(), b.name());
                assert!(a.shortcut().is_none() || a.shortcut() != b.shortcut(), "{a:?} {b:?}");
            }
        }
    }
}
