//! Text that lies on its side or upside down: from the page as it is to the page turned upright, and back.

use super::geometry::Area;

/// The size of a page, in points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sheet {
    pub width: f32,
    pub height: f32,
}

impl Sheet {
    /// Where an area is once the page is turned clockwise by 90 degrees `turns` times.
    pub fn upright(&self, area: Area, turns: u8) -> Area {
        let Area { x0, y0, x1, y1 } = area;
        let (w, h) = (self.width, self.height);
        match turns % 4 {
            1 => Area::new(h - y1, x0, h - y0, x1),
            2 => Area::new(w - x1, h - y1, w - x0, h - y0),
            3 => Area::new(y0, w - x1, y1, w - x0),
            _ => area,
        }
    }

    /// The reverse of [`Sheet::upright`].
    pub fn original(&self, area: Area, turns: u8) -> Area {
        let Area { x0, y0, x1, y1 } = area;
        let (w, h) = (self.width, self.height);
        match turns % 4 {
            1 => Area::new(y0, h - x1, y1, h - x0),
            2 => Area::new(w - x1, h - y1, w - x0, h - y0),
            3 => Area::new(w - y1, x0, w - y0, x1),
            _ => area,
        }
    }

    /// [`Sheet::original`] as the six numbers of a PDF matrix.
    pub fn matrix(&self, turns: u8) -> [f32; 6] {
        let (w, h) = (self.width, self.height);
        match turns % 4 {
            1 => [0.0, -1.0, 1.0, 0.0, 0.0, h],
            2 => [-1.0, 0.0, 0.0, -1.0, w, h],
            3 => [0.0, 1.0, -1.0, 0.0, w, 0.0],
            _ => [1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_turned_upright_and_back_is_where_it_was() {
        let sheet = Sheet { width: 600.0, height: 800.0 };
        let area = Area::new(10.0, 20.0, 110.0, 40.0);
        for turns in 0..4 {
            let upright = sheet.upright(area, turns);
            assert_eq!(sheet.original(upright, turns), area, "{turns} turns");
            let [a, b, c, d, e, f] = sheet.matrix(turns);
            let mut mapped = Area::empty();
            for (x, y) in [(upright.x0, upright.y0), (upright.x1, upright.y1)] {
                mapped.include(a * x + c * y + e, b * x + d * y + f);
            }
            assert_eq!(mapped, area, "{turns} turns");
        }
    }
}
