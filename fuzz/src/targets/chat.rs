//! A chat template, applied to three messages on a stack as small as that of the page.

use regard_models::{ChatMessage, ChatTemplate};

pub(crate) fn fuzz(template: &[u8]) -> crate::Outcome {
    let template = str::from_utf8(template)?;
    let message =
        |role: &str, content: &str| ChatMessage { role: role.into(), content: content.into() };
    let messages = [
        message("system", "Be brief."),
        message("user", "Who sat?"),
        message("assistant", " A cat. "),
    ];
    let apply = || ChatTemplate::new(template, "<s>", "</s>").prompt(&messages);
    crate::bounded(template.len(), || {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(1 << 20);
            let applied = thread.spawn_scoped(scope, apply)?.join().expect("no template panics");
            Ok(applied.map(drop)?)
        })
    })
}
