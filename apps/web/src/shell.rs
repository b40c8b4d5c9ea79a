//! The window's contents, as eframe calls them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use eframe::egui::{Context, RawInput, Ui};
use regard_ui::App;
use wasm_bindgen::prelude::*;

use crate::address::Address;
use crate::host::{Browser, lock};
use crate::mirror::Mirror;
use crate::system;

/// The paths of files that have been dropped, and the window that opens them.
static DROPPED: Mutex<(Vec<String>, Option<Context>)> = Mutex::new((Vec::new(), None));

/// Opens a file that [`put`](crate::host::put) has taken: it was dropped.
#[wasm_bindgen]
pub fn open(path: String) {
    let mut dropped = lock(&DROPPED);
    dropped.0.push(path);
    if let Some(window) = &dropped.1 {
        window.request_repaint();
    }
}

/// The window, and the page around it.
pub struct Shell {
    app: App,
    is_drawn: bool,
}

impl Shell {
    /// The window that the page's address asks for.
    pub fn new(ctx: &Context, host: Arc<Browser>, address: &str) -> Self {
        let address = Address::parse(address);
        let embed = address.embed;
        let mut app = address.app(ctx, host);
        app.alone = embed;
        if system::is_still() {
            ctx.all_styles_mut(|style| style.animation_time = 0.0);
        }
        ctx.enable_accesskit();
        ctx.add_plugin(Mirror::default());
        lock(&DROPPED).1 = Some(ctx.clone());
        Self { app, is_drawn: false }
    }
}

impl eframe::App for Shell {
    fn ui(&mut self, ui: &mut Ui, _: &mut eframe::Frame) {
        let dropped = core::mem::take(&mut lock(&DROPPED).0);
        for path in dropped {
            self.app.open_file(ui.ctx(), Path::new(&path));
        }
        self.app.ui(ui);
        if !core::mem::replace(&mut self.is_drawn, true) {
            system::drawn();
        }
    }

    /// The page reads dropped files itself, because the browser has no paths: see [`open`].
    fn raw_input_hook(&mut self, _: &Context, input: &mut RawInput) {
        input.dropped_files.clear();
    }

    fn persist_egui_memory(&self) -> bool {
        false
    }
}
