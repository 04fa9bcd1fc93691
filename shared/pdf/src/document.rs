//! A document opened in this process.

use std::path::Path;

use everypage_core::{
    document::{
        Classification, Confidence, LayerSpan, MAX_IMAGES, PageBox, PageReading, Reason, WithoutImages,
        place, plain_text,
    },
    ids::PageNumber,
    ports::pdf::{PageLayer, PdfError, PdfLimits, ReadOptions, RenderPages},
    secret::Secret,
};
use mupdf::{
    DisplayList,
    pdf::{PdfDocument, PdfPage},
};

use crate::{
    image::ImageFile,
    layout::{self, PageLayout, content::Field},
    page::{self, Area, Drawing, Graphics, TextContent},
    precheck, searchable,
};

const PDF_MEDIA_TYPE: &str = "application/pdf";

/// More text on one page is an attack: War and Peace has 3 MB.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// Larger drawings are no check marks, and a page with more small ones is no form.
const MAX_MARK_POINTS: f32 = 24.0;
const MAX_MARKS: usize = 2_000;

/// How a page's graphics are collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    #[default]
    Normal,
    /// Without device callbacks, the riskiest step: the parser crashed on this document before.
    Careful,
}

/// An open document. A hostile file can crash or stall the process that holds one: see
/// [`IsolatedPdf`](crate::IsolatedPdf).
pub struct Document {
    content: Content,
    pages: u32,
    limits: PdfLimits,
}

enum Content {
    Pdf(mupdf::Document),
    Image(ImageFile),
}

impl Document {
    /// Opens a file and checks the document-wide limits.
    pub fn open(file: &Path, password: Option<&Secret>, limits: &PdfLimits) -> Result<Self, PdfError> {
        precheck::check(file, limits)?;
        let unreadable = |error| PdfError::Unavailable(format!("the file can't be read: {error}"));
        Self::from_bytes(std::fs::read(file).map_err(unreadable)?, password, limits)
    }

    /// Opens a document in memory and checks the document-wide limits.
    pub fn from_bytes(
        bytes: Vec<u8>,
        password: Option<&Secret>,
        limits: &PdfLimits,
    ) -> Result<Self, PdfError> {
        let kind = precheck::kind(&bytes)?;
        let (content, pages) = match kind.is_image() {
            true => {
                let image = ImageFile::open(bytes, kind, limits)?;
                let pages = image.page_count();
                (Content::Image(image), pages)
            }
            false => {
                let (pdf, pages) = open_pdf(bytes, password)?;
                (Content::Pdf(pdf), pages)
            }
        };
        match pages {
            0 => Err(PdfError::NoPages),
            pages if pages > limits.max_pages => {
                Err(PdfError::TooManyPages { pages, limit: limits.max_pages })
            }
            pages => Ok(Self { content, pages, limits: *limits }),
        }
    }

    pub fn page_count(&self) -> u32 {
        self.pages
    }

    /// Reads a page. Never fails: an unreadable page is returned as `Unreadable` with its fault.
    pub fn read_page(&self, number: PageNumber, options: &ReadOptions, mode: ReadMode) -> PageReading {
        self.try_read(number, options, mode).unwrap_or_else(|fault| unreadable(number, fault))
    }

    /// Reads a page's text alone, without classification and image.
    pub fn text(&self, number: PageNumber) -> Result<String, String> {
        let (list, fields) = self.parse_with_fields(number)?;
        let area = Area::from(list.bounds());
        let (layout, _) = self.layout(&list, area, &Graphics::default(), fields)?;
        Ok(plain_text(&layout.blocks))
    }

