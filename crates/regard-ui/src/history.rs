//! Undo and redo: for each room, a list of earlier states and one of later states.

use std::collections::BTreeMap;

use super::model;
use super::style::lone;
use super::{Room, Session};

/// The maximum number of changes of a room that can be undone.
const MOST: usize = 200;

/// The states of each room before and after the present one.
///
/// egui's `Undoer` compares whole states by time. Here a change ends when the pointer is released, undo changes only the room that
/// is open, and letters that are typed in sequence are one change.
pub(crate) struct History {
    rooms: [UndoSteps; 3],
    /// The room that was noted last.
    room: Room,
}

/// The changes of a room: those that can be undone, the present choices, and those that can be made again.
struct UndoSteps {
    past: Vec<Step>,
    present: Session,
    future: Vec<Step>,
    /// Whether the last change affected only the model's text, or the user's own tokens.
    is_typing: bool,
}

/// The name of a change, and the choices on its other side.
struct Step(String, Session);

impl History {
    pub(crate) fn new(session: &Session) -> Self {
        let steps = |room| {
            let (present, is_typing) = (session.choices(room), false);
            UndoSteps { past: Vec::new(), present, future: Vec::new(), is_typing }
        };
        Self { rooms: Room::ALL.map(steps), room: session.room }
    }

    /// Remembers the previous state of the open room if its choices have changed. `tokens` are those that the model has read.
    pub(crate) fn note(&mut self, session: &Session, tokens: impl FnOnce() -> Vec<String>) {
        let steps = &mut self.rooms[session.room as usize];
        if self.room != session.room {
            // The colours, which all rooms share, may have changed in another room.
            (self.room, steps.present.look) = (session.room, session.look);
        }
        let now = session.choices(session.room);
        if now != steps.present {
            let mut with_text = steps.present.clone();
            with_text.model.text.clone_from(&now.model.text);
            with_text.model.written.clone_from(&now.model.written);
            let inputs = [&steps.present, &now].map(|session| &session.walkthrough.inputs);
            if inputs[0].sizes() == inputs[1].sizes() && inputs[0].tokens() != inputs[1].tokens() {
                with_text.walkthrough.inputs.clone_from(inputs[1]);
            }
            let is_typed = with_text == now;
            let name = named(&steps.present, &now, &tokens());
            let before = core::mem::replace(&mut steps.present, now);
            if !(is_typed && steps.is_typing) {
                steps.past.push(Step(name, before));
            }
            steps.is_typing = is_typed;
            steps.future.clear();
            if steps.past.len() > MOST {
                steps.past.remove(0);
            }
        }
    }

    /// The names of the changes of a room that undo and redo would take back and make again.
    pub(crate) fn names(&self, room: Room) -> [Option<&str>; 2] {
        let UndoSteps { past, future, .. } = &self.rooms[room as usize];
        [past, future].map(|steps| Some(&*steps.last()?.0))
    }

    /// Takes back the last change of the open room, or makes it again.
    pub(crate) fn go(&mut self, session: &mut Session, back: bool) {
        let steps = &mut self.rooms[session.room as usize];
        steps.is_typing = false;
        let UndoSteps { past, present, future, .. } = steps;
        let (from, to) = if back { (past, future) } else { (future, past) };
        if let Some(Step(name, choices)) = from.pop() {
            to.push(Step(name, core::mem::replace(present, choices)));
            session.take(session.room, present);
        }
    }
}

