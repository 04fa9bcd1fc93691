//! What is painted on a page besides letters: images, boxes and drawings, seen as MuPDF plays it.

use std::{cell::RefCell, rc::Rc};

use mupdf::{Device, DisplayList, Matrix, Rect, TextPageFlags, text_page::TextBlockType};

use super::{geometry::Area, recorder::Recorder};

/// More marks than this tell nothing new: the page is a map or a drawing.
pub(super) const MAX_MARKS: usize = 20_000;

/// A filled rectangle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub area: Area,
    /// Strong enough in color to be a bar of a chart; pale boxes are backgrounds.
    pub strong: bool,
}

/// A slanted or curved path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    pub area: Area,
    pub strokes: u32,
    pub filled: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub page: Area,
    pub images: Vec<Area>,
    pub fills: Vec<Fill>,
    pub drawn: Vec<Drawn>,
    /// Something can be seen, if only a line; a page-wide background alone is nothing.
    pub painted: bool,
    /// Runs of letters shown, and runs written invisibly as OCR does.
    pub shown_text: u32,
    pub hidden_text: u32,
}

impl Marks {
    /// Plays the page to a device of ours. A device callback of the `mupdf` crate aborts the process
    /// when a tag's name is not UTF-8; see [`Marks::collect_carefully`].
    pub fn collect(list: &DisplayList, page: Area) -> Result<Self, mupdf::Error> {
        let recorder = Rc::new(RefCell::new(Recorder::new(page)));
        let device = Device::from_native(Rc::clone(&recorder))?;
        list.run(&device, &Matrix::IDENTITY, Rect::new(page.x0, page.y0, page.x1, page.y1))?;
        drop(device);
        Ok(std::mem::take(&mut recorder.borrow_mut().marks))
    }

    /// A coarser look without callbacks, for pages on which [`Marks::collect`] died. It sees only
    /// the extent of vector graphics, so any sizeable one counts as drawn.
    pub fn collect_carefully(list: &DisplayList, page: Area) -> Result<Self, mupdf::Error> {
        let mut marks = Self { page, shown_text: 1, ..Self::default() };
        let flags = TextPageFlags::PRESERVE_IMAGES | TextPageFlags::COLLECT_VECTORS | TextPageFlags::CLIP;
        for block in list.to_text_page(flags)?.blocks() {
            let area = Area::from(block.bounds()).intersect(&page);
            match block.r#type() {
                TextBlockType::Image => marks.add_image(area),
                TextBlockType::Vector if area.is_valid() => {
                    marks.painted = true;
                    if area.shorter() > 24.0 && marks.drawn.len() < MAX_MARKS {
                        marks.drawn.push(Drawn { area, strokes: 3, filled: true });
                    }
                }
                _ => {}
            }
        }
        Ok(marks)
    }

    pub(super) fn add_image(&mut self, area: Area) {
        if area.is_valid() && area.size() > 0.0 {
            self.painted = true;
            if self.images.len() < MAX_MARKS {
                self.images.push(area);
            }
        }
    }
}
