//! A MuPDF device that records what a page paints, where, and which part of it a clip leaves visible.

use std::num::NonZero;

use mupdf::{
    ColorParams, Colorspace, Image, Matrix, NativeDevice, Path, Rect, Shade, StrokeState, Text,
    device::Structure,
};

use super::{
    geometry::Area,
    graphics::{Drawing, Fill, Graphics, MAX_GRAPHICS},
    shape::{MAX_RULE_POINTS, Shape, ShapeDetector},
    structure::StructureStack,
};

/// Fainter paint is a watermark's shadow.
const MIN_ALPHA: f32 = 0.1;
/// An image from this share of the page on is a background, where text is painted over it.
const MIN_COVER_SHARE: f32 = 0.7;

pub(super) struct Recorder {
    pub graphics: Graphics,
    /// The visible area of each nested clip; the last one applies.
    clips: Vec<Area>,
    /// Number of nested soft masks; inside one nothing is painted.
    masks: u32,
    /// The areas that nested tiling patterns fill.
    tiles: Vec<Area>,
    structure: StructureStack,
    /// Whether an image that covers most of the page is painted.
    has_cover: bool,
}

impl Recorder {
    pub fn new(page: Area) -> Self {
        let graphics = Graphics { page, ..Graphics::default() };
        Self {
            graphics,
            clips: vec![page],
            masks: 0,
            tiles: Vec::new(),
            structure: StructureStack::default(),
            has_cover: false,
        }
    }

    fn visible(&self, area: Area) -> Area {
        match self.clips.last() {
            Some(clip) => area.intersect(clip),
            None => area,
        }
    }

    fn push_clip(&mut self, scissor: Rect) {
        let clip = self.visible(scissor.into());
        self.clips.push(clip);
    }

    fn image(&mut self, img: &Image, ctm: Matrix, alpha: f32) {
        if self.masks > 0 || alpha < MIN_ALPHA {
            return;
        }
        let corners = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)];
        let mut area = Area::empty();
        for (x, y) in corners {
            area.include(x * ctm.a + y * ctm.c + ctm.e, x * ctm.b + y * ctm.d + ctm.f);
        }
        let area = self.tiles.last().copied().unwrap_or_else(|| self.visible(area));
        // One or two pixels stretched over an area are a line or a tint, not an image.
        if img.width().min(img.height()) <= 2 || area.shorter() <= 4.0 {
            self.graphics.is_painted |= area.is_valid() && area.size() > 0.0 && !self.is_background(&area);
        } else {
            self.has_cover |= area.is_valid() && area.size() >= MIN_COVER_SHARE * self.graphics.page.size();
            self.graphics.add_image(area);
        }
    }

    fn path(&mut self, path: &Path, ctm: Matrix, ink: Ink, stroke: Option<f32>) {
        if self.masks > 0 || !self.tiles.is_empty() || ink.is_invisible {
            return;
        }
        let max_fills = MAX_GRAPHICS.saturating_sub(self.graphics.fills.len());
        let max_rules = MAX_GRAPHICS.saturating_sub(self.graphics.rules.len());
        let mut detector = match stroke {
            Some(_) => ShapeDetector::new(ctm, 0, max_rules),
            None => ShapeDetector::new(ctm, max_fills, 0),
        };
        if path.walk(&mut detector).is_err() {
            return;
        }
        let shape = detector.finish();
        if !detector.area.is_valid() {
            return;
        }
        let area = self.visible(detector.area.grown(stroke.unwrap_or(0.0) / 2.0));
        if !area.is_valid() || self.is_background(&area) {
            return;
        }
        self.graphics.is_painted = true;
        if shape == Shape::Rule && stroke.is_none() {
            self.add_rules(&detector.parts);
        } else if !matches!(shape, Shape::Drawing { .. }) {
            self.add_rules(&detector.segments);
        }
        match shape {
            Shape::Rule => {}
            Shape::Box => {
                for part in std::mem::take(&mut detector.parts) {
                    let area = self.visible(part);
                    // Several lines in one path are a box as a whole.
                    if area.is_valid() && area.shorter() <= MAX_RULE_POINTS {
                        self.add_rules(&[area]);
                    } else if area.is_valid() {
                        self.graphics.fills.push(Fill { area, is_dark: ink.is_dark });
                    }
                }
            }
            Shape::Drawing { strokes } if self.graphics.drawings.len() < MAX_GRAPHICS => {
                self.graphics.drawings.push(Drawing { area, strokes, is_filled: stroke.is_none() });
            }
            Shape::Drawing { .. } => {}
        }
    }

    fn add_rules(&mut self, lines: &[Area]) {
        for line in lines {
            let area = self.visible(*line);
            if area.is_valid() && self.graphics.rules.len() < MAX_GRAPHICS {
                self.graphics.rules.push(area);
            }
        }
    }

    fn is_background(&self, area: &Area) -> bool {
        area.size() >= 0.95 * self.graphics.page.size()
    }

    fn text(&mut self, is_hidden: bool) {
        if self.masks == 0 {
            let graphics = &mut self.graphics;
            let runs =
                if is_hidden { &mut graphics.hidden_text_runs } else { &mut graphics.visible_text_runs };
            *runs = runs.saturating_add(1);
            if !is_hidden && self.has_cover {
                self.graphics.text_runs_over_images = self.graphics.text_runs_over_images.saturating_add(1);
            }
        }
    }
}