/// What the user has done between two states of a room.
fn named(before: &Session, now: &Session, tokens: &[String]) -> String {
    let (old, new) = (&before.model, &now.model);
    let word = |i: &usize| tokens.get(*i).map_or_else(|| i.to_string(), |token| lone(token));
    if let Some(i) = new.hidden.difference(&old.hidden).next() {
        return format!("hide “{}”", word(i));
    }
    if let Some(i) = old.hidden.difference(&new.hidden).next().filter(|_| old.text == new.text) {
        return format!("show “{}”", word(i));
    }
    let made = new.changes.iter().find(|change| !old.changes.contains(change));
    if let Some(change) = made.or_else(|| old.changes.iter().find(|c| !new.changes.contains(c))) {
        let words = model::change(&change.change, tokens, &BTreeMap::new());
        return if made.is_some() { words } else { format!("without “{words}”") };
    }
    let (first, last) = (&before.walkthrough, &now.walkthrough);
    let inputs = [before, now].map(|session| &session.laboratory.inputs);
    let names = [
        (old.model != new.model || old.file != new.file, "open another model"),
        (old.text != new.text, "type"),
        (old.sharpness != new.sharpness, "how sharply the heads look"),
        (old.second != new.second || old.second_model != new.second_model, "compare"),
        (old.drawing != new.drawing, "draw"),
        (old.view != new.view, "another view"),
        (old.heads.id() != new.heads.id(), "another head"),
        (old != new, "how the heads are shown"),
        (first.example() != last.example(), "another example"),
        (first.inputs != last.inputs, "change the numbers"),
        (first.settings.temperature != last.settings.temperature, "temperature"),
        (first.settings.causal != last.settings.causal, "causal mask"),
        (first.settings != last.settings, "leave out a step"),
        (inputs[0].painted != inputs[1].painted, "paint the mask"),
        (inputs[0].temperature != inputs[1].temperature, "temperature"),
        (inputs[0] != inputs[1], "change the inputs"),
        (before.look != now.look, "colours"),
    ];
    let name = names.into_iter().find(|(is_it, _)| *is_it);
    name.map_or("the last change", |(_, name)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use regard_walkthrough::Example;

    use super::*;

    fn note(history: &mut History, session: &Session) {
        history.note(session, || ["Tom", "bag"].map(str::to_owned).to_vec());
    }

    #[test]
    fn changes_are_taken_back_one_by_one_and_made_again() {
        let mut session = Session::default();
        let mut history = History::new(&session);
        session.walkthrough.settings.causal = true;
        note(&mut history, &session);
        session.walkthrough.open(Example::TwoHeads);
        note(&mut history, &session);

        assert_eq!(history.names(session.room), [Some("another example"), None]);
        history.go(&mut session, true);
        assert_eq!(session.walkthrough.example(), Example::ALL[0]);
        assert!(session.walkthrough.settings.causal);
        assert_eq!(history.names(session.room), [Some("causal mask"), Some("another example")]);
        history.go(&mut session, true);
        assert!(!session.walkthrough.settings.causal);
        history.go(&mut session, true);
        history.go(&mut session, false);
        history.go(&mut session, false);
        assert_eq!(session.walkthrough.example(), Example::TwoHeads);
        assert!(session.walkthrough.settings.causal);
        assert_eq!(history.names(session.room)[1], None);
    }

    #[test]
    fn undo_names_its_step_and_stays_in_its_room() {
        let mut session = Session { room: Room::Laboratory, ..Session::default() };
        let mut history = History::new(&session);
        note(&mut history, &session);
        session.laboratory.inputs.seed += 1;
        note(&mut history, &session);
        session.room = Room::Stage;
        note(&mut history, &session);
        assert_eq!(history.names(Room::Stage), [None, None]);
        history.go(&mut session, true);
        assert_eq!(session.room, Room::Stage);
        assert_ne!(session.laboratory, Session::default().laboratory);
        session.model.hidden.insert(1);
        note(&mut history, &session);
        assert_eq!(history.names(Room::Stage), [Some("hide “bag”"), None]);
        session.model.hidden.clear();
        note(&mut history, &session);
        assert_eq!(history.names(Room::Stage), [Some("show “bag”"), None]);
        session.room = Room::Laboratory;
        history.go(&mut session, true);
        assert_eq!(session.laboratory, Session::default().laboratory);
        assert!(session.model.hidden.is_empty() && session.room == Room::Laboratory);
    }
}
