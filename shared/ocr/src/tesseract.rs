//! Tesseract's C interface, as far as it is needed. The only unsafe code of this program.
//!
//! A failure inside of Tesseract ends the process: that is why recognition has a process of its own.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::Path,
    ptr::NonNull,
    time::Duration,
};

use crate::{
    picture::Picture,
    wire::{Box, Word},
};

#[repr(C)]
struct Api(c_void);
#[repr(C)]
struct Iterator(c_void);
#[repr(C)]
struct Monitor(c_void);

const LSTM_ONLY: c_int = 1;
/// Columns and blocks are found by Tesseract; the turn of the page is found here.
const SEGMENT_AUTOMATICALLY: c_int = 3;

#[derive(Clone, Copy)]
#[repr(i32)]
enum Level {
    Block = 0,
    Line = 2,
    Word = 3,
}

unsafe extern "C" {
    fn fz_set_leptonica_mem(context: *mut mupdf_sys::fz_context);

    fn TessBaseAPICreate() -> *mut Api;
    fn TessBaseAPIDelete(api: *mut Api);
    fn TessBaseAPIInit2(api: *mut Api, data: *const c_char, languages: *const c_char, engine: c_int)
    -> c_int;
    fn TessBaseAPISetPageSegMode(api: *mut Api, mode: c_int);
    fn TessBaseAPISetImage(
        api: *mut Api,
        pixels: *const u8,
        width: c_int,
        height: c_int,
        bytes_per_pixel: c_int,
        bytes_per_line: c_int,
    );
    fn TessBaseAPISetSourceResolution(api: *mut Api, dpi: c_int);
    fn TessBaseAPIRecognize(api: *mut Api, monitor: *mut Monitor) -> c_int;
    fn TessBaseAPIGetIterator(api: *mut Api) -> *mut Iterator;
    fn TessBaseAPIClear(api: *mut Api);

    fn TessMonitorCreate() -> *mut Monitor;
    fn TessMonitorDelete(monitor: *mut Monitor);
    fn TessMonitorSetDeadlineMSecs(monitor: *mut Monitor, milliseconds: c_int);

    fn TessResultIteratorDelete(iterator: *mut Iterator);
    fn TessResultIteratorNext(iterator: *mut Iterator, level: c_int) -> c_int;
    fn TessResultIteratorGetUTF8Text(iterator: *const Iterator, level: c_int) -> *mut c_char;
    fn TessResultIteratorConfidence(iterator: *const Iterator, level: c_int) -> f32;
    fn TessResultIteratorWordFontAttributes(
        iterator: *const Iterator,
        is_bold: *mut c_int,
        is_italic: *mut c_int,
        is_underlined: *mut c_int,
        is_monospace: *mut c_int,
        is_serif: *mut c_int,
        is_smallcaps: *mut c_int,
        point_size: *mut c_int,
        font: *mut c_int,
    ) -> *const c_char;
    fn TessDeleteText(text: *mut c_char);
    // A result iterator is a page iterator by inheritance; the C interface has a cast for it.
    fn TessResultIteratorGetPageIterator(iterator: *mut Iterator) -> *mut Iterator;
    fn TessPageIteratorIsAtBeginningOf(iterator: *const Iterator, level: c_int) -> c_int;
    fn TessPageIteratorBoundingBox(
        iterator: *const Iterator,
        level: c_int,
        left: *mut c_int,
        top: *mut c_int,
        right: *mut c_int,
        bottom: *mut c_int,
    ) -> c_int;
}

/// Tesseract with its languages loaded. One per process: Leptonica's allocator is global.
pub struct Tesseract {
    api: NonNull<Api>,
}

impl Tesseract {
    /// Loads `languages` (`eng+deu`) from the folder `data`.
    pub fn load(data: &Path, languages: &str) -> Result<Self, String> {
        let text = |value: &str| CString::new(value).map_err(|_| "a name contains a zero byte".to_owned());
        let (folder, names) = (text(&data.to_string_lossy())?, text(languages)?);
        // SAFETY: the context lives until the process ends, and nothing else uses Leptonica.
        let api = unsafe {
            let context = mupdf_sys::mupdf_new_base_context();
            if context.is_null() {
                return Err("out of memory".into());
            }
            fz_set_leptonica_mem(context);
            TessBaseAPICreate()
        };
        let loaded = Self { api: NonNull::new(api).ok_or("out of memory")? };
        // SAFETY: `api` is valid, and the strings outlive the call.
        let status =
            unsafe { TessBaseAPIInit2(loaded.api.as_ptr(), folder.as_ptr(), names.as_ptr(), LSTM_ONLY) };
        if status != 0 {
            return Err(format!("no usable language data for {languages:?} in {}", data.display()));
        }
        // SAFETY: `api` is valid.
        unsafe { TessBaseAPISetPageSegMode(loaded.api.as_ptr(), SEGMENT_AUTOMATICALLY) };
        Ok(loaded)
    }

