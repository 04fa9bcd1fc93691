//! Page trees with wrong counts, and documents that are too long.

use std::fmt::Write;

use super::{Maker, once, one_page, varied};
use crate::builder::{File, Page, document, line_at, stream, with_count};

pub(super) const MAKERS: &[Maker] = &[
    once("no-pages", |_| document(&[])),
    once("no-page-tree", |_| one_page("null", "").bytes()),
    once("tree-is-a-page", |_| one_page("<< /Type /Page /MediaBox [0 0 100 100] >>", "").bytes()),
    once("count-one-hundred-thousand", |_| with_count(&[Page::prose(1)], 100_000)),
    varied("count-wrong", |dice| {
        let lies = [-1, 0, 1, 2, 4, 5, 1_000, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX];
        with_count(&[Page::prose(1), Page::prose(2), Page::prose(3)], *dice.pick(&lies))
    }),
    once("count-is-a-name", |_| one_page("<< /Type /Pages /Kids [4 0 R] /Count /Many >>", "").bytes()),
    once("kids-are-null", |_| one_page("<< /Type /Pages /Kids [null null 9 0 R] /Count 3 >>", "").bytes()),
    varied("kids-are-many-and-the-same", |dice| {
        let kids = "4 0 R ".repeat(1 + dice.below(400));
        one_page(&format!("<< /Type /Pages /Kids [{kids}] /Count 400 >>"), "").bytes()
    }),
    once("pages-ten-thousand", |_| thousands(10)),
    once("pages-over-the-limit", |_| thousands(21)),
];

/// `thousands` × 1000 pages with the same content, in a tree of two levels.
fn thousands(thousands: usize) -> Vec<u8> {
    let mut file = File::default();
    file.object("<< /Type /Catalog /Pages 2 0 R >>");
    file.object("");
    file.object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>");
    file.object(stream("", line_at(72.0, 760.0, "page").as_bytes()));
    let mut branches = String::new();
    for _ in 0..thousands {
        let branch = file.object("");
        let _ = write!(branches, "{branch} 0 R ");
        let mut kids = String::new();
        for _ in 0..1_000 {
            let page = file.object(format!(
                "<< /Type /Page /Parent {branch} 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 3 0 R >> >> >>"
            ));
            let _ = write!(kids, "{page} 0 R ");
        }
        file.objects[branch - 1] =
            format!("<< /Type /Pages /Parent 2 0 R /Kids [{kids}] /Count 1000 >>").into_bytes();
    }
    file.objects[1] =
        format!("<< /Type /Pages /Kids [{branches}] /Count {} >>", thousands * 1_000).into_bytes();
    file.bytes()
}
