//! Fits text into a box: which line is where, how large, and how wide.

use super::font::ADVANCE;

/// Height of a line by the size of its font.
const LINE_HEIGHT: f32 = 1.2;
const MAX_SIZE: f32 = 24.0;
const MIN_SIZE: f32 = 1.0;

/// A line of text at its place, in points from the upper left corner of the page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub text: String,
    pub x: f32,
    pub baseline: f32,
    pub size: f32,
    /// Width in percent of what the font's own would be.
    pub stretch: f32,
}

/// Left, top, right, bottom.
pub(super) type Area = [f32; 4];

/// Lays the lines of a text out in a box. Long lines are broken between words; all of them fit.
pub(super) fn lines(text: &str, [left, top, right, bottom]: Area) -> Vec<Line> {
    let (width, height) = ((right - left).max(1.0), (bottom - top).max(1.0));
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let words: Vec<Vec<&str>> = words.into_iter().filter(|line: &Vec<&str>| !line.is_empty()).collect();
    if words.is_empty() {
        return Vec::new();
    }
    // The largest size at which all lines fit, by halving: a smaller one breaks fewer lines.
    let (mut small, mut large) = (MIN_SIZE, MAX_SIZE.min(height / LINE_HEIGHT).max(MIN_SIZE));
    let fits = |size: f32| broken(&words, width, size).len() as f32 * size * LINE_HEIGHT <= height;
    if fits(large) {
        small = large;
    }
    for _ in 0..8 {
        let size = (small + large) / 2.0;
        if fits(size) { small = size } else { large = size }
    }
    let broken = broken(&words, width, small);
    let step = (height / broken.len() as f32).min(small * LINE_HEIGHT * 2.0);
    broken
        .into_iter()
        .enumerate()
        .map(|(index, text)| {
            let natural = natural_width(&text, small);
            // A full line reaches from side to side, so that a selection looks right; a short one stays short.
            let wanted = if natural > width * 0.8 { width } else { natural };
            let baseline = top + step * index as f32 + (step * 0.8).min(small);
            Line {
                text,
                x: left,
                baseline,
                size: small,
                stretch: (100.0 * wanted / natural).clamp(1.0, 1000.0),
            }
        })
        .collect()
}

fn natural_width(text: &str, size: f32) -> f32 {
    (text.chars().count().max(1) as f32) * size * f32::from(ADVANCE) / 1000.0
}

/// Breaks lines between words where they are wider than the box.
fn broken(lines: &[Vec<&str>], width: f32, size: f32) -> Vec<String> {
    let mut out = Vec::new();
    for words in lines {
        let mut line = String::new();
        for word in words {
            if !line.is_empty()
                && natural_width(&line, size) + natural_width(word, size) + size > width * 1.25
            {
                out.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        out.push(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_in_its_box_and_nothing_is_lost() {
        let long = "Quay walls and the depth of the harbour basin. ".repeat(40);
        for (text, area) in [
            ("Title", [72.0, 72.0, 300.0, 90.0]),
            (long.as_str(), [72.0, 100.0, 520.0, 700.0]),
            (long.as_str(), [0.0, 0.0, 50.0, 10.0]),
            ("one\n\n  two\nthree", [10.0, 10.0, 200.0, 100.0]),
        ] {
            let lines = lines(text, area);
            let joined: Vec<&str> = lines.iter().flat_map(|line| line.text.split_whitespace()).collect();
            assert_eq!(joined, text.split_whitespace().collect::<Vec<_>>());
            for line in &lines {
                assert!(
                    line.x == area[0] && line.baseline <= area[3] + 0.1 && line.baseline > area[1],
                    "{line:?}"
                );
                let width = natural_width(&line.text, line.size) * line.stretch / 100.0;
                assert!(width <= (area[2] - area[0]) * 1.01, "{width} {line:?}");
            }
        }
        assert!(lines(" \n ", [0.0, 0.0, 9.0, 9.0]).is_empty());
        assert_eq!(lines("a\nb\nc", [0.0, 0.0, 100.0, 100.0]).len(), 3);
    }
}
