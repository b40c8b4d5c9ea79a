//! Undo and redo: a list of earlier states and one of later states.

use super::Session;

/// The maximum number of changes that can be undone.
const MOST: usize = 200;

/// The states before and after the present one.
///
/// egui's `Undoer` compares whole states by time. Here a change ends when the pointer is released, opening another room is not a
/// change, undoing returns to the room of the change, and letters that are typed in sequence are one change.
pub(crate) struct History {
    past: Vec<Session>,
    present: Session,
    future: Vec<Session>,
    /// Whether the last change affected only the model's text.
    is_typing: bool,
}

impl History {
    pub(crate) fn new(session: &Session) -> Self {
        Self { past: Vec::new(), present: session.choices(), future: Vec::new(), is_typing: false }
    }

    /// Remembers the previous state if the choices have changed. Opening another room is not a change.
    pub(crate) fn note(&mut self, session: &Session) {
        let now = session.choices();
        self.present.room = now.room;
        if now != self.present {
            let mut with_text = self.present.clone();
            with_text.model.text.clone_from(&now.model.text);
            with_text.model.written.clone_from(&now.model.written);
            let is_typed = with_text == now;
            let before = core::mem::replace(&mut self.present, now);
            if !(is_typed && self.is_typing) {
                self.past.push(before);
            }
            self.is_typing = is_typed;
            self.future.clear();
            if self.past.len() > MOST {
                self.past.remove(0);
            }
        }
    }

    pub(crate) fn can_undo(&self) -> bool {
        !self.past.is_empty()
    }

    pub(crate) fn can_redo(&self) -> bool {
        !self.future.is_empty()
    }

    pub(crate) fn undo(&mut self, session: &mut Session) {
        self.note(session);
        self.is_typing = false;
        if let Some(before) = self.past.pop() {
            self.future.push(core::mem::replace(&mut self.present, before));
            session.take(&self.present);
        }
    }

    pub(crate) fn redo(&mut self, session: &mut Session) {
        self.note(session);
        self.is_typing = false;
        if let Some(after) = self.future.pop() {
            self.past.push(core::mem::replace(&mut self.present, after));
            session.take(&self.present);
        }
    }
}

#[cfg(test)]
mod tests {
    use regard_walkthrough::Example;

    use super::*;
    use crate::Room;

    #[test]
    fn changes_are_taken_back_one_by_one_and_made_again() {
        let mut session = Session::default();
        let mut history = History::new(&session);
        session.walkthrough.settings.causal = true;
        history.note(&session);
        session.walkthrough.open(Example::TwoHeads);
        history.note(&session);

        history.undo(&mut session);
        assert_eq!(session.walkthrough.example(), Example::ALL[0]);
        assert!(session.walkthrough.settings.causal);
        history.undo(&mut session);
        assert!(!session.walkthrough.settings.causal && !history.can_undo());
        history.undo(&mut session);
        history.redo(&mut session);
        history.redo(&mut session);
        assert_eq!(session.walkthrough.example(), Example::TwoHeads);
        assert!(session.walkthrough.settings.causal && !history.can_redo());
    }

    #[test]
    fn opening_a_room_is_not_a_change_but_undoing_returns_to_the_changed_room() {
        let mut session = Session::default();
        let mut history = History::new(&session);
        session.room = Room::Laboratory;
        history.note(&session);
        assert!(!history.can_undo());
        session.laboratory.inputs.seed += 1;
        history.note(&session);
        session.room = Room::Stage;
        history.note(&session);
        history.undo(&mut session);
        assert_eq!(session.room, Room::Laboratory);
        assert_eq!(session.laboratory, Session::default().laboratory);
    }
}
