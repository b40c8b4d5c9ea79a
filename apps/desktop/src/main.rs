#![forbid(unsafe_code)]
//! The program `regard`.

fn main() -> Result<(), eframe::Error> {
    regard_desktop::ui::run(None)
}
