//! Equations that are no line of text: fractions, operators with limits, brackets over several lines. Their letters are
//! read, but what is above and below what is lost.

use super::{content::Glyph, content::PageContent, tables::Found};
use crate::page::Area;

/// Symbols that only mathematics uses; fewer of them are no equations.
const MIN_SYMBOLS: usize = 3;
/// A longer bar is not that of a fraction, as a part of the page's width.
const MAX_BAR_SHARE: f32 = 0.4;
/// A page with more short bars is a chart.
const MAX_BARS: usize = 300;

fn is_symbol(c: char) -> bool {
    matches!(
        c,
        '∀'..='∉' | '∋'..='⋿' | 'Α'..='Ω' | 'α'..='ω' | 'ϑ' | 'ϕ' | 'ϵ' | 'ℓ' | 'ℝ' | 'ℕ' | 'ℤ' | 'ℂ' | 'ℏ'
            | '⟨' | '⟩' | '⩽' | '⩾' | '\u{1d400}'..='\u{1d7ff}'
    )
}

/// Operators that have limits above and below.
fn is_operator(c: char) -> bool {
    matches!(c, '∑' | '∏' | '∐' | '∫' | '∮' | '⋃' | '⋂' | '⋁' | '⋀' | '⨁' | '⨂')
}

/// Parts of brackets that are composed of several glyphs.
fn is_bracket_part(c: char) -> bool {
    matches!(c, '\u{239b}'..='\u{23b3}' | '\u{2320}' | '\u{2321}' | '\u{f8e5}'..='\u{f8fe}')
}

/// How many places of the page are equations that a line of text can't hold.
pub(super) fn count(content: &PageContent, tables: &[Found]) -> u32 {
    let all = || content.lines.iter().flat_map(|line| &line.glyphs).filter(|glyph| glyph.c != ' ');
    let symbols = all().filter(|glyph| is_symbol(glyph.c)).count();
    let has_brackets = all().any(|glyph| is_bracket_part(glyph.c));
    if symbols < MIN_SYMBOLS && !has_brackets {
        return 0;
    }
    let mut glyphs: Vec<&Glyph> = all().filter(|glyph| glyph.baseline.is_finite()).collect();
    glyphs.sort_by(|a, b| a.baseline.total_cmp(&b.baseline));
    let bars: Vec<&Area> = content
        .rules
        .iter()
        .filter(|rule| rule.height() <= 2.0 && rule.width() >= 3.0)
        .filter(|rule| rule.width() <= MAX_BAR_SHARE * content.page.width())
        .filter(|rule| {
            !tables.iter().any(|table| table.area.grown(3.0).contains(rule.center().0, rule.center().1))
        })
        .collect();
    let fractions =
        if bars.len() > MAX_BARS { 0 } else { bars.iter().filter(|bar| is_fraction(&glyphs, bar)).count() };
    let limits =
        glyphs.iter().filter(|glyph| is_operator(glyph.c) && has_limit(&glyphs, glyph)).take(100).count();
    (fractions + limits) as u32 + if has_brackets { 2 } else { 0 }
}

/// The glyphs with a baseline between two heights.
fn between<'a>(glyphs: &'a [&'a Glyph], top: f32, bottom: f32) -> &'a [&'a Glyph] {
    let first = glyphs.partition_point(|glyph| glyph.baseline < top);
    let last = glyphs.partition_point(|glyph| glyph.baseline <= bottom);
    &glyphs[first..last.max(first)]
}

/// Whether there is a numerator above the bar and a denominator below it, and nothing next to either that would make
/// them words of a line.
fn is_fraction(glyphs: &[&Glyph], bar: &Area) -> bool {
    let y = bar.center().1;
    let is_part = |near: &[&Glyph], is_near: &dyn Fn(&Glyph) -> bool| {
        let mut has_any = false;
        for glyph in near.iter().filter(|glyph| is_near(glyph)) {
            let x = glyph.area.center().0;
            if bar.x0 - 1.0 <= x && x <= bar.x1 + 1.0 {
                has_any = true;
            } else if glyph.area.x1 > bar.x0 - 0.35 * glyph.size && glyph.area.x0 < bar.x1 + 0.35 * glyph.size
            {
                return false;
            }
        }
        has_any
    };
    let above = between(glyphs, y - 14.0, y);
    let below = between(glyphs, y, y + 20.0);
    is_part(above, &|glyph| y - glyph.baseline <= 0.9 * glyph.size)
        && is_part(below, &|glyph| {
            let drop = glyph.baseline - y;
            (0.4 * glyph.size..=1.15 * glyph.size).contains(&drop)
        })
}

/// Whether smaller glyphs are right above or below an operator.
///
/// An operator stands on its baseline, or hangs from it: the large ones of TeX have it at their upper edge and are 1.4
/// ems high, so that the upper limit is right above the baseline and the lower one 2 ems below.
fn has_limit(glyphs: &[&Glyph], operator: &Glyph) -> bool {
    let (x, _) = operator.area.center();
    let size = operator.size;
    let is_small = |glyph: &Glyph| glyph.size < 0.85 * size;
    let is_centered =
        |glyph: &Glyph| (glyph.area.center().0 - x).abs() < 0.35 * operator.area.width().max(0.5 * size);
    let near = between(glyphs, operator.baseline - 1.6 * size, operator.baseline + 2.4 * size);
    near.iter().filter(|glyph| is_small(glyph) && is_centered(glyph)).any(|limit| {
        let drop = limit.baseline - operator.baseline;
        // What is further down is a limit only if no line of text is between.
        let is_line = |glyph: &&Glyph| {
            !is_small(glyph)
                && glyph.area.x1 > operator.area.x0 - size
                && glyph.area.x0 < operator.area.x1 + size
        };
        let has_line = || {
            let lines = between(glyphs, operator.baseline + 1.1 * size, limit.baseline);
            lines.iter().any(is_line)
        };
        drop < -0.1 * size || (drop > 0.5 * size && (drop <= 1.1 * size || !has_line()))
    })
}
