//! Page images in JSON, encoded while they are written, so that an image is in memory once as bytes and
//! once as JSON.

use base64::{display::Base64Display, engine::general_purpose::STANDARD};
use everypage_core::ports::vision::RequestImage;
use serde::{Serialize, Serializer};

/// The bytes of an image in base64.
pub(super) struct Base64<'a>(pub(super) &'a RequestImage);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0.bytes, &STANDARD))
    }
}

/// An image as a `data:` URL.
pub(super) struct DataUrl<'a>(pub(super) &'a RequestImage);

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(RequestImage { format, bytes }) = self;
        let data = Base64Display::new(bytes, &STANDARD);
        serializer.collect_str(&format_args!("data:{};base64,{data}", format.mime()))
    }
}