    fn try_read(
        &self,
        number: PageNumber,
        options: &ReadOptions,
        mode: ReadMode,
    ) -> Result<PageReading, String> {
        let (list, fields) = match mode {
            ReadMode::Normal => self.parse_with_fields(number)?,
            ReadMode::Careful => (self.parse(number)?, Vec::new()),
        };
        let area = Area::from(list.bounds());
        let graphics = match mode {
            ReadMode::Normal => Graphics::collect(&list, area),
            ReadMode::Careful => Graphics::collect_carefully(&list, area),
        }
        .map_err(message)?;
        let (layout, text) = self.layout(&list, area, &graphics, fields)?;
        let reason = page::reason(&graphics, &text, &layout);
        // A truncated file still counts all its pages; a missing one must not be classified as blank.
        if reason == Reason::Blank && self.is_missing(number).map_err(message)? {
            return Err("the page is missing from the file, which is damaged or truncated".into());
        }
        let renders = match options.render {
            RenderPages::None => false,
            RenderPages::Graphics => reason.classification() == Classification::HasGraphics,
            RenderPages::All => true,
        };
        let (image, fault) = match renders.then(|| page::render(&list, &area, &options.style)).transpose() {
            Ok(image) => (image, None),
            Err(fault) => (None, Some(format!("the page could not be rendered: {fault}"))),
        };
        let images: Vec<PageBox> = graphics.images.iter().take(MAX_IMAGES).map(layout::page_box).collect();
        let (confidence, doubts) = page::confidence(reason, &graphics, &text, &layout);
        let without_images = page::reason_without_images(reason, &graphics, &text, &layout).map(|reason| {
            let (confidence, doubts) = page::confidence(reason, &graphics, &text, &layout);
            WithoutImages { reason, confidence, doubts }
        });
        Ok(PageReading {
            number,
            text: plain_text(&layout.blocks),
            page: layout::page_box(&area),
            blocks: layout.blocks,
            images,
            reason,
            confidence,
            doubts,
            without_images,
            image,
            fault,
        })
    }

    /// Makes a PDF with the text of the layers, invisible, on the pages that have no sound text of their own.
    pub fn into_searchable(self, layers: Vec<PageLayer>) -> Result<Vec<u8>, String> {
        let wanted: Vec<PageLayer> =
            layers.into_iter().filter_map(|layer| self.missing_text(layer)).collect();
        match self.content {
            Content::Pdf(pdf) => {
                let mut pdf = PdfDocument::try_from(pdf).map_err(message)?;
                searchable::add_layers(&mut pdf, &wanted)
            }
            Content::Image(image) => searchable::from_image(&image, &wanted),
        }
    }

    /// What the layer adds to the page's own sound text: nothing, if that has about as much. Of less, such as a stamp
    /// on a scan or the text around a picture, words whose places OCR does not know are added where it lacks them.
    fn missing_text(&self, layer: PageLayer) -> Option<PageLayer> {
        let Ok(list) = self.parse(layer.page) else { return Some(layer) };
        let Ok(text) = TextContent::extract(&list, Area::from(list.bounds())) else { return Some(layer) };
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
        let added: usize = layer.spans.iter().map(|span| span.texts().map(letters).sum::<usize>()).sum();
        let own = self.text(layer.page).map_or(0, |text| letters(&text));
        if !text.characters.has_text() || text.characters.is_garbage() {
            return Some(layer);
        }
        if own * 2 >= added {
            return None;
        }
        let is_placed = |span: &LayerSpan| matches!(span, LayerSpan::Line { .. });
        if layer.spans.iter().any(is_placed) {
            return Some(layer);
        }
        let whole = layer.spans.iter().flat_map(LayerSpan::texts).collect::<Vec<_>>().join("\n");
        let mut spans = place(&whole, &searchable::words_of(&text.content.lines));
        spans.retain(|span| !is_placed(span));
        (!spans.is_empty()).then_some(PageLayer { spans, ..layer })
    }

    /// Like [`Self::parse`], with the fields of a form.
    fn parse_with_fields(&self, number: PageNumber) -> Result<(DisplayList, Vec<Field>), String> {
        let list = self.parse(number)?;
        let Content::Pdf(pdf) = &self.content else { return Ok((list, Vec::new())) };
        let index = i32::try_from(number.get() - 1).unwrap_or(i32::MAX);
        // Text without its fields is better than no text.
        let page = pdf.load_page(index).and_then(PdfPage::try_from);
        Ok((list, page.map_or_else(|_| Vec::new(), |page| page::fields(&page))))
    }

    /// Parses the page once; text, graphics and image are all made from this display list.
    fn parse(&self, number: PageNumber) -> Result<DisplayList, String> {
        if number.get() > self.pages {
            return Err(format!("there is no page {number}: the document has {}", self.pages));
        }
        let index = i32::try_from(number.get() - 1).map_err(|_| format!("there is no page {number}"))?;
        match &self.content {
            Content::Pdf(pdf) => {
                let page = pdf.load_page(index).map_err(message)?;
                self.check_size(&page.bounds().map_err(message)?.into())?;
                page.to_display_list(true).map_err(message)
            }
            Content::Image(image) => {
                let page = image.page(number.get() as usize - 1)?;
                self.check_size(&page.bounds().into())?;
                Ok(page)
            }
        }
    }

