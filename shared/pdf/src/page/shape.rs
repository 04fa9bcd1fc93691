//! The shape of one painted path: a rule, a box or a drawing.

use mupdf::{Matrix, PathWalker};

use super::geometry::Area;

/// Up to this thickness a bar is a line: thicker than any table rule, thinner than any letter.
pub(super) const MAX_RULE_POINTS: f32 = 3.0;
/// Segments with a smaller offset are horizontal or vertical; PDF producers round coordinates.
const MAX_LEVEL_OFFSET_POINTS: f32 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A line, an underline, a side of a border.
    Rule,
    /// A rectangle, with or without rounded corners, or several in one path.
    Box,
    /// Slanted or curved: a curve of a chart, an arrow. `strokes` is the number of its segments.
    Drawing { strokes: u32 },
}

/// Walks a path and determines its shape and area on the page.
pub(crate) struct ShapeDetector {
    ctm: Matrix,
    start: (f32, f32),
    at: (f32, f32),
    level_length: f32,
    slanted: u32,
    curves: u32,
    widest_curve: f32,
    pub area: Area,
    part: Area,
    /// The separate parts of the path, up to `max_parts`.
    pub parts: Vec<Area>,
    max_parts: usize,
    /// Horizontal and vertical segments, up to `max_segments`.
    pub segments: Vec<Area>,
    max_segments: usize,
}

impl ShapeDetector {
    pub fn new(ctm: Matrix, max_parts: usize, max_segments: usize) -> Self {
        Self {
            ctm,
            start: (0.0, 0.0),
            at: (0.0, 0.0),
            level_length: 0.0,
            slanted: 0,
            curves: 0,
            widest_curve: 0.0,
            area: Area::empty(),
            part: Area::empty(),
            parts: Vec::new(),
            max_parts,
            segments: Vec::new(),
            max_segments,
        }
    }

    pub fn finish(&mut self) -> Shape {
        self.end_part();
        if self.slanted == 0 && self.curves == 0 {
            return if self.area.shorter() <= MAX_RULE_POINTS { Shape::Rule } else { Shape::Box };
        }
        if self.area.shorter() <= MAX_RULE_POINTS {
            return Shape::Rule; // a wavy underline, a dotted leader
        }
        let curves_only_corners = self.slanted == 0 && self.widest_curve <= 0.3 * self.area.longer();
        let is_mostly_level = self.level_length >= 0.5 * (self.area.width() + self.area.height());
        if curves_only_corners && is_mostly_level {
            return Shape::Box;
        }
        Shape::Drawing { strokes: self.slanted + self.curves }
    }

    fn end_part(&mut self) {
        if self.part.is_valid() {
            self.area = self.area.union(&self.part);
            if self.parts.len() < self.max_parts {
                self.parts.push(self.part);
            }
        }
        self.part = Area::empty();
    }

    fn to_page(&self, x: f32, y: f32) -> (f32, f32) {
        let m = &self.ctm;
        (x * m.a + y * m.c + m.e, x * m.b + y * m.d + m.f)
    }

    fn segment(&mut self, to: (f32, f32)) {
        let (dx, dy) = ((to.0 - self.at.0).abs(), (to.1 - self.at.1).abs());
        if dx > MAX_LEVEL_OFFSET_POINTS && dy > MAX_LEVEL_OFFSET_POINTS {
            self.slanted += 1;
        } else {
            self.level_length += dx.max(dy);
            if self.segments.len() < self.max_segments && dx.max(dy) > 3.0 {
                let mut segment = Area::empty();
                segment.include(self.at.0, self.at.1);
                segment.include(to.0, to.1);
                self.segments.push(segment);
            }
        }
        self.part.include(self.at.0, self.at.1);
        self.part.include(to.0, to.1);
        self.at = to;
    }
}

impl PathWalker for ShapeDetector {
    fn move_to(&mut self, x: f32, y: f32) {
        self.end_part();
        self.at = self.to_page(x, y);
        self.start = self.at;
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let to = self.to_page(x, y);
        self.segment(to);
    }

    fn curve_to(&mut self, cx1: f32, cy1: f32, cx2: f32, cy2: f32, ex: f32, ey: f32) {
        let mut span = Area::empty();
        span.include(self.at.0, self.at.1);
        for (x, y) in [self.to_page(cx1, cy1), self.to_page(cx2, cy2), self.to_page(ex, ey)] {
            span.include(x, y);
        }
        self.curves += 1;
        self.widest_curve = self.widest_curve.max(span.longer());
        self.part = self.part.union(&span);
        self.at = self.to_page(ex, ey);
    }

    fn close(&mut self) {
        if self.part.is_valid() {
            let start = self.start;
            self.segment(start);
        }
        self.end_part();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(draw: impl Fn(&mut ShapeDetector)) -> Shape {
        let mut detector = ShapeDetector::new(Matrix::IDENTITY, 8, 0);
        draw(&mut detector);
        detector.finish()
    }

    #[test]
    fn lines_and_thin_bars_are_rules() {
        assert_eq!(
            shape(|d| {
                d.move_to(0.0, 0.0);
                d.line_to(400.0, 0.2);
            }),
            Shape::Rule
        );
        assert_eq!(shape(|d| d.rect(0.0, 0.0, 400.0, 1.0)), Shape::Rule);
    }

    #[test]
    fn rounded_boxes_are_boxes_and_circles_are_drawings() {
        let rounded = |d: &mut ShapeDetector| {
            d.move_to(10.0, 0.0);
            d.line_to(190.0, 0.0);
            d.curve_to(195.0, 0.0, 200.0, 5.0, 200.0, 10.0);
            d.line_to(200.0, 40.0);
            d.curve_to(200.0, 45.0, 195.0, 50.0, 190.0, 50.0);
            d.line_to(10.0, 50.0);
            d.curve_to(5.0, 50.0, 0.0, 45.0, 0.0, 40.0);
            d.line_to(0.0, 10.0);
            d.curve_to(0.0, 5.0, 5.0, 0.0, 10.0, 0.0);
            d.close();
        };
        assert_eq!(shape(rounded), Shape::Box);
        let circle = |d: &mut ShapeDetector| {
            d.move_to(100.0, 50.0);
            d.curve_to(100.0, 78.0, 78.0, 100.0, 50.0, 100.0);
            d.curve_to(22.0, 100.0, 0.0, 78.0, 0.0, 50.0);
            d.curve_to(0.0, 22.0, 22.0, 0.0, 50.0, 0.0);
            d.curve_to(78.0, 0.0, 100.0, 22.0, 100.0, 50.0);
        };
        assert_eq!(shape(circle), Shape::Drawing { strokes: 4 });
    }

    #[test]
    fn each_rectangle_of_a_path_is_a_part() {
        let mut bars = ShapeDetector::new(Matrix::new_scale(2.0, 2.0), 8, 0);
        bars.rect(0.0, 0.0, 10.0, 30.0);
        bars.rect(20.0, 10.0, 30.0, 30.0);
        assert_eq!(bars.finish(), Shape::Box);
        assert_eq!(bars.parts, [Area::new(0.0, 0.0, 20.0, 60.0), Area::new(40.0, 20.0, 60.0, 60.0)]);
    }
}
