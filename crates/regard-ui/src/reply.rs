/// The user's reply to something that lies over the window: the command palette or a file dialog.
pub(crate) enum Reply<T> {
    /// None yet: it stays open.
    Pending,
    /// It was closed without a choice.
    Closed,
    /// This was chosen.
    Chosen(T),
}
