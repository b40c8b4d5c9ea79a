//! A chat template, applied to three messages.

use regard_models::{ChatTemplate, Message};

pub(crate) fn fuzz(template: &[u8]) {
    let Ok(template) = str::from_utf8(template) else { return };
    let message =
        |role: &str, content: &str| Message { role: role.into(), content: content.into() };
    let messages = [
        message("system", "Be brief."),
        message("user", "Who sat?"),
        message("assistant", " A cat. "),
    ];
    crate::bounded(template.len(), || {
        let _ = ChatTemplate::new(template, "<s>", "</s>").prompt(&messages);
    });
}
