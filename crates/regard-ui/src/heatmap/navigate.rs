//! Zooming, panning and moving the cursor of a heatmap.

use egui::{Event, EventFilter, Key, Rect, Response, Ui, Vec2};

use super::geometry::Geometry;
use super::view::Visible as _;
use super::{Cell, Heatmap, Viewport};

/// The zoom factor of a press of + or −.
const STEP: f32 = 1.25;

/// Zooms and pans. Returns the cell that the keyboard reached.
pub(crate) fn navigate(
    map: &Heatmap<'_>,
    ui: &Ui,
    response: &Response,
    at: &Geometry,
    cells: Rect,
    view: &mut Viewport,
) -> Option<Cell> {
    let (size, most) = (at.matrix(), at.most_zoom());
    // On a touch screen, egui reports the first finger as the pointer, which may leave the matrix.
    let fingers = ui.input(|input| input.multi_touch()).map(|touch| touch.center_pos);
    let fingers = fingers.filter(|center| cells.contains(*center));
    if let Some(pointer) = fingers.or_else(|| response.hover_pos()) {
        // The wheel with Ctrl or two fingers zoom. The plain wheel scrolls the page.
        let factor = ui.input(|input| input.zoom_delta());
        if factor != 1.0 {
            view.zoom_by(factor, (pointer - cells.min) / cells.size(), size, most);
        }
    }
    if response.dragged() && fingers.is_none() && !map.paints {
        let moved = response.drag_delta() / (at.cell * view.zooms(most));
        view.go_to(view.corner() - moved, size, most);
    }
    if response.double_clicked() && !map.paints {
        view.reset();
    }
    if !response.has_focus() || map.numbers.is_empty() {
        return None;
    }
    let filter =
        EventFilter { horizontal_arrows: true, vertical_arrows: true, ..EventFilter::default() };
    ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
    if map.is_passive {
        return None;
    }
    let page = ((map.rows() as f32 / view.zooms(most).y) as usize).clamp(1, 10);
    let mut reached: Option<Cell> = None;
    for event in ui.input(|input| input.events.clone()) {
        let Event::Key { key, pressed: true, modifiers, .. } = event else { continue };
        let cell = reached.or(map.pointed).unwrap_or_default();
        let middle = Vec2::splat(0.5);
        match key {
            Key::Plus | Key::Equals if !modifiers.command => {
                view.zoom_by(STEP, middle, size, most);
            }
            Key::Minus if !modifiers.command => {
                view.zoom_by(1.0 / STEP, middle, size, most);
            }
            Key::Num0 if !modifiers.command => view.reset(),
            Key::P if !modifiers.command => view.pin(cell),
            _ => {
                reached =
                    step(key, modifiers.command, cell, (map.rows(), map.cols()), page).or(reached);
            }
        }
    }
    if let Some(cell) = reached {
        view.reveal(cell, size, most);
    }
    reached
}

/// The cell to which a key leads. With `far`, Home and End also lead to the first and last row.
fn step(
    key: Key,
    far: bool,
    (row, col): Cell,
    (rows, cols): (usize, usize),
    page: usize,
) -> Option<Cell> {
    let (last_row, last_col) = (rows - 1, cols - 1);
    let (row, col) = match key {
        Key::ArrowUp => (row.saturating_sub(1), col),
        Key::ArrowDown => (row + 1, col),
        Key::ArrowLeft => (row, col.saturating_sub(1)),
        Key::ArrowRight => (row, col + 1),
        Key::PageUp => (row.saturating_sub(page), col),
        Key::PageDown => (row + page, col),
        Key::Home => (if far { 0 } else { row }, 0),
        Key::End => (if far { last_row } else { row }, last_col),
        _ => return None,
    };
    Some((row.min(last_row), col.min(last_col)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_no_farther_than_the_matrix() {
        let go = |key, far, from| step(key, far, from, (20, 5), 10);
        assert_eq!(go(Key::ArrowDown, false, (3, 3)), Some((4, 3)));
        assert_eq!(go(Key::ArrowDown, false, (19, 3)), Some((19, 3)));
        assert_eq!(go(Key::ArrowLeft, false, (3, 0)), Some((3, 0)));
        assert_eq!(go(Key::PageDown, false, (3, 1)), Some((13, 1)));
        assert_eq!(go(Key::PageUp, false, (3, 1)), Some((0, 1)));
        assert_eq!(go(Key::Home, false, (3, 3)), Some((3, 0)));
        assert_eq!(go(Key::End, true, (3, 3)), Some((19, 4)));
        assert_eq!(go(Key::A, false, (3, 3)), None);
    }
}
