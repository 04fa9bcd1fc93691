//! Files that are small on disk and large in memory.

use flate2::{Compress, Compression, FlushCompress};

use super::{Maker, TREE, among_good, once, one_page, varied};
use crate::{
    builder::{Page, deflate, stream},
    pages,
};

pub(super) const MAKERS: &[Maker] = &[
    once("bomb-graphics-states", |_| among_good(pages::bomb())),
    once("bomb-flate", |_| filtered("/Filter /FlateDecode", &zeros(1 << 10))),
    once("bomb-flate-twice", |_| filtered("/Filter [/FlateDecode /FlateDecode]", &deflate(&zeros(4 << 10)))),
    once("bomb-flate-nested", |_| {
        let data = (0..4).fold(zeros(1 << 10), |data, _| deflate(&data));
        filtered("/Filter [/FlateDecode /FlateDecode /FlateDecode /FlateDecode /FlateDecode]", &data)
    }),
    varied("bomb-many-filters", |dice| {
        let count = 10 + dice.below(2_000);
        let filters = "/ASCIIHexDecode ".repeat(count);
        filtered(&format!("/Filter [{filters}]"), &b"30".repeat(500))
    }),
    once("bomb-text", |_| {
        let line = b"BT /F1 9 Tf 50 500 Td (many many words on one page and no end to them) Tj ET\n";
        filtered("/Filter /FlateDecode", &deflate(&line.repeat(300_000)))
    }),
    once("bomb-paths", |_| {
        filtered("/Filter /FlateDecode", &deflate(&b"1 1 m 400 400 l 30 9 l ".repeat(2 << 20)))
    }),
    once("bomb-painted-paths", |_| {
        filtered("/Filter /FlateDecode", &deflate(&b"0 0 m 590 800 l 0 800 l f ".repeat(200_000)))
    }),
    once("bomb-predictor-rows", |_| {
        let parameters = "/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 100000000 /Colors 4 /BitsPerComponent 16 >>";
        filtered(parameters, &zeros(1 << 8))
    }),
    once("bomb-lzw", |_| filtered("/Filter /LZWDecode", &[0x80, 0x0b, 0x60, 0x50].repeat(1 << 20))),
    once("bomb-run-length", |_| {
        filtered("/Filter [/FlateDecode /RunLengthDecode]", &deflate(&[0x81, b' '].repeat(8 << 20)))
    }),
    once("bomb-object-stream", |_| {
        let mut file = one_page(TREE, "/Annots [7 0 R] ");
        file.object(stream("/Type /ObjStm /N 1000000 /First 9 /Filter /FlateDecode", &zeros(1 << 9)));
        super::xref::with_streams(&file)
    }),
    once("bomb-image", |_| among_good(pages::image_bomb())),
    varied("bomb-image-of-any-kind", |dice| {
        let bits = *dice.pick(&[1, 2, 4, 8, 16, 3, 0, 32]);
        let space =
            *dice.pick(&["/DeviceRGB", "/DeviceGray", "/DeviceCMYK", "[/Indexed /DeviceRGB 255 (a)]"]);
        let (width, height) =
            (*dice.pick(&[1, 60_000, 2_147_483_647]), *dice.pick(&[1, 30_000, 2_147_483_647]));
        let head = format!(
            "/Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent {bits} /ColorSpace {space} /Filter /FlateDecode"
        );
        let page = Page::new("q 500 0 0 700 40 40 cm /X Do Q\n");
        among_good(page.extra("/X", "XObject", stream(&head, &deflate(&vec![7; 1 << 20]))))
    }),
    once("bomb-images-by-the-hundred", |_| {
        // Each is valid and takes 36 MB when it is rendered.
        let head = "/Type /XObject /Subtype /Image /Width 3464 /Height 3464 /BitsPerComponent 8 /ColorSpace /DeviceRGB /Filter /FlateDecode";
        let data = zeros(36);
        let page = (0..30).fold(Page::blank(), |page, index| {
            page.draw(&format!("q 100 0 0 100 {index} {index} cm /X{index} Do Q\n")).extra(
                &format!("/X{index}"),
                "XObject",
                stream(head, &data),
            )
        });
        among_good(page)
    }),
];

/// The page between two good ones.
fn filtered(filter: &str, data: &[u8]) -> Vec<u8> {
    let mut page = Page::new(data);
    page.filter = filter.to_owned();
    among_good(page)
}

/// Mebibytes of zeros, compressed fast: one compressed mebibyte, repeated.
fn zeros(mebibytes: usize) -> Vec<u8> {
    let mut one = Vec::with_capacity(4_096);
    // Without a header, and flushed so that more may follow.
    let _ = Compress::new(Compression::best(), false).compress_vec(
        &vec![0; 1 << 20],
        &mut one,
        FlushCompress::Full,
    );
    let mut data = b"\x78\x9c".to_vec();
    data.extend(one.repeat(mebibytes));
    data.extend(b"\x01\0\0\xff\xff");
    // Adler-32 of zeros.
    let sum = (((mebibytes << 20) % 65_521) as u32) << 16 | 1;
    data.extend(sum.to_be_bytes());
    data
}
