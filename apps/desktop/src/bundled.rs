//! The model that comes with the program.

pub(crate) use regard_ui::model::{STORY as NAME, story as checkpoint};
