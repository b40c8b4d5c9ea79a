//! The accessibility tree, mirrored into the page.
//!
//! egui describes the window to assistive technology as an AccessKit tree after each frame, and eframe drops it in a browser. This
//! plugin takes it: what has changed since the last frame goes to `system.js`, which keeps one element a node, with its role, name,
//! value and place. What a screen reader does with an element comes back through [`act`], as a request to egui.

use std::collections::HashMap;
use std::sync::Mutex;

use eframe::egui::accesskit::{
    Action, ActionData, ActionRequest, Live, Node, NodeId, Role, Toggled, TreeId,
};
use eframe::egui::{Context, Event, FullOutput, Plugin, RawInput};
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::host::lock;
use crate::system;

/// The actions that wait for the next frame, and the window that they are for.
static ACTIONS: Mutex<(Vec<ActionRequest>, Option<Context>)> = Mutex::new((Vec::new(), None));

/// Asks the widget with this id to do something: "click", "focus", or "set" to a value.
#[wasm_bindgen]
pub fn act(id: &str, action: &str, value: Option<String>) {
    let Ok(id) = id.parse() else { return };
    let (action, data) = match (action, value) {
        ("click", _) => (Action::Click, None),
        ("focus", _) => (Action::Focus, None),
        ("increment", _) => (Action::Increment, None),
        ("decrement", _) => (Action::Decrement, None),
        ("number", Some(value)) => match value.parse() {
            Ok(value) => (Action::SetValue, Some(ActionData::NumericValue(value))),
            Err(_) => return,
        },
        ("text", Some(value)) => (Action::SetValue, Some(ActionData::Value(value.into()))),
        _ => return,
    };
    let mut actions = lock(&ACTIONS);
    actions.0.push(ActionRequest {
        action,
        target_tree: TreeId::ROOT,
        target_node: NodeId(id),
        data,
    });
    if let Some(window) = &actions.1 {
        window.request_repaint();
    }
}

/// The tree as the page knows it.
#[derive(Default)]
pub struct Mirror {
    /// The elements, as JSON.
    nodes: HashMap<NodeId, String>,
    focus: Option<NodeId>,
}

impl Plugin for Mirror {
    fn debug_name(&self) -> &'static str {
        "mirror"
    }

    fn setup(&mut self, ctx: &Context) {
        lock(&ACTIONS).1 = Some(ctx.clone());
    }

    fn input_hook(&mut self, _: &Context, input: &mut RawInput) {
        let actions = core::mem::take(&mut lock(&ACTIONS).0);
        input.events.extend(actions.into_iter().map(Event::AccessKitActionRequest));
    }

    fn output_hook(&mut self, ctx: &Context, output: &mut FullOutput) {
        let Some(update) = output.platform_output.accesskit_update.take() else { return };
        let zoom = f64::from(ctx.zoom_factor());
        let root = update.tree.as_ref().map(|tree| tree.root);
        let mut nodes = HashMap::with_capacity(update.nodes.len());
        let mut changed = Vec::new();
        for (id, node) in &update.nodes {
            let element = Element::of(*id, node, zoom, &update.nodes);
            let Ok(text) = serde_json::to_string(&element) else { continue };
            if self.nodes.remove(id).as_ref() != Some(&text) {
                changed.push(text.clone());
            }
            nodes.insert(*id, text);
        }
        // The nodes that are left have gone.
        let mut gone: Vec<String> = self.nodes.keys().map(|id| id.0.to_string()).collect();
        gone.sort_unstable();
        self.nodes = nodes;
        let focus = Some(update.focus);
        if changed.is_empty() && gone.is_empty() && focus == self.focus {
            return;
        }
        self.focus = focus;
        let root = root.map_or(0, |id| id.0);
        let gone = serde_json::to_string(&gone).unwrap_or_default();
        system::mirror(&format!(
            r#"{{"root":"{root}","focus":"{}","changed":[{}],"gone":{gone}}}"#,
            update.focus.0,
            changed.join(",")
        ));
    }
}

/// A node as the page needs it. What is absent has no attribute.
#[derive(Serialize)]
struct Element {
    id: String,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The least, the largest and the current value, and the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    numbers: Option<[Option<f64>; 4]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expanded: Option<bool>,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    disabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<&'static str>,
    /// Left, top, width and height in CSS pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<[i32; 4]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<String>,
}

impl Element {
    fn of(id: NodeId, node: &Node, zoom: f64, all: &[(NodeId, Node)]) -> Self {
        let find = |id: &NodeId| all.iter().find(|(other, _)| other == id).map(|(_, node)| node);
        let said = |node: &Node| node.label().or_else(|| node.value()).map(str::to_owned);
        let labels = || {
            let labels: Vec<String> =
                node.labelled_by().iter().filter_map(find).filter_map(said).collect();
            (!labels.is_empty()).then(|| labels.join(" "))
        };
        let numbers = node.numeric_value().map(|now| {
            [
                node.min_numeric_value(),
                node.max_numeric_value(),
                Some(now),
                node.numeric_value_step(),
            ]
        });
        let place = node.bounds().map(|rect| {
            let round = |x: f64| (x * zoom).round() as i32;
            let (x, y) = (round(rect.x0), round(rect.y0));
            [x, y, round(rect.x1) - x, round(rect.y1) - y]
        });
        Self {
            id: id.0.to_string(),
            role: role(node.role()),
            name: node.label().map(str::to_owned).or_else(labels),
            description: node.description().map(str::to_owned),
            value: node.value().map(str::to_owned),
            numbers,
            on: node.toggled().map(|toggled| match toggled {
                Toggled::False => "false",
                Toggled::True => "true",
                Toggled::Mixed => "mixed",
            }),
            expanded: node.is_expanded(),
            disabled: node.is_disabled(),
            live: node.live().and_then(|live| match live {
                Live::Off => None,
                Live::Polite => Some("polite"),
                Live::Assertive => Some("assertive"),
            }),
            place,
            children: node.children().iter().map(|id| id.0.to_string()).collect(),
        }
    }
}

/// The ARIA role, or the name of an element for what HTML has an element.
fn role(role: Role) -> &'static str {
    match role {
        Role::Button | Role::DefaultButton => "button",
        Role::CheckBox => "checkbox",
        Role::ColorWell => "button",
        Role::ComboBox | Role::EditableComboBox => "combobox",
        Role::Dialog | Role::AlertDialog => "dialog",
        Role::Heading => "heading",
        Role::Image => "img",
        Role::Label | Role::TextRun => "text",
        Role::Link => "link",
        Role::ListBoxOption => "option",
        Role::Menu => "menu",
        Role::MenuItem => "menuitem",
        Role::MultilineTextInput => "textarea",
        Role::ProgressIndicator => "progressbar",
        Role::RadioButton => "radio",
        Role::ScrollBar => "scrollbar",
        Role::Slider => "slider",
        Role::SpinButton => "spinbutton",
        Role::Tab => "tab",
        Role::TabList => "tablist",
        Role::TextInput | Role::SearchInput => "textbox",
        Role::Tooltip => "tooltip",
        Role::Table => "table",
        Role::Row => "row",
        Role::Cell => "cell",
        Role::ColumnHeader => "columnheader",
        Role::RowHeader => "rowheader",
        _ => "group",
    }
}
