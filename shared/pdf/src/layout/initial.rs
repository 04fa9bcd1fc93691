//! Drop caps: a large first letter next to the first lines of a paragraph.

use super::fragment::{Fragment, Word};

/// More are not drop caps but an alphabet.
const MAX_INITIALS: usize = 12;

/// Joins each drop cap with the line that it starts.
pub(super) fn join_initials(fragments: &mut Vec<Fragment>) {
    let is_initial = |fragment: &Fragment| {
        fragment.text.chars().count() <= 2
            && fragment.text.chars().all(char::is_alphabetic)
            && fragment.size > 16.0
    };
    let initials: Vec<usize> = (0..fragments.len()).filter(|index| is_initial(&fragments[*index])).collect();
    if initials.is_empty() || initials.len() > MAX_INITIALS {
        return;
    }
    for index in initials.into_iter().rev() {
        let initial = fragments[index].clone();
        let first_line = fragments
            .iter()
            .enumerate()
            .filter(|(_, line)| {
                line.size < 0.6 * initial.size
                    && line.area.x0 >= initial.area.x1 - 0.2 * initial.size
                    && line.area.x0 <= initial.area.x1 + 0.5 * initial.size
                    && line.area.y1 > initial.area.y0 - 2.0
                    && line.baseline < initial.baseline + 2.0
                    && line.text.starts_with(char::is_alphabetic)
            })
            .min_by(|a, b| a.1.baseline.total_cmp(&b.1.baseline))
            .map(|(index, _)| index);
        if let Some(at) = first_line {
            let line = &mut fragments[at];
            let length = initial.text.len();
            line.text.insert_str(0, &initial.text);
            for (position, word) in line.words.iter_mut().enumerate() {
                *word = Word { start: if position == 0 { 0 } else { word.start + length }, ..*word };
            }
            fragments.remove(index);
        }
    }
}
