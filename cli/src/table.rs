//! Aligned columns.

use console::{Alignment, measure_text_width, pad_str, truncate_str};

/// Rows under headings; the last column takes the rest of the line.
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

const GAP: &str = "  ";

impl Table {
    pub fn new<const N: usize>(headings: [&'static str; N]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new(), right: Vec::new() }
    }

    /// Aligns these columns to the right.
    pub fn right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Lines of at most `width`; only the last column is truncated.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let columns = self.headings.len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().map(|row| measure_text_width(&row[column]));
                cells.chain([self.headings[column].len()]).max().unwrap_or(0)
            })
            .collect();
        let fixed: usize = widths[..columns - 1].iter().map(|width| width + GAP.len()).sum();
        let left = width.map(|width| width.saturating_sub(fixed).max(8));
        let line = |cells: &[&str]| {
            let mut line = String::new();
            for (column, cell) in cells.iter().enumerate() {
                if column > 0 {
                    line.push_str(GAP);
                }
                if column + 1 < columns || self.right.contains(&column) {
                    let side = match self.right.contains(&column) {
                        true => Alignment::Right,
                        false => Alignment::Left,
                    };
                    line.push_str(&pad_str(cell, widths[column], side, None));
                } else if let Some(left) = left {
                    line.push_str(&truncate_str(cell, left, "…"));
                } else {
                    line.push_str(cell);
                }
            }
            line.trim_end().to_owned()
        };
        let headings = line(&self.headings);
        let rows = self.rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
        std::iter::once(headings).filter(|line| !line.is_empty()).chain(rows).collect()
    }

    /// The whole table, as wide as the terminal; not truncated without one.
    pub fn text(&self) -> String {
        let mut text = self.lines(terminal_width()).join("\n");
        text.push('\n');
        text
    }
}

/// The width of the terminal, if standard output is one.
pub fn terminal_width() -> Option<usize> {
    let terminal = console::Term::stdout();
    terminal.is_term().then(|| usize::from(terminal.size().1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_only_the_last_is_truncated() {
        let mut table = Table::new(["NAME", "N", "WHY"]).right(&[1]);
        table.row(["a".into(), "7".into(), "because of this".into()]);
        table.row(["längere".into(), "12".into(), "short".into()]);
        assert_eq!(
            table.lines(Some(24)),
            ["NAME      N  WHY", "a         7  because of…", "längere  12  short"]
        );
        assert_eq!(table.lines(None)[1], "a         7  because of this");
    }
}
