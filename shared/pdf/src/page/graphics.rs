//! The images, boxes and drawings of a page, collected from MuPDF's display list.

use std::{cell::RefCell, rc::Rc};

use mupdf::{Device, DisplayList, Matrix, Rect, TextPageFlags, text_page::TextBlockType};

use super::{geometry::Area, recorder::Recorder};
use crate::layout::content::TaggedRun;

/// More graphics of one kind add no information: the page is a map or a drawing.
pub(super) const MAX_GRAPHICS: usize = 20_000;

/// A filled rectangle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub area: Area,
    /// Dark enough to be a bar of a chart; pale boxes are backgrounds.
    pub is_dark: bool,
}

/// A slanted or curved path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing {
    pub area: Area,
    pub strokes: u32,
    pub is_filled: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Graphics {
    pub page: Area,
    pub images: Vec<Area>,
    pub fills: Vec<Fill>,
    /// Thin horizontal and vertical lines, and the sides of frames.
    pub rules: Vec<Area>,
    /// Runs of text with the structure element around them.
    pub tags: Vec<TaggedRun>,
    pub drawings: Vec<Drawing>,
    /// Whether anything is visible, even a single line; a page-wide background does not count.
    pub is_painted: bool,
    /// Number of visible text runs, and of invisible ones, as OCR layers have.
    pub visible_text_runs: u32,
    pub hidden_text_runs: u32,
    /// Number of visible text runs that are painted after an image that covers most of the page.
    pub text_runs_over_images: u32,
}

impl Graphics {
    /// Runs the display list on a [`Recorder`]. A device callback of the `mupdf` crate aborts the
    /// process when a tag's name is not UTF-8; see [`Graphics::collect_carefully`].
    pub fn collect(list: &DisplayList, page: Area) -> Result<Self, mupdf::Error> {
        let recorder = Rc::new(RefCell::new(Recorder::new(page)));
        let device = Device::from_native(Rc::clone(&recorder))?;
        list.run(&device, &Matrix::IDENTITY, Rect::new(page.x0, page.y0, page.x1, page.y1))?;
        drop(device);
        Ok(std::mem::take(&mut recorder.borrow_mut().graphics))
    }

    /// Collects graphics without callbacks, for pages on which [`Graphics::collect`] crashed. It knows
    /// only the extent of vector graphics, so any large one counts as a drawing.
    pub fn collect_carefully(list: &DisplayList, page: Area) -> Result<Self, mupdf::Error> {
        let mut graphics = Self { page, visible_text_runs: 1, ..Self::default() };
        let flags = TextPageFlags::PRESERVE_IMAGES | TextPageFlags::COLLECT_VECTORS | TextPageFlags::CLIP;
        for block in list.to_text_page(flags)?.blocks() {
            let area = Area::from(block.bounds()).intersect(&page);
            match block.r#type() {
                TextBlockType::Image => graphics.add_image(area),
                TextBlockType::Vector if area.is_valid() => {
                    graphics.is_painted = true;
                    if area.shorter() > 24.0 && graphics.drawings.len() < MAX_GRAPHICS {
                        graphics.drawings.push(Drawing { area, strokes: 3, is_filled: true });
                    }
                }
                _ => {}
            }
        }
        Ok(graphics)
    }

    pub(super) fn add_image(&mut self, area: Area) {
        if area.is_valid() && area.size() > 0.0 {
            self.is_painted = true;
            if self.images.len() < MAX_GRAPHICS {
                self.images.push(area);
            }
        }
    }
}
