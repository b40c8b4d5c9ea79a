//! A text and, after a byte 0, the tokenizer.json that reads it.

pub(crate) fn fuzz(data: &[u8]) -> crate::Outcome {
    let end = data.iter().position(|byte| *byte == 0).ok_or("it has no byte 0")?;
    super::tokenizer::read(&data[end + 1..], str::from_utf8(&data[..end])?)
}
