use everypage_core::job::message::PageMessage;

/// A message is parsed as it was encoded, or refused with a reason.
pub fn page_message(data: &[u8]) {
    let Ok(body) = std::str::from_utf8(data) else { return };
    match PageMessage::parse(body) {
        Ok(message) => {
            let again =
                PageMessage::parse(&message.encode().expect("a message that was read can be written"));
            assert!(again.as_ref() == Ok(&message), "{message:?} was parsed as {again:?}");
            // Debug output does not contain a long context.
            assert!(
                message.context_text.len() < 64 || !format!("{message:?}").contains(&message.context_text)
            );
        }
        Err(error) => super::is_explained(&error.to_string()),
    }
}
