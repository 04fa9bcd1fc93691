//! A model call as the scripted provider reads it.

use everypage_core::providers::target::Provider;
use serde_json::Value;

use super::{ImageSize, Tier};
use crate::dialect::{Dialect, Prompt};

#[derive(Clone, Debug, Default)]
pub(super) struct ModelRequest {
    pub(super) provider: Provider,
    pub(super) model: String,
    pub(super) page: Option<u32>,
    /// The page's own text, from the context's current section.
    pub(super) current: String,
    pub(super) has_image: bool,
    pub(super) image: Option<ImageSize>,
    /// An estimate: four characters to a token, the providers' rule of thumb.
    pub(super) input_tokens: u64,
    /// Those of them that the provider has in its cache.
    pub(super) cached_tokens: u64,
    /// The tier that it asks for.
    pub(super) tier: Tier,
}

/// Names are stored and counted, so a hostile one must not grow without limit.
const MAX_MODEL_CHARS: usize = 200;
/// The approximate cost of one page image.
const IMAGE_TOKENS: u64 = 765;
/// No provider caches a shorter prompt.
const MIN_CACHED_TOKENS: u64 = 1024;

const CURRENT: &str = "--- current ---";
const MARKERS: [&str; 3] = ["--- before ---", CURRENT, "--- after ---"];

impl ModelRequest {
    /// Reads a body in the dialect; an unreadable one is a call without model and page.
    pub(super) fn read(dialect: &dyn Dialect, path: &str, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let Prompt { model, system, user, has_image, image, tier, is_cached } = dialect.prompt(path, &body);
        let system_tokens = system.len().div_ceil(4) as u64;
        let image_tokens = if has_image { IMAGE_TOKENS } else { 0 };
        Self {
            provider: dialect.provider(),
            model: model.chars().take(MAX_MODEL_CHARS).collect(),
            page: page_of(&user).or_else(|| page_of(&system)),
            current: current_section(&user),
            has_image,
            image,
            input_tokens: (system.len() + user.len()).div_ceil(4) as u64 + image_tokens,
            cached_tokens: if is_cached && system_tokens >= MIN_CACHED_TOKENS { system_tokens } else { 0 },
            tier,
        }
    }
}

/// The number in a line `Page N of M`. The text before the first marker is Everypage's own and is
/// searched first: a page's own text may have such a footer.
fn page_of(text: &str) -> Option<u32> {
    let header = text.lines().take_while(|line| !MARKERS.contains(&line.trim()));
    header.chain(text.lines()).find_map(page_in_line)
}

fn page_in_line(line: &str) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(4).find_map(|words| match words {
        ["Page" | "page", number, "of", total] => {
            let total = total.trim_end_matches(|c: char| !c.is_ascii_digit());
            total.parse::<u32>().ok().and_then(|_| number.parse().ok())
        }
        _ => None,
    })
}

fn current_section(text: &str) -> String {
    let section = text.lines().skip_while(|line| line.trim() != CURRENT).skip(1);
    let lines: Vec<&str> = section.take_while(|line| !MARKERS.contains(&line.trim())).collect();
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use serde_json::json;

    use super::*;
    use crate::dialect;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x53\0\0\x03\x4a\x08\x02\0\0\0";

    fn read(provider: Provider, body: &[u8]) -> ModelRequest {
        ModelRequest::read(dialect::of(provider).unwrap(), "/", body)
    }

    const CONTEXT: &str =
        "Page 17 of 40\n--- before ---\nold\n--- current ---\nNet loss\n41 million\n--- after ---\nnew";

    #[test]
    fn requests_of_every_dialect_are_read() {
        let data = BASE64_STANDARD.encode(PNG);
        let image_url =
            json!({ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{data}") } });
        let image = json!({ "type": "image", "source": { "type": "base64", "data": data } });
        let openai = json!({ "model": "gpt-5.1", "messages": [
            { "role": "system", "content": "Transcribe." },
            { "role": "user", "content": [{ "type": "text", "text": CONTEXT }, image_url] },
        ] });
        let anthropic = json!({ "model": "claude", "system": "Transcribe.", "messages": [
            { "role": "user", "content": [image, { "type": "text", "text": CONTEXT }] },
        ] });
        for (provider, body) in [(Provider::OpenAi, openai), (Provider::Anthropic, anthropic)] {
            let request = read(provider, body.to_string().as_bytes());
            assert_eq!(
                (request.page, request.current.as_str()),
                (Some(17), "Net loss\n41 million"),
                "{provider}"
            );
            assert!(request.has_image && request.input_tokens > IMAGE_TOKENS);
            assert_eq!(request.image, Some(ImageSize { width: 595, height: 842 }), "{provider}");
        }
    }

    #[test]
    fn the_page_is_found_in_the_header_first() {
        let table = [
            ("This is page 3 of 9.", Some(3)),
            ("--- current ---\nPage 2 of 5", Some(2)),
            ("Page 8 of 9\n--- current ---\nPage 2 of 5", Some(8)),
            ("Page one of two", None),
            ("Page 3", None),
            ("", None),
        ];
        for (text, page) in table {
            assert_eq!(page_of(text), page, "{text:?}");
        }
    }

    #[test]
    fn a_section_ends_at_the_next_marker_or_the_end() {
        assert_eq!(current_section("--- current ---\na\n\nb\n"), "a\n\nb");
        assert_eq!(current_section("--- before ---\na"), "");
    }

    #[test]
    fn an_unreadable_body_is_a_call_without_model_or_page() {
        let request = read(Provider::OpenAi, b"nonsense");
        assert_eq!((request.model.as_str(), request.page), ("", None));
    }
}
