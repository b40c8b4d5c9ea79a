//! The window without a display, driven through its controls.

mod driver;
mod host;
mod model;
mod pages;

mod around;
mod background;
mod browser;
mod controls;
mod export_colors;
mod exports;
mod files_of_heads;
mod heatmap;
mod laboratory;
mod laboratory_files;
mod lesson;
mod model_compare;
mod model_kinds;
mod model_pairs;
mod model_room;
mod outline;
mod rooms;
mod sessions;
mod spoken;
mod stage;
mod steps;
mod walkthrough;

pub(crate) use self::host::TestHost;
