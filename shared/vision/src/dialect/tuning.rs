//! Settings of a request that suit transcription and that not every model of a provider accepts: the
//! lowest reasoning effort, and the temperature.

use serde::Serialize;

/// No model caches a prompt of fewer than 1,024 tokens, which are about this many bytes; to ask for it would be
/// in vain. Documented at platform.claude.com/docs/en/build-with-claude/prompt-caching and
/// docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html. OpenAI and Gemini cache by themselves.
const MIN_CACHED_BYTES: usize = 4096;

/// Whether the provider should keep the system prompt, which is the same for all pages of a tenant.
pub(super) fn is_worth_caching(system_prompt: &str) -> bool {
    system_prompt.len() >= MIN_CACHED_BYTES
}

/// The first version in a model's name: `gpt-5.4-mini` is 5.4, `claude-opus-4-20250514` is 4.0.
pub(super) fn version(model: &str) -> Option<(u32, u32)> {
    let start = model.find(|c: char| c.is_ascii_digit())?;
    let mut numbers = model[start..].split(['.', '-']);
    let number = |text: &str| {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        text[..digits].parse::<u32>().ok()
    };
    let major = number(numbers.next()?)?;
    // A date is no version.
    let minor = numbers.next().filter(|text| text.len() <= 2).and_then(number).unwrap_or(0);
    Some((major, minor))
}

/// Models from GPT-6 on that can answer without reasoning, as their pages at developers.openai.com/api/docs/models say.
/// The others of that generation refuse `none`.
const WITHOUT_REASONING: [&str; 3] = ["gpt-6-sol", "gpt-6-luna", "gpt-6.1-terra"];

/// For OpenAI's models, at OpenAI and on Azure. Documented at developers.openai.com/api/docs/guides/reasoning
/// and in the API reference of chat completions: `none` from GPT-5.1 on, but not for every GPT-6, `minimal` for
/// GPT-5, a temperature only without reasoning.
pub(super) struct OpenAiTuning {
    pub(super) reasoning_effort: Option<&'static str>,
    pub(super) temperature: Option<f32>,
}

impl OpenAiTuning {
    pub(super) fn of(model: &str, temperature: Option<f32>) -> Self {
        let temperature = Some(temperature.unwrap_or(0.0));
        let is_o_series = model.starts_with('o') && model[1..].starts_with(|c: char| c.is_ascii_digit());
        let (reasoning_effort, temperature) = match version(model).filter(|_| model.starts_with("gpt-")) {
            _ if model.contains("-pro") => (None, None),
            _ if is_o_series => (Some("low"), None),
            Some((..=4, _)) => (None, temperature),
            Some((5, 0)) => (Some("minimal"), None),
            Some((5, _)) => (Some("none"), temperature),
            Some(_) if WITHOUT_REASONING.iter().any(|name| model.starts_with(name)) => {
                (Some("none"), temperature)
            }
            Some(_) => (Some("low"), None),
            // A deployment, or a model of which nothing is known.
            None => (None, None),
        };
        Self { reasoning_effort, temperature }
    }
}

/// Models from Claude 5 on whose thinking can be turned off, with the kind of `thinking` that does so; the others
/// think always, and as little as they can with the effort `low`.
const THINKING_OFF: [(&str, &str); 4] = [
    ("opus-5", "disabled"),
    ("sonnet-5", "disabled"),
    ("haiku-5-5", "disabled"),
    // Without tools there is nothing between them.
    ("sonnet-5-5", "between_tools"),
];

/// For Claude, at Anthropic and on Bedrock. Documented in Anthropic's migration guides
/// (platform.claude.com/docs/en/models, one for each model): no sampling parameters from 4.7 on, thinking by default
/// from 5 on, which Opus 5.5 and Fable can't turn off.
pub(super) struct ClaudeTuning {
    pub(super) fields: ClaudeFields,
    pub(super) temperature: Option<f32>,
}

/// Fields of Claude's own API; Bedrock passes them on.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ClaudeFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct OutputConfig {
    effort: &'static str,
}

