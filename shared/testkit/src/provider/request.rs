//! What the scripted provider understands of a request.

use everypage_core::domain::target::Provider;
use serde_json::Value;

use super::ImageSize;

/// A call as it was asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) provider: Provider,
    pub(super) model: String,
    pub(super) page: Option<u32>,
    /// The page's own words, from the context's current section.
    pub(super) current: String,
    pub(super) has_image: bool,
    pub(super) image: Option<ImageSize>,
    /// A rough measure: four characters to a token, as the vendors' rule of thumb has it.
    pub(super) input_tokens: u64,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            provider: Provider::OpenAi,
            model: String::new(),
            page: None,
            current: String::new(),
            has_image: false,
            image: None,
            input_tokens: 0,
        }
    }
}

/// Names are kept and counted, so a hostile one must not grow without end.
const MODEL_CHARS: usize = 200;
/// What one image of a page costs, about.
const IMAGE_TOKENS: u64 = 765;

const CURRENT: &str = "--- current ---";
const MARKERS: [&str; 3] = ["--- before ---", CURRENT, "--- after ---"];

impl Asked {
    /// Either vendor's body. An unreadable one is a call without model and page.
    pub(super) fn read(provider: Provider, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut system = String::new();
        let mut user = String::new();
        let mut images = Images::default();
        collect(&body["system"], &mut system, &mut images);
        for message in body["messages"].as_array().into_iter().flatten() {
            let into = if message["role"] == "user" { &mut user } else { &mut system };
            collect(&message["content"], into, &mut images);
        }
        let image_tokens = if images.any { IMAGE_TOKENS } else { 0 };
        Self {
            provider,
            model: body["model"].as_str().unwrap_or_default().chars().take(MODEL_CHARS).collect(),
            page: page_of(&user).or_else(|| page_of(&system)),
            current: current_section(&user),
            has_image: images.any,
            image: images.measured,
            input_tokens: (system.len() + user.len()).div_ceil(4) as u64 + image_tokens,
        }
    }
}

/// What was found of them in a request.
#[derive(Default)]
struct Images {
    any: bool,
    measured: Option<ImageSize>,
}

/// The text of a string or of an array of parts, each on lines of its own.
fn collect(content: &Value, text: &mut String, images: &mut Images) {
    let mut add = |part: &str| {
        text.push_str(part);
        text.push('\n');
    };
    match content {
        Value::String(part) => add(part),
        Value::Array(parts) => {
            for part in parts {
                part["text"].as_str().map(&mut add);
                images.any |= part["type"] == "image_url" || part["type"] == "image";
                images.measured = images.measured.or_else(|| ImageSize::of_part(part));
            }
        }
        _ => {}
    }
}

/// The number in a line `Page N of M`. What stands before the first marker is ours and is
/// believed first: a page's own text may have such a footer.
fn page_of(text: &str) -> Option<u32> {
    let ours = text.lines().take_while(|line| !MARKERS.contains(&line.trim()));
    ours.chain(text.lines()).find_map(page_in_line)
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
    use serde_json::json;

    use super::*;

    const CONTEXT: &str =
        "Page 17 of 40\n--- before ---\nold\n--- current ---\nNet loss\n41 million\n--- after ---\nnew";

    #[test]
    fn both_vendors_requests_are_understood() {
        let openai = json!({ "model": "gpt-5.1", "messages": [
            { "role": "system", "content": "Transcribe." },
            { "role": "user", "content": [{ "type": "text", "text": CONTEXT }, { "type": "image_url", "image_url": {} }] },
        ] });
        let anthropic = json!({ "model": "claude", "system": "Transcribe.", "messages": [
            { "role": "user", "content": [{ "type": "image", "source": {} }, { "type": "text", "text": CONTEXT }] },
        ] });
        for (provider, body) in [(Provider::OpenAi, openai), (Provider::Anthropic, anthropic)] {
            let asked = Asked::read(provider, body.to_string().as_bytes());
            assert_eq!(
                (asked.page, asked.current.as_str()),
                (Some(17), "Net loss\n41 million"),
                "{provider}"
            );
            assert!(asked.has_image && asked.input_tokens > IMAGE_TOKENS);
        }
    }

    #[test]
    fn the_page_is_found_where_we_wrote_it() {
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
    fn nonsense_is_a_call_without_model_or_page() {
        let asked = Asked::read(Provider::OpenAi, b"nonsense");
        assert_eq!((asked.model.as_str(), asked.page), ("", None));
    }
}
