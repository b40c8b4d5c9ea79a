//! A session file, and the session in a page's address, which is the text of such a file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use regard_ui::Session;

fuzz_target!(|file: &[u8]| {
    regard_fuzz::bounded(file.len(), || {
        let Ok(session) = Session::parse(file) else { return };
        let text = session.text().expect("a session can be written");
        let again = Session::parse(&text).expect("what is written can be read");
        assert_eq!(again.text().ok(), Some(text));
    });
});