impl ClaudeFields {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ClaudeTuning {
    /// Of a model by its name, with or without the maker's.
    pub(super) fn of(model: &str, temperature: Option<f32>) -> Self {
        let name = model.strip_prefix("claude-").unwrap_or(model);
        let found = version(name);
        let plain = Self { fields: ClaudeFields::default(), temperature: None };
        match found {
            Some(found) if found < (4, 7) => Self { temperature: Some(temperature.unwrap_or(0.0)), ..plain },
            Some((4, _)) | None => plain,
            Some(_) => {
                let is_known = |known: &str| name.starts_with(known) && version(known) == found;
                let off = THINKING_OFF.iter().find(|(known, _)| is_known(known));
                let thinking = off.map(|(_, kind)| Thinking { kind });
                let output_config = thinking.is_none().then_some(OutputConfig { effort: "low" });
                Self { fields: ClaudeFields { thinking, output_config }, ..plain }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_names() {
        let table = [
            ("gpt-5.4-mini", Some((5, 4))),
            ("gpt-5-mini-2025-08-07", Some((5, 0))),
            ("gpt-4o", Some((4, 0))),
            ("claude-sonnet-4-6", Some((4, 6))),
            ("claude-opus-4-20250514", Some((4, 0))),
            ("claude-opus-5", Some((5, 0))),
            ("gemini-3.5-flash-lite", Some((3, 5))),
            ("qwen-vl", None),
            ("", None),
        ];
        for (model, expected) in table {
            assert_eq!(version(model), expected, "{model}");
        }
    }

    #[test]
    fn openai_models_get_the_lowest_effort_that_they_have() {
        let table = [
            ("gpt-5.4", Some("none"), Some(0.0)),
            ("gpt-5.6-luna", Some("none"), Some(0.0)),
            ("gpt-5-mini", Some("minimal"), None),
            ("gpt-4.1", None, Some(0.0)),
            ("gpt-5.4-pro", None, None),
            ("gpt-6-astra", Some("low"), None),
            ("gpt-6-sol", Some("none"), Some(0.0)),
            ("gpt-6-luna", Some("none"), Some(0.0)),
            ("gpt-6.1-terra", Some("none"), Some(0.0)),
            ("gpt-6.1-sol", Some("low"), None),
            ("gpt-6.2-sol", Some("low"), None),
            ("o3", Some("low"), None),
            ("our-deployment", None, None),
            ("", None, None),
        ];
        for (model, effort, temperature) in table {
            let tuning = OpenAiTuning::of(model, None);
            assert_eq!((tuning.reasoning_effort, tuning.temperature), (effort, temperature), "{model}");
        }
        assert_eq!(OpenAiTuning::of("gpt-5.4", Some(0.4)).temperature, Some(0.4));
        assert_eq!(OpenAiTuning::of("gpt-5-mini", Some(0.4)).temperature, None, "it would be refused");
    }

    #[test]
    fn claude_gets_a_temperature_no_thinking_or_a_low_effort() {
        let table = [
            ("claude-sonnet-4-6", None, None, Some(0.0)),
            ("haiku-4-5-20251001-v1:0", None, None, Some(0.0)),
            ("claude-opus-4-7", None, None, None),
            ("claude-opus-5", Some("disabled"), None, None),
            ("claude-opus-5-20260724", Some("disabled"), None, None),
            ("sonnet-5", Some("disabled"), None, None),
            ("claude-haiku-5-5", Some("disabled"), None, None),
            ("claude-sonnet-5-5", Some("between_tools"), None, None),
            ("claude-opus-5-5", None, Some("low"), None),
            ("claude-fable-5-1", None, Some("low"), None),
            ("claude-opus-6", None, Some("low"), None),
        ];
        for (model, thinking, effort, temperature) in table {
            let ClaudeTuning { fields, temperature: sent } = ClaudeTuning::of(model, None);
            let kind = fields.thinking.map(|thinking| thinking.kind);
            let low = fields.output_config.map(|config| config.effort);
            assert_eq!((kind, low, sent), (thinking, effort, temperature), "{model}");
        }
    }
}
