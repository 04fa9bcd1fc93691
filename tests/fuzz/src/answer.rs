use std::sync::LazyLock;

use everypage_core::{
    ports::vision::{Answer, PageRequest, VisionError},
    providers::target::{Provider, Target},
    read::{answer::judge, reference::Reference},
    secret::Secret,
};
use everypage_vision::{HttpVision, ProviderAccess, VisionSettings};

const KEY: &str = "sk-a-key-that-must-not-leak";
const PROMPT: &str = "a system prompt that must not appear in an error";
const LAYER: &str =
    "the text layer of the page, which is part of the document and must not appear in an error";

/// With an address of this machine: a provider's own address would load the system's certificates.
static VISION: LazyLock<Option<HttpVision>> = LazyLock::new(|| {
    let here = || ProviderAccess::at("http://127.0.0.1:9", Some(Secret::new(KEY)));
    HttpVision::new(VisionSettings::new(Provider::ALL.iter().map(|provider| (*provider, here())))).ok()
});

/// A reply as `openai 200`, lines of headers, an empty line and the body gives an answer, or an error that
/// reveals nothing of key, prompt or page.
pub fn answer(data: &[u8]) {
    let Some(vision) = VISION.as_ref() else { panic!("the adapter can't be created") };
    let (head, body) = match data.windows(2).position(|bytes| bytes == b"\n\n") {
        Some(at) => (&data[..at], &data[at + 2..]),
        None => (data, &b""[..]),
    };
    let Ok(head) = std::str::from_utf8(head) else { return };
    let mut lines = head.lines();
    let (provider, status) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
    let (Ok(provider), Ok(status)) = (provider.parse::<Provider>(), status.trim().parse::<u16>()) else {
        return;
    };
    let target = Target { provider, model: "a-model".into() };
    let request = PageRequest {
        system_prompt: PROMPT.into(),
        context_text: LAYER.into(),
        image: None,
        max_output_tokens: 100,
        temperature: None,
        service_tier: Default::default(),
    };
    let headers =
        lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name.trim(), value.trim()));
    match vision.interpret(&target, &request, status, headers, body.to_vec()) {
        Ok(Answer { text, finish, usage, .. }) => {
            assert!(usage.cost_usd.is_finite() && usage.cost_usd >= 0.0, "{usage:?}");
            let _ = judge(&text, finish, Some(&Reference::of_text(LAYER)));
        }
        Err(error) => {
            let message = error.to_string();
            super::is_explained(&message);
            for secret in [KEY, PROMPT, LAYER] {
                assert!(!message.contains(secret), "{message}");
            }
            assert!(!message.chars().any(char::is_control) && message.len() < 2_000, "{message:?}");
            if let VisionError::Exhausted { retry_after: Some(wait), .. } = error {
                assert!(wait.as_secs() <= 24 * 60 * 60, "{wait:?}");
            }
        }
    }
}
