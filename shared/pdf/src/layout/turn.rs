//! Turns a page whose text runs sideways or upside down, and its boxes back again.

use super::content::{Direction, PageContent};
use crate::page::Area;

/// How a page is turned so that most of its text runs to the right.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    direction: Direction,
    page: Area,
}

impl Turn {
    /// The turn that makes the direction of most glyphs run to the right.
    pub fn of(content: &PageContent) -> Self {
        let mut counts = [0_usize; 4];
        for line in &content.lines {
            counts[line.direction as usize] += line.glyphs.len();
        }
        let most = [Direction::Down, Direction::Left, Direction::Up]
            .into_iter()
            .filter(|direction| counts[*direction as usize] > counts[0])
            .max_by_key(|direction| counts[*direction as usize]);
        Self { direction: most.unwrap_or_default(), page: content.page }
    }

    pub fn is_none(&self) -> bool {
        self.direction == Direction::Right
    }

    /// The area on the upright page.
    fn upright(&self, area: &Area) -> Area {
        let Area { x0, y0, x1, y1 } = *area;
        let p = &self.page;
        match self.direction {
            Direction::Right => *area,
            // Text runs down: its line's start is at the top, its first line at the right.
            Direction::Down => Area::new(y0 - p.y0, p.x1 - x1, y1 - p.y0, p.x1 - x0),
            Direction::Left => Area::new(p.x1 - x1, p.y1 - y1, p.x1 - x0, p.y1 - y0),
            Direction::Up => Area::new(p.y1 - y1, x0 - p.x0, p.y1 - y0, x1 - p.x0),
        }
    }

    /// The area on the page as it is in the file.
    pub fn original(&self, area: &Area) -> Area {
        let Area { x0, y0, x1, y1 } = *area;
        let p = &self.page;
        match self.direction {
            Direction::Right => *area,
            Direction::Down => Area::new(p.x1 - y1, x0 + p.y0, p.x1 - y0, x1 + p.y0),
            Direction::Left => Area::new(p.x1 - x1, p.y1 - y1, p.x1 - x0, p.y1 - y0),
            Direction::Up => Area::new(y0 + p.x0, p.y1 - x1, y1 + p.x0, p.y1 - x0),
        }
    }

    pub fn apply(&self, content: &mut PageContent) {
        if self.is_none() {
            return;
        }
        for line in &mut content.lines {
            line.direction = relative(line.direction, self.direction);
            for glyph in &mut line.glyphs {
                glyph.area = self.upright(&glyph.area);
                // Descenders are about a fifth of the height.
                glyph.baseline = glyph.area.y1 - 0.2 * glyph.area.height();
            }
        }
        let areas = content
            .rules
            .iter_mut()
            .chain(&mut content.fills)
            .chain(&mut content.images)
            .chain(&mut content.marks);
        let clusters =
            content.clusters.iter_mut().flat_map(|cluster| [&mut cluster.area, &mut cluster.stroke_area]);
        for area in areas.chain(clusters).chain(content.tags.iter_mut().map(|tag| &mut tag.area)) {
            *area = self.upright(area);
        }
        for field in &mut content.fields {
            field.area = self.upright(&field.area);
        }
        content.page = self.upright(&content.page);
    }
}

fn relative(direction: Direction, turn: Direction) -> Direction {
    const ALL: [Direction; 4] = [Direction::Right, Direction::Down, Direction::Left, Direction::Up];
    ALL[(direction as usize + 4 - turn as usize) % 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_returns_to_its_place() {
        let page = Area::new(0.0, 0.0, 600.0, 800.0);
        let area = Area::new(10.0, 20.0, 30.0, 200.0);
        for direction in [Direction::Right, Direction::Down, Direction::Left, Direction::Up] {
            let turn = Turn { direction, page };
            assert_eq!(turn.original(&turn.upright(&area)), area, "{direction:?}");
        }
        let up = Turn { direction: Direction::Up, page };
        let upright = up.upright(&area);
        assert!(upright.width() > upright.height() && upright.y0 == 10.0, "{upright:?}");
    }
}
