//! Rectangles on a page, in points from its upper left corner.

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Area {
    pub x0: f32,
    pub y0: f32,
    pub x1: f32,
    pub y1: f32,
}

impl Area {
    pub fn new(x0: f32, y0: f32, x1: f32, y1: f32) -> Self {
        Self { x0, y0, x1, y1 }
    }
    /// The neutral element of a union.
    pub fn empty() -> Self {
        Self::new(f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY)
    }
    pub fn width(&self) -> f32 {
        (self.x1 - self.x0).max(0.0)
    }
    pub fn height(&self) -> f32 {
        (self.y1 - self.y0).max(0.0)
    }
    pub fn size(&self) -> f32 {
        self.width() * self.height()
    }
    pub fn shorter(&self) -> f32 {
        self.width().min(self.height())
    }
    pub fn longer(&self) -> f32 {
        self.width().max(self.height())
    }
    /// False for an area outside of a clip, and for coordinates that are not numbers.
    pub fn is_valid(&self) -> bool {
        self.x0 <= self.x1 && self.y0 <= self.y1
    }
    pub fn include(&mut self, x: f32, y: f32) {
        self.x0 = self.x0.min(x);
        self.y0 = self.y0.min(y);
        self.x1 = self.x1.max(x);
        self.y1 = self.y1.max(y);
    }
    pub fn union(&self, other: &Self) -> Self {
        Self::new(self.x0.min(other.x0), self.y0.min(other.y0), self.x1.max(other.x1), self.y1.max(other.y1))
    }
    pub fn intersect(&self, other: &Self) -> Self {
        Self::new(self.x0.max(other.x0), self.y0.max(other.y0), self.x1.min(other.x1), self.y1.min(other.y1))
    }
    pub fn grown(&self, by: f32) -> Self {
        Self::new(self.x0 - by, self.y0 - by, self.x1 + by, self.y1 + by)
    }
    pub fn contains(&self, x: f32, y: f32) -> bool {
        (self.x0..=self.x1).contains(&x) && (self.y0..=self.y1).contains(&y)
    }
    pub fn center(&self) -> (f32, f32) {
        ((self.x0 + self.x1) / 2.0, (self.y0 + self.y1) / 2.0)
    }
}

impl From<mupdf::Rect> for Area {
    fn from(rect: mupdf::Rect) -> Self {
        Self::new(rect.x0, rect.y0, rect.x1, rect.y1)
    }
}