    /// Whether the page's object or content is missing from the file.
    fn is_missing(&self, number: PageNumber) -> Result<bool, mupdf::Error> {
        let index = i32::try_from(number.get() - 1).unwrap_or(i32::MAX);
        let Content::Pdf(pdf) = &self.content else { return Ok(false) };
        let page = PdfPage::try_from(pdf.load_page(index)?)?.object();
        if !page.is_dict()? {
            return Ok(true);
        }
        let Some(contents) = page.get_dict("Contents")? else { return Ok(false) };
        if !contents.is_array()? {
            return Ok(!contents.is_stream()?);
        }
        for part in 0..i32::try_from(contents.len()?).unwrap_or(i32::MAX) {
            match contents.get_array(part)? {
                Some(part) if part.is_stream()? => return Ok(false),
                _ => {}
            }
        }
        Ok(contents.len()? > 0)
    }

    fn layout(
        &self,
        list: &DisplayList,
        area: Area,
        graphics: &Graphics,
        fields: Vec<Field>,
    ) -> Result<(PageLayout, TextContent), String> {
        let mut text = TextContent::extract(list, area).map_err(message)?;
        if text.bytes > MAX_TEXT_BYTES {
            let bytes = text.bytes;
            return Err(format!("the page has {bytes} bytes of text; the limit is {MAX_TEXT_BYTES}"));
        }
        let mut content = std::mem::take(&mut text.content);
        content.rules.clone_from(&graphics.rules);
        content.fills = graphics.fills.iter().map(|fill| fill.area).collect();
        content.images.clone_from(&graphics.images);
        let is_small = |drawing: &&Drawing| drawing.area.longer() <= MAX_MARK_POINTS;
        content.marks =
            graphics.drawings.iter().filter(is_small).take(MAX_MARKS).map(|drawing| drawing.area).collect();
        content.clusters = page::clusters(graphics, &text.lines, &[]);
        content.tags.clone_from(&graphics.tags);
        content.fields = fields;
        Ok((layout::read(content), text))
    }

    fn check_size(&self, area: &Area) -> Result<(), String> {
        let limit = self.limits.max_page_points;
        if area.longer() <= limit as f32 {
            return Ok(());
        }
        let meters = |points: f32| f64::from(points) / 72.0 * 0.0254;
        Err(format!(
            "the page measures {:.1} m x {:.1} m ({:.0} x {:.0} points); the limit is {limit} points (MAX_PAGE_POINTS)",
            meters(area.width()),
            meters(area.height()),
            area.width(),
            area.height(),
        ))
    }
}

fn open_pdf(bytes: Vec<u8>, password: Option<&Secret>) -> Result<(mupdf::Document, u32), PdfError> {
    let corrupt = |error| PdfError::Corrupt(message(error));
    let mut pdf = mupdf::Document::from_bytes(&bytes, PDF_MEDIA_TYPE).map_err(corrupt)?;
    // MuPDF has its own copy.
    drop(bytes);
    if !pdf.is_pdf() {
        return Err(PdfError::NotAPdf("its content has another format".into()));
    }
    if pdf.needs_password().map_err(corrupt)? {
        let password = password.ok_or(PdfError::PasswordNeeded)?;
        if !matches!(pdf.authenticate(password.expose()), Ok(true)) {
            return Err(PdfError::PasswordWrong);
        }
    }
    let pages = u32::try_from(pdf.page_count().map_err(corrupt)?).unwrap_or(0);
    Ok((pdf, pages))
}

pub(crate) fn unreadable(number: PageNumber, fault: String) -> PageReading {
    PageReading {
        number,
        text: String::new(),
        page: PageBox::default(),
        blocks: Vec::new(),
        images: Vec::new(),
        reason: Reason::Unreadable,
        confidence: Confidence::new(0.0),
        doubts: Vec::new(),
        without_images: None,
        image: None,
        fault: Some(fault),
    }
}

/// MuPDF's message without its wrapping, reworded where it is unclear.
pub(crate) fn message(error: mupdf::Error) -> String {
    let message = match error {
        mupdf::Error::MuPdf(error) => error.message,
        other => other.to_string(),
    };
    if message == "Invalid number of pages" {
        // MuPDF compares the page count with the number of objects in the file.
        return "it claims an impossible number of pages".into();
    }
    if message.contains("alloc") {
        return "the page needs more memory than is allowed".into();
    }
    message
}
