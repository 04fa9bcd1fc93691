//! Streams whose length, filter or content is wrong.

use super::{Maker, TREE, among_good, one_page, varied};
use crate::builder::{Page, deflate};

pub(super) const MAKERS: &[Maker] = &[
    varied("stream-length-wrong", |dice| {
        let length = *dice.pick(&[
            "0",
            "-1",
            "1",
            "99999999",
            "2147483648",
            "1e30",
            "(ten)",
            "5 0 R",
            "99 0 R",
            "null",
        ]);
        let content = String::from_utf8_lossy(&Page::prose(1).content).into_owned();
        with_content(format!("<< /Length {length} >>\nstream\n{content}\nendstream"))
    }),
    varied("stream-without-end", |dice| {
        let end = *dice.pick(&["", "endobj", "endstrea", "\nendstream endstream"]);
        let content = String::from_utf8_lossy(&Page::prose(1).content).into_owned();
        with_content(format!("<< /Length 9 >>\nstream\n{content}{end}"))
    }),
    varied("filter-unknown", |dice| {
        let filter = *dice.pick(&[
            "/Nonsense",
            "[/FlateDecode /Nonsense]",
            "[]",
            "null",
            "(Flate)",
            "99 0 R",
            "/Crypt",
            "[[/FlateDecode]]",
        ]);
        with_content(raw(&format!("/Filter {filter}"), &deflate(&Page::prose(1).content)))
    }),
    varied("filter-parameters-wrong", |dice| {
        let parameters = *dice.pick(&[
            "/Predictor 12 /Columns 2147483647",
            "/Predictor 12 /Columns -1",
            "/Predictor 2 /Colors 2147483647 /BitsPerComponent 16 /Columns 2147483647",
            "/Predictor 99",
            "/Predictor 15 /Columns 0",
            "/EarlyChange 99",
        ]);
        let head = format!("/Filter /FlateDecode /DecodeParms << {parameters} >>");
        with_content(raw(&head, &deflate(&Page::prose(1).content)))
    }),
    varied("flate-broken", |dice| {
        let mut data = deflate(&Page::prose(1).content);
        let at = 2 + dice.below(data.len() - 2);
        data[at] ^= 0x55;
        data.truncate(at + dice.below(data.len()));
        with_content(raw("/Filter /FlateDecode", &data))
    }),
    varied("filters-on-garbage", |dice| {
        let filter = *dice.pick(&[
            "LZWDecode",
            "RunLengthDecode",
            "ASCII85Decode",
            "ASCIIHexDecode",
            "DCTDecode",
            "JPXDecode",
            "CCITTFaxDecode",
            "JBIG2Decode",
            "BrotliDecode",
        ]);
        with_content(raw(&format!("/Filter /{filter}"), &dice.bytes(3_000)))
    }),
    varied("content-is-noise", |dice| among_good(Page::new(dice.bytes(20_000)))),
    varied("content-of-operators", |dice| {
        const WORDS: [&str; 40] = [
            "q",
            "Q",
            "BT",
            "ET",
            "Tj",
            "TJ",
            "(a)",
            "[(b) -9e9]",
            "re",
            "W",
            "W*",
            "n",
            "f",
            "S",
            "B*",
            "cm",
            "Do",
            "/F1",
            "12 Tf",
            "gs",
            "/Pattern cs",
            "scn",
            "sh",
            "BI",
            "ID",
            "EI",
            "0",
            "1",
            "-1",
            "1e30",
            "BMC",
            "EMC",
            "BDC",
            "<<>>",
            "d0",
            "d1",
            "m",
            "l",
            "c",
            "Td",
        ];
        let words: Vec<&str> = (0..5_000).map(|_| *dice.pick(&WORDS)).collect();
        among_good(Page::new(words.join(" ")))
    }),
    varied("contents-in-pieces", |dice| {
        let pieces = "5 0 R null 99 0 R (x) ".repeat(1 + dice.below(300));
        one_page(TREE, &format!("/Contents [{pieces}] ")).bytes()
    }),
];

fn raw(head: &str, data: &[u8]) -> Vec<u8> {
    crate::builder::stream(head, data)
}

/// One page with `object` as its content stream.
fn with_content(object: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut file = one_page(TREE, "");
    file.objects[4] = object.into();
    file.bytes()
}
