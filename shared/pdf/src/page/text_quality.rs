//! Distinguishes natural text from the garbage of a broken font encoding.

/// Counts of one page's characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CharacterCounts {
    /// Everything but white space.
    visible: u32,
    /// Replacement characters, private use, control codes.
    broken: u32,
    /// Dots and dashes of leaders and form lines, which indicate neither text nor garbage.
    leaders: u32,
    alphanumeric: u32,
    latin: u32,
    /// Those of `latin` that every language in Latin script uses most.
    common: u32,
}

/// Fewer characters are too few to judge.
const MIN_CHARACTERS: u32 = 20;
const MIN_LATIN_CHARACTERS: u32 = 200;

impl CharacterCounts {
    pub fn count(&mut self, c: char) {
        if c.is_whitespace() {
            return;
        }
        self.visible += 1;
        match c {
            '\u{fffd}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'.. => self.broken += 1,
            c if c.is_control() => self.broken += 1,
            '.' | '_' | '-' | '·' | '…' | '⋯' | '—' | '–' | '=' | '*' => self.leaders += 1,
            c if c.is_ascii_alphabetic() => {
                self.alphanumeric += 1;
                self.latin += 1;
                self.common += u32::from(b"etaoinsr".contains(&(c.to_ascii_lowercase() as u8)));
            }
            c if c.is_alphanumeric() => self.alphanumeric += 1,
            _ => {}
        }
    }

    pub fn has_text(&self) -> bool {
        self.visible > 0
    }

    /// The part of the characters that no font explains, 0 to 1.
    pub fn broken_share(&self) -> f32 {
        share(self.broken, self.visible)
    }

    pub fn is_garbage(&self) -> bool {
        if self.visible < MIN_CHARACTERS {
            // Some broken characters, such as a page number in a symbol font, are not enough.
            return self.visible > 0 && self.broken == self.visible;
        }
        let significant = self.visible - self.leaders;
        let is_broken = share(self.broken, self.visible) > 0.25;
        let has_no_words = significant >= MIN_CHARACTERS && share(self.alphanumeric, significant) < 0.35;
        // Encodings shifted by a constant read like `7KLV LV`. These eight letters make up half to
        // two thirds of any natural text, 31 % of random letters and 18 % of shifted ones.
        let is_shifted = self.latin >= MIN_LATIN_CHARACTERS
            && self.latin * 10 >= self.alphanumeric * 6
            && share(self.common, self.latin) < 0.25;
        is_broken || has_no_words || is_shifted
    }
}

fn share(part: u32, whole: u32) -> f32 {
    if whole == 0 { 0.0 } else { part as f32 / whole as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_garbage(text: &str) -> bool {
        let mut counts = CharacterCounts::default();
        text.chars().for_each(|c| counts.count(c));
        counts.is_garbage()
    }

    const PROSE: &str = "The committee met on Tuesday to discuss the annual report and the budget for the \
        coming year. Members asked for a clearer statement of the risks, and the treasurer agreed to \
        write one before the next meeting. No other business was raised and the meeting closed early.";

    #[test]
    fn natural_text_is_not_garbage_in_any_script() {
        for text in [
            PROSE,
            "Der schnelle braune Fuchs springt über den faulen Hund, während es draußen regnet.",
            "敏捷的棕色狐狸跳过了懒狗。今天天气很好，我们去公园散步吧。",
            "Быстрая коричневая лиса прыгает через ленивую собаку и бежит дальше.",
            "1. Introduction ................................................ 3",
            "12 345.60  -1 200.00  98.5 %  (3)  17/04/2024  € 1 234,00",
            "7",
        ] {
            assert!(!is_garbage(text), "{text}");
        }
    }

    #[test]
    fn broken_encodings_are_garbage() {
        let shifted: String =
            PROSE.chars().map(|c| char::from((c as u8).saturating_sub(29).max(32))).collect();
        let caesar: String = PROSE
            .chars()
            .map(|c| match c {
                'a'..='z' => char::from((c as u8 - b'a' + 3) % 26 + b'a'),
                _ => c,
            })
            .collect();
        for text in [
            &shifted,
            &caesar,
            &"\u{fffd}".repeat(40),
            &"\u{e021}\u{e022} ".repeat(30),
            &"!\"#$%&'()".repeat(9),
        ] {
            assert!(is_garbage(text), "{text}");
        }
        assert!(is_garbage("\u{f0b7}"));
    }
}
