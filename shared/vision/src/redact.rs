//! Makes a description of an error safe to show: short, on one line, without keys.

/// Enough for the sentence that names the problem.
const SHOWN_CHARS: usize = 200;

/// Longer unbroken runs of letters and digits are keys, tokens or data, not words.
const WORD_CHARS: usize = 24;

const KEY_STARTS: [&str; 9] = ["sk-", "sk_", "pk-", "pk_", "gsk_", "key-", "xai-", "AIza", "eyJ"];

/// One line of at most [`SHOWN_CHARS`] characters without keys.
pub(crate) fn shown(text: &str, key: Option<&str>, model: &str) -> String {
    // Longer than what is shown, so that a key is complete before the line is cut.
    let start: String = text.chars().take(4 * SHOWN_CHARS).collect();
    let start = match key {
        Some(key) => start.replace(key, "[key]"),
        None => start,
    };
    let words: Vec<String> = start
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .map(|word| without_keys(word, model))
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(SHOWN_CHARS) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// The word with each key-like run in it replaced: `"sk-abc",` becomes `"[key]",`.
fn without_keys(word: &str, model: &str) -> String {
    let mut shown = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let run = rest.find(|c: char| !in_key(c)).unwrap_or(rest.len());
        let (run, tail) = rest.split_at(run);
        shown.push_str(if run != model && is_key(run) { "[key]" } else { run });
        let between = tail.find(in_key).unwrap_or(tail.len());
        let (between, tail) = tail.split_at(between);
        shown.push_str(between);
        rest = tail;
    }
    shown
}

/// Asterisks count because APIs mask the keys that they quote with them.
fn in_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '*' | '.')
}

fn is_key(run: &str) -> bool {
    let has = |test: fn(&char) -> bool| run.chars().any(|c| test(&c));
    let dense = run.len() >= WORD_CHARS && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
    dense || run.contains("***") || (run.len() > 4 && KEY_STARTS.iter().any(|start| run.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        shown(text, Some("hunter2secret"), "claude-sonnet-4-5-20250929")
    }

    #[test]
    fn keys_are_removed_and_words_stay() {
        let table = [
            ("Incorrect API key provided: sk-proj-abc.", "Incorrect API key provided: [key]"),
            ("bad key \"sk-ant-api03-x_y-z\", sorry", "bad key \"[key]\", sorry"),
            ("key hunter2secret is revoked", "key [key] is revoked"),
            ("masked: abcd*****wxyz!", "masked: [key]!"),
            ("token eyJhbGciOi", "token [key]"),
            ("hash 0123456789abcdef0123456789abcdef", "hash [key]"),
            ("model: claude-sonnet-4-5-20250929 not found", "model: claude-sonnet-4-5-20250929 not found"),
            (
                "max_tokens is too large:\n 400000\t(limit 128000)",
                "max_tokens is too large: 400000 (limit 128000)",
            ),
            ("risk-free sk- task-force", "risk-free sk- task-force"),
        ];
        for (text, expected) in table {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn a_long_message_is_cut_on_a_character_and_no_key_survives_the_cut() {
        let shown = redacted(&format!("{} sk-{}", "é ".repeat(98), "a".repeat(500)));
        assert!(shown.chars().count() <= SHOWN_CHARS + 1 && !shown.contains("sk-"), "{shown}");
        assert_eq!(redacted(&"word ".repeat(1000)).chars().count(), SHOWN_CHARS + 1);
    }
}
