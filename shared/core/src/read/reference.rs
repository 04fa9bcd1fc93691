//! The reference that an answer is checked against: the page's own text, as far as it can be relied on.

use super::words::Words;
use crate::{
    document::{BlockKind, Classification, Reason},
    prepare::StoredPage,
};

/// A text with fewer words and numbers is too short to check an answer against.
const MIN_WORDS: usize = 20;
/// The text of a page without a sound text layer is relied on from this confidence of its own on. Below it, an
/// answer may be better than the text, so it is only compared with it.
const MIN_SOUND: f32 = 0.85;
/// Below this it says nothing.
const MIN_WEAK: f32 = 0.25;

/// The page's own text, as answers are checked against it.
#[derive(Clone, Debug)]
pub struct Reference {
    /// What an answer must have: without page headers, footers and numbers, and without the labels of figures.
    pub required: Words,
    /// What an answer may have.
    pub all: Words,
    /// Whether an answer that differs from it is wrong.
    pub is_sound: bool,
    /// Whether there is more to be said of the page than its text.
    pub has_graphics: bool,
    /// How the page's text starts, in lower case.
    pub opening: String,
    pub repeats: bool,
}

impl Reference {
    /// `None` where the page has no text to check an answer against.
    pub fn of(page: &StoredPage) -> Option<Self> {
        let confidence = page.confidence.get();
        let is_text_layer = match page.reason {
            Reason::Text
            | Reason::Image
            | Reason::VectorFigure
            | Reason::Equation
            | Reason::Table
            | Reason::Form => true,
            // What MuPDF or OCR found there may be worse than what the model reads.
            Reason::Scanned | Reason::NoTextLayer | Reason::GarbageText => false,
            Reason::Blank | Reason::Unreadable => return None,
        };
        if !is_text_layer && confidence < MIN_WEAK || !is_language(&page.text) {
            return None;
        }
        let (mut required, mut all) = (Words::default(), Words::default());
        let mut text = String::new();
        for block in &page.blocks {
            text.clear();
            block.write_text(&mut text);
            all.add(&text);
            if !block.kind.is_furniture() && block.kind != BlockKind::Figure {
                required.add(&text);
            }
        }
        let reference = Self {
            is_sound: is_text_layer || confidence >= MIN_SOUND,
            has_graphics: page.reason.classification() == Classification::HasGraphics,
            ..Self::of_text(&page.text)
        };
        let reference = if page.blocks.is_empty() { reference } else { Self { required, all, ..reference } };
        (reference.required.len() >= MIN_WORDS).then_some(reference)
    }

    /// A text that an answer must have, all of it.
    pub fn of_text(text: &str) -> Self {
        let all = Words::of(text);
        Self {
            required: all.clone(),
            all,
            is_sound: true,
            has_graphics: false,
            opening: text.trim_start().chars().take(400).flat_map(char::to_lowercase).collect(),
            repeats: super::answer::repeats(text),
        }
    }
}

/// Whether a text is language: mostly letters and digits, with those letters that languages use most, and not what
/// another script looks like in a Western European encoding.
fn is_language(text: &str) -> bool {
    let (mut good, mut bad) = (0_usize, 0_usize);
    let (mut ascii, mut accented, mut common) = (0_usize, 0_usize, 0_usize);
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        if c.is_alphanumeric()
            || c.is_ascii_punctuation()
            || unicode_normalization::char::is_combining_mark(c)
        {
            good += 1;
        } else {
            bad += 1;
        }
        match c {
            'a'..='z' | 'A'..='Z' => {
                ascii += 1;
                common += usize::from(b"etaoinsr".contains(&(c.to_ascii_lowercase() as u8)));
            }
            // Cyrillic or Greek that was decoded as Latin-1 consists of these; no language has more than a third.
            'À'..='ÿ' => accented += 1,
            _ => {}
        }
    }
    let is_shifted = ascii >= 80 && ascii * 2 >= good && common * 4 < ascii;
    let is_misdecoded = accented * 5 > (ascii + accented) * 2 && accented * 3 > good;
    good > 0 && bad * 4 < good && !is_shifted && !is_misdecoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_encodings_are_no_language_and_every_script_is() {
        let english = "The committee met on Tuesday to discuss the annual report and the budget for the coming \
            year; members asked for a clearer statement of the risks.";
        let caesar: String = english
            .chars()
            .map(|c| if c.is_ascii_lowercase() { char::from((c as u8 - b'a' + 3) % 26 + b'a') } else { c })
            .collect();
        let russian = "Быстрая коричневая лиса прыгает через ленивую собаку и бежит дальше к реке";
        // Windows-1251 read as Latin-1.
        let misdecoded: String = russian
            .chars()
            .map(|c| match c {
                'А'..='я' => char::from_u32(u32::from(c) - 0x410 + 0xc0).unwrap(),
                c => c,
            })
            .collect();
        for (text, expected) in [
            (english, true),
            (&caesar, false),
            (russian, true),
            (&misdecoded, false),
            ("Příliš žluťoučký kůň úpěl ďábelské ódy", true),
            ("Été à l'île, où naît une fée très âgée", true),
            ("敏捷的棕色狐狸跳过了懒狗。今天天气很好，我们去公园散步吧。", true),
            ("दाम १२३४ रुपये है और यह बहुत अच्छा है", true),
            ("\u{fffd}\u{e001}x \u{fffd}\u{e001}x", false),
            ("", false),
        ] {
            assert_eq!(is_language(text), expected, "{text}");
        }
    }
}