    /// The words of a picture, in Tesseract's reading order. After `time` those found so far.
    pub fn words(&mut self, picture: &Picture, dpi: u32, time: Duration) -> Vec<Word> {
        let size = |value: usize| c_int::try_from(value).unwrap_or(0);
        let (width, height) = (size(picture.width), size(picture.height));
        if width == 0 || height == 0 {
            return Vec::new();
        }
        let api = self.api.as_ptr();
        // SAFETY: the picture has `width * height` bytes, and Tesseract copies them in `SetImage`. The
        // monitor and the iterator are deleted after their last use.
        unsafe {
            TessBaseAPISetImage(api, picture.pixels.as_ptr(), width, height, 1, width);
            TessBaseAPISetSourceResolution(api, c_int::try_from(dpi).unwrap_or(c_int::MAX));
            let monitor = TessMonitorCreate();
            TessMonitorSetDeadlineMSecs(monitor, c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX));
            TessBaseAPIRecognize(api, monitor);
            TessMonitorDelete(monitor);
            let iterator = TessBaseAPIGetIterator(api);
            let words = if iterator.is_null() { Vec::new() } else { collect(iterator) };
            TessBaseAPIClear(api);
            words
        }
    }
}

impl Drop for Tesseract {
    fn drop(&mut self) {
        // SAFETY: `api` is valid and not used again.
        unsafe { TessBaseAPIDelete(self.api.as_ptr()) };
    }
}

/// Reads the words and deletes the iterator.
///
/// # Safety
/// The iterator is valid and not used again.
unsafe fn collect(iterator: *mut Iterator) -> Vec<Word> {
    let mut words = Vec::new();
    let (mut block, mut line) = (0, 0);
    // SAFETY: the iterator is valid until it is deleted at the end; texts are copied before they are freed.
    unsafe {
        let place = TessResultIteratorGetPageIterator(iterator);
        loop {
            block += u32::from(TessPageIteratorIsAtBeginningOf(place, Level::Block as c_int) != 0);
            line += u32::from(TessPageIteratorIsAtBeginningOf(place, Level::Line as c_int) != 0);
            words.extend(word(iterator, place, block, line));
            if TessResultIteratorNext(iterator, Level::Word as c_int) == 0 {
                break;
            }
        }
        TessResultIteratorDelete(iterator);
    }
    words
}

/// # Safety
/// Both are valid and at the same word.
unsafe fn word(iterator: *const Iterator, place: *const Iterator, block: u32, line: u32) -> Option<Word> {
    let level = Level::Word as c_int;
    let (mut x0, mut y0, mut x1, mut y1) = (0, 0, 0, 0);
    let mut flags = [0; 6];
    let [bold, italic, underlined, mono, serif, small] = &mut flags;
    let (mut points, mut font) = (0, 0);
    // SAFETY: as the caller promises; all pointers are to live variables.
    let (text, confidence) = unsafe {
        if TessPageIteratorBoundingBox(place, level, &mut x0, &mut y0, &mut x1, &mut y1) == 0 {
            return None;
        }
        TessResultIteratorWordFontAttributes(
            iterator,
            bold,
            italic,
            underlined,
            mono,
            serif,
            small,
            &mut points,
            &mut font,
        );
        let raw = TessResultIteratorGetUTF8Text(iterator, level);
        if raw.is_null() {
            return None;
        }
        let text = CStr::from_ptr(raw).to_string_lossy().trim().to_owned();
        TessDeleteText(raw);
        (text, TessResultIteratorConfidence(iterator, level))
    };
    if text.is_empty() {
        return None;
    }
    let pixels = |value: c_int| u32::try_from(value).unwrap_or(0);
    let area = Box { x0: pixels(x0), y0: pixels(y0), x1: pixels(x1), y1: pixels(y1) };
    let confidence = confidence.clamp(0.0, 100.0) / 100.0;
    Some(Word { text, area, confidence, points: pixels(points), turns: 0, line, block })
}
