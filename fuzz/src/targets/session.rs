//! A session file, and the session in a page's address, which is the text of such a file.
use regard_session::Session;

pub(crate) fn fuzz(file: &[u8]) -> crate::Outcome {
    let mut read = None;
    crate::bounded(file.len(), || {
        read = Some(Session::parse(file)?);
        Ok(())
    })?;
    let Some(session) = read else { return Ok(()) };
    let text = session.text().expect("a session can be written");
    // If the elements of a long list are written on lines of their own, the text can exceed the limit of 4 MiB.
    if text.len() <= 4 << 20 {
        let again = Session::parse(&text).expect("what is written can be read");
        assert_eq!(again.text().ok(), Some(text));
    }
    Ok(())
}
