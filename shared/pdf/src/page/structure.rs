//! The structure elements around the text of a tagged PDF.

use std::hash::{DefaultHasher, Hash, Hasher};

use mupdf::{Matrix, Text, device::Structure};

use super::geometry::Area;
use crate::layout::content::{TagRole, TaggedRun};

/// More runs on a page are an attack; the layout then does without the rest.
const MAX_RUNS: usize = 20_000;
/// Deeper nesting is an attack too.
const MAX_DEPTH: usize = 64;

/// The open elements, from the root on.
#[derive(Default)]
pub(super) struct StructureStack {
    open: Vec<Element>,
    /// Number of open elements beyond the deepest that is kept.
    overflow: usize,
}

#[derive(Clone, Copy)]
struct Element {
    structure: Structure,
    /// Identifies the element by its path from the root: an element is left and entered again.
    path: u32,
}

impl StructureStack {
    pub fn begin(&mut self, structure: Structure, index: i32) {
        if self.open.len() >= MAX_DEPTH {
            self.overflow += 1;
            return;
        }
        let mut hasher = DefaultHasher::new();
        let parent = self.open.last().map_or(0, |element| element.path);
        (parent, structure as i32, index).hash(&mut hasher);
        self.open.push(Element { structure, path: hasher.finish() as u32 });
    }

    pub fn end(&mut self) {
        if self.overflow > 0 {
            self.overflow -= 1;
        } else {
            self.open.pop();
        }
    }

    /// Records the text of a drawing command, line by line.
    pub fn record(&self, text: &Text, ctm: Matrix, runs: &mut Vec<TaggedRun>) {
        let Some((role, element)) = self.role() else { return };
        for span in text.spans() {
            let trm = span.trm();
            let to_page = |x: f32, y: f32| (x * ctm.a + y * ctm.c, x * ctm.b + y * ctm.d);
            let (along, up) = (to_page(trm.a, trm.b), to_page(trm.c, trm.d));
            let mut area = Area::empty();
            let mut last: Option<(f32, f32)> = None;
            let size = up.0.hypot(up.1);
            for item in span.items() {
                let (x, y) = to_page(item.x(), item.y());
                let (x, y) = (x + ctm.e, y + ctm.f);
                let is_new_line = last.is_some_and(|last| {
                    // The distance from the line through the last glyph.
                    let length = along.0.hypot(along.1).max(f32::EPSILON);
                    ((x - last.0) * along.1 - (y - last.1) * along.0).abs() / length > 0.3 * size
                });
                if is_new_line {
                    push(runs, area, role, element);
                    area = Area::empty();
                }
                area.include(x - 0.2 * up.0, y - 0.2 * up.1);
                area.include(x + 0.6 * along.0 + 0.75 * up.0, y + 0.6 * along.1 + 0.75 * up.1);
                last = Some((x, y));
            }
            push(runs, area, role, element);
        }
    }

    /// The role of the text in the innermost element that has one.
    fn role(&self) -> Option<(TagRole, u32)> {
        let find = |wanted: &[Structure]| {
            self.open
                .iter()
                .rev()
                .find(|element| wanted.contains(&element.structure))
                .map(|element| element.path)
        };
        let is_cell = |element: &&Element| matches!(element.structure, Structure::TD | Structure::TH);
        if let Some(cell) = self.open.iter().rev().find(is_cell) {
            let (table, row) = (find(&[Structure::Table])?, find(&[Structure::TR])?);
            let is_head = cell.structure == Structure::TH;
            return Some((TagRole::Cell { table, row, is_head }, cell.path));
        }
        let sections = self.open.iter().filter(|element| element.structure == Structure::Sect).count();
        for element in self.open.iter().rev() {
            let role = match element.structure {
                Structure::H1 | Structure::Title => TagRole::Heading(1),
                Structure::H2 => TagRole::Heading(2),
                Structure::H3 => TagRole::Heading(3),
                Structure::H4 => TagRole::Heading(4),
                Structure::H5 => TagRole::Heading(5),
                Structure::H6 => TagRole::Heading(6),
                Structure::H => TagRole::Heading(sections.clamp(1, 6) as u8),
                Structure::Caption => TagRole::Caption,
                Structure::Note | Structure::FENote => TagRole::Note,
                Structure::ListItem => TagRole::ListItem,
                Structure::P if find(&[Structure::ListItem]).is_none() => TagRole::Paragraph,
                Structure::Figure => TagRole::Figure,
                _ => continue,
            };
            return Some((role, element.path));
        }
        None
    }
}

fn push(runs: &mut Vec<TaggedRun>, area: Area, role: TagRole, element: u32) {
    if area.is_valid() && runs.len() < MAX_RUNS {
        runs.push(TaggedRun { area, role, element });
    }
}
