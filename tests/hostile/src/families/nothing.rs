//! Files that are not PDFs, or barely.

use super::{Maker, good_paper, once, varied};
use crate::dice::Dice;

pub(super) const MAKERS: &[Maker] = &[
    once("empty", |_| Vec::new()),
    once("one-byte", |_| b"%".to_vec()),
    once("header-alone", |_| b"%PDF-1.7\n".to_vec()),
    once("header-and-end", |_| b"%PDF-1.7\n%%EOF\n".to_vec()),
    once("html", |_| b"<!doctype html><html><body>404</body></html>".to_vec()),
    once("png", |_| b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec()),
    once("zeros", |_| vec![0; 1 << 20]),
    varied("noise", |dice| dice.bytes(20_000)),
    varied("noise-with-header", |dice| [b"%PDF-1.7\n".to_vec(), dice.bytes(50_000)].concat()),
    varied("noise-with-keywords", noise_with_keywords),
    varied("junk-before-header", |dice| {
        let junk = dice.below(2_000);
        [dice.bytes(junk), good_paper()].concat()
    }),
    varied("junk-after-end", |dice| [good_paper(), dice.bytes(5_000)].concat()),
    varied("two-in-one", |_| [good_paper(), good_paper()].concat()),
    varied("cut-in-half", |dice| {
        let mut bytes = good_paper();
        bytes.truncate(dice.below(bytes.len()));
        bytes
    }),
];

/// A PDF's keywords in random order.
fn noise_with_keywords(dice: &mut Dice) -> Vec<u8> {
    const WORDS: [&str; 26] = [
        "1 0 obj",
        "2 0 obj",
        "endobj",
        "stream\n",
        "endstream",
        "<<",
        ">>",
        "[",
        "]",
        "/Type",
        "/Pages",
        "/Page",
        "/Kids",
        "/Count",
        "/Length",
        "/Root 1 0 R",
        "trailer",
        "xref\n0 3\n",
        "startxref\n9\n",
        "%%EOF",
        "1 0 R",
        "2 0 R",
        "(",
        ")",
        "<4",
        "null",
    ];
    let mut bytes = b"%PDF-1.4\n".to_vec();
    for _ in 0..2_000 {
        bytes.extend(dice.pick(&WORDS).as_bytes());
        bytes.push(*dice.pick(b" \n"));
    }
    bytes
}
