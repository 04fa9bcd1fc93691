//! Numbers of lines in a margin, and text that runs along the edge.

use super::fragment::Fragment;

/// Fewer numbers may be a list or a column of a table, unless they continue those of another page.
const MIN_LINE_NUMBERS: usize = 8;
const MIN_CONTINUED_NUMBERS: usize = 3;
const MIN_CONTINUED_VALUE: u32 = 20;

/// Takes line numbers out: numbers under each other in a margin, with a constant step.
pub(super) fn take_line_numbers(fragments: &mut Vec<Fragment>) -> Vec<Fragment> {
    let is_number =
        |fragment: &Fragment| fragment.text.len() <= 4 && fragment.text.bytes().all(|b| b.is_ascii_digit());
    let texts: Vec<f32> =
        fragments.iter().filter(|fragment| !is_number(fragment)).map(|fragment| fragment.area.x0).collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let mut numbers: Vec<(usize, f32, f32, u32)> = fragments
        .iter()
        .enumerate()
        .filter(|(_, fragment)| is_number(fragment))
        .filter_map(|(index, fragment)| {
            Some((index, fragment.area.x1, fragment.baseline, fragment.text.parse::<u32>().ok()?))
        })
        .collect();
    if numbers.len() < MIN_CONTINUED_NUMBERS {
        return Vec::new();
    }
    numbers.sort_by(|a, b| a.2.total_cmp(&b.2));
    let right = numbers.iter().map(|number| number.1).fold(f32::INFINITY, f32::min);
    let column: Vec<_> = numbers.into_iter().filter(|number| (number.1 - right).abs() < 12.0).collect();
    let steps: Vec<i64> = column.windows(2).map(|pair| i64::from(pair[1].3) - i64::from(pair[0].3)).collect();
    let step = steps.first().copied().unwrap_or(0);
    let is_series = step > 0 && steps.iter().filter(|other| **other == step).count() * 10 >= steps.len() * 9;
    let is_outside = texts.iter().filter(|x0| **x0 > right).count() * 100 >= texts.len() * 97;
    let is_continued = step == 1 && column.first().is_some_and(|number| number.3 >= MIN_CONTINUED_VALUE);
    let least = if is_continued { MIN_CONTINUED_NUMBERS } else { MIN_LINE_NUMBERS };
    if column.len() < least || !is_series || !is_outside {
        return Vec::new();
    }
    let mut taken: Vec<usize> = column.iter().map(|number| number.0).collect();
    taken.sort_unstable();
    taken.into_iter().rev().map(|index| fragments.remove(index)).collect()
}