struct Ink {
    /// White, or too faint to be visible.
    is_invisible: bool,
    is_dark: bool,
}

fn ink(space: &Colorspace, color: &[f32], alpha: f32) -> Ink {
    let light = match *color {
        [gray] if space.is_gray() => gray,
        [r, g, b] if space.is_rgb() => 0.3 * r + 0.59 * g + 0.11 * b,
        [c, m, y, k] => (1.0 - k) * (1.0 - 0.3 * c - 0.59 * m - 0.11 * y),
        // Spot colors and others: a higher value is darker.
        _ => 1.0 - color.iter().copied().fold(0.0, f32::max),
    };
    Ink { is_invisible: alpha < MIN_ALPHA || light > 0.97, is_dark: light * alpha + (1.0 - alpha) < 0.85 }
}

impl NativeDevice for Recorder {
    fn fill_path(
        &mut self,
        path: &Path,
        _even_odd: bool,
        ctm: Matrix,
        space: &Colorspace,
        color: &[f32],
        alpha: f32,
        _: ColorParams,
    ) {
        self.path(path, ctm, ink(space, color, alpha), None);
    }

    fn stroke_path(
        &mut self,
        path: &Path,
        stroke: &StrokeState,
        ctm: Matrix,
        space: &Colorspace,
        color: &[f32],
        alpha: f32,
        _: ColorParams,
    ) {
        let width = stroke.line_width() * ctm.expansion();
        self.path(path, ctm, ink(space, color, alpha), Some(width));
    }

    fn clip_path(&mut self, _: &Path, _: bool, _: Matrix, scissor: Rect) {
        self.push_clip(scissor);
    }

    fn clip_stroke_path(&mut self, _: &Path, _: &StrokeState, _: Matrix, scissor: Rect) {
        self.push_clip(scissor);
    }

    fn fill_text(&mut self, text: &Text, ctm: Matrix, _: &Colorspace, _: &[f32], _: f32, _: ColorParams) {
        self.structure.record(text, ctm, &mut self.graphics.tags);
        self.text(false);
    }

    fn stroke_text(
        &mut self,
        _: &Text,
        _: &StrokeState,
        _: Matrix,
        _: &Colorspace,
        _: &[f32],
        _: f32,
        _: ColorParams,
    ) {
        self.text(false);
    }

    fn clip_text(&mut self, _: &Text, _: Matrix, scissor: Rect) {
        self.push_clip(scissor);
    }

    fn clip_stroke_text(&mut self, _: &Text, _: &StrokeState, _: Matrix, scissor: Rect) {
        self.push_clip(scissor);
    }

    fn ignore_text(&mut self, _: &Text, _: Matrix) {
        self.text(true);
    }

    /// A gradient is a background like any other fill, as large as the clip.
    fn fill_shade(&mut self, _: &Shade, _: Matrix, alpha: f32, _: ColorParams) {
        let area = self.visible(self.graphics.page);
        if self.masks == 0 && alpha >= MIN_ALPHA && area.is_valid() && !self.is_background(&area) {
            self.graphics.is_painted = true;
        }
    }

    fn fill_image(&mut self, img: &Image, ctm: Matrix, alpha: f32, _: ColorParams) {
        self.image(img, ctm, alpha);
    }

    fn fill_image_mask(
        &mut self,
        img: &Image,
        ctm: Matrix,
        _: &Colorspace,
        _: &[f32],
        alpha: f32,
        _: ColorParams,
    ) {
        self.image(img, ctm, alpha);
    }

    fn clip_image_mask(&mut self, _: &Image, _: Matrix, scissor: Rect) {
        self.push_clip(scissor);
    }

    fn pop_clip(&mut self) {
        if self.clips.len() > 1 {
            self.clips.pop();
        }
    }

    fn begin_mask(&mut self, area: Rect, _: bool, _: &Colorspace, _: &[f32], _: ColorParams) {
        self.push_clip(area);
        self.masks += 1;
    }

    /// The mask stays in force as a clip, which `pop_clip` ends.
    fn end_mask(&mut self, _: &mupdf::Function) {
        self.masks = self.masks.saturating_sub(1);
    }

    fn begin_tile(
        &mut self,
        area: Rect,
        _view: Rect,
        _x_step: f32,
        _y_step: f32,
        ctm: Matrix,
        _id: Option<NonZero<i32>>,
        _doc_id: Option<NonZero<i32>>,
    ) -> Option<NonZero<i32>> {
        let filled = self.visible(area.transform(&ctm).into());
        self.graphics.is_painted |= self.masks == 0 && filled.is_valid() && !self.is_background(&filled);
        self.tiles.push(filled);
        None
    }

    fn end_tile(&mut self) {
        self.tiles.pop();
    }

    fn begin_structure(&mut self, standard: Structure, _raw: &str, index: i32) {
        self.structure.begin(standard, index);
    }

    fn end_structure(&mut self) {
        self.structure.end();
    }
}
