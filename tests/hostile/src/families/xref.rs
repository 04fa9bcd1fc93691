//! Cross-reference tables that point to nothing, in cycles or out of the file.

use std::fmt::Write;

use super::{Maker, TREE, good_paper, good_with_object_streams, once, one_page, varied};
use crate::{
    builder::{File, deflate, stream, table},
    dice::Dice,
};

pub(super) const MAKERS: &[Maker] = &[
    once("xref-good-streams", |_| good_with_object_streams()),
    once("xref-missing", |_| one_page(TREE, "").body().0),
    varied("xref-offsets-wrong", |dice| {
        offsets(|at, dice| at.wrapping_add(dice.below(200)).wrapping_sub(100), dice)
    }),
    varied("xref-offsets-random", |dice| offsets(|_, dice| dice.below(5_000), dice)),
    varied("xref-offsets-huge", |dice| offsets(|_, dice| 9_999_999_999 - dice.below(9), dice)),
    varied("xref-offsets-shuffled", |dice| {
        let (file, offsets) = one_page(TREE, "").body();
        let shuffled: Vec<usize> = offsets.iter().map(|_| *dice.pick(&offsets)).collect();
        closed(file, &shuffled, "/Size 6 /Root 1 0 R")
    }),
    varied("xref-start-wrong", |dice| {
        let start = *dice.pick(&["0", "-1", "7", "99999999999", "2147483648", "one"]);
        replaced(&good_paper(), "startxref\n", &format!("startxref\n{start} "))
    }),
    varied("xref-header-wrong", |dice| {
        let header = *dice.pick(&[
            "xref\n0 999999999\n",
            "xref\n-5 6\n",
            "xref\n4294967290 12\n",
            "xref\n0 0\n",
            "xref\n0 1\nxref\n",
        ]);
        replaced(&good_paper(), "xref\n0 ", header)
    }),
    varied("xref-size-wrong", |dice| {
        let size = *dice.pick(&["0", "-1", "1", "8388608", "2147483647", "99999999999"]);
        let (file, offsets) = one_page(TREE, "").body();
        closed(file, &offsets, &format!("/Size {size} /Root 1 0 R"))
    }),
    varied("trailer-root-wrong", |dice| {
        let root = *dice.pick(&[
            "",
            "/Root 4 0 R",
            "/Root 99 0 R",
            "/Root null",
            "/Root << >>",
            "/Root 1 65535 R",
            "/Root (1)",
        ]);
        let (file, offsets) = one_page(TREE, "").body();
        closed(file, &offsets, &format!("/Size 6 {root}"))
    }),
    once("xref-prev-is-itself", |_| {
        let (file, offsets) = one_page(TREE, "").body();
        let start = file.len();
        closed(file, &offsets, &format!("/Size 6 /Root 1 0 R /Prev {start}"))
    }),
    once("xref-prev-in-a-ring", |_| ring(50)),
    once("xref-prev-chain-of-thousands", |_| chain(5_000)),
    varied("xref-hybrid-wrong", |dice| {
        let at = *dice.pick(&["15", "0", "-9", "99999999", "xref"]);
        let (file, offsets) = one_page(TREE, "").body();
        closed(file, &offsets, &format!("/Size 6 /Root 1 0 R /XRefStm {at}"))
    }),
    varied("xref-stream-widths-wrong", |dice| {
        let widths = *dice.pick(&[
            "[0 0 0]",
            "[1 2]",
            "[1 -2 1]",
            "[9 9 9]",
            "[1 2147483647 1]",
            "[1 2 1 1]",
            "null",
            "[4294967295 1 1]",
        ]);
        replaced(&good_with_object_streams(), "/W [1 4 2]", &format!("/W {widths}"))
    }),
    varied("xref-stream-index-wrong", |dice| {
        let index = *dice.pick(&[
            "[0]",
            "[0 -1]",
            "[-5 20]",
            "[0 2147483647]",
            "[2147483647 10]",
            "[1 2 3]",
            "[0 9 0 9 0 9]",
        ]);
        replaced(&good_with_object_streams(), "/Type /XRef", &format!("/Type /XRef /Index {index}"))
    }),
    varied("object-stream-numbers-wrong", |dice| {
        let entry = *dice.pick(&[
            "/N 99999999 /First 9",
            "/N -1 /First 9",
            "/N 5 /First 2147483647",
            "/N 5 /First -9",
            "/N 0 /First 0",
            "/First 30",
        ]);
        let good = good_with_object_streams();
        replaced(&good, "/N 4 /First", &format!("{entry} /Was"))
    }),
    once("object-stream-holds-itself", |_| {
        let mut file = one_page(TREE, "");
        file.object(stream("/Type /ObjStm /N 1 /First 4 /Extends 6 0 R", b"6 0 << >>"));
        with_streams(&file)
    }),
];

fn closed(mut file: Vec<u8>, offsets: &[usize], trailer: &str) -> Vec<u8> {
    let start = file.len();
    file.extend(table(offsets));
    file.extend(format!("trailer\n<< {trailer} >>\nstartxref\n{start}\n%%EOF\n").as_bytes());
    file
}

fn offsets(wrong: fn(usize, &mut Dice) -> usize, dice: &mut Dice) -> Vec<u8> {
    let (file, offsets) = one_page(TREE, "").body();
    let offsets: Vec<usize> = offsets.into_iter().map(|at| wrong(at, dice) % 10_000_000_000).collect();
    closed(file, &offsets, "/Size 6 /Root 1 0 R")
}

/// Replaces the first `from` by `to` in a binary file.
pub(super) fn replaced(file: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut file = file.to_vec();
    if let Some(at) = file.windows(from.len()).position(|bytes| bytes == from.as_bytes()) {
        file.splice(at..at + from.len(), to.bytes());
    }
    file
}

/// Tables that name each other as the previous one, in a cycle.
fn ring(count: usize) -> Vec<u8> {
    sections(count, |index, starts| starts[(index + count - 1) % count])
}

fn chain(count: usize) -> Vec<u8> {
    sections(count, |index, starts| if index == 0 { 0 } else { starts[index - 1] })
}

fn sections(count: usize, previous: impl Fn(usize, &[usize]) -> usize) -> Vec<u8> {
    let (mut file, offsets) = one_page(TREE, "").body();
    // All sections have the same length, so that their offsets are known in advance.
    let section = |previous: usize| {
        [table(&offsets), format!("trailer\n<< /Size 6 /Root 1 0 R /Prev {previous:010} >>\n").into_bytes()]
            .concat()
    };
    let length = section(0).len();
    let starts: Vec<usize> = (0..count).map(|index| file.len() + index * length).collect();
    for index in 0..count {
        file.extend(section(previous(index, &starts)));
    }
    file.extend(format!("startxref\n{}\n%%EOF\n", starts[count - 1]).as_bytes());
    file
}

/// Writes the objects that are not streams inside an object stream, and the table as a stream.
pub(super) fn with_streams(file: &File) -> Vec<u8> {
    let is_stream = |object: &[u8]| object.ends_with(b"endstream");
    let (mut heads, mut bodies, mut packed) = (String::new(), Vec::new(), Vec::new());
    for (object, number) in file.objects.iter().zip(1_usize..).filter(|(object, _)| !is_stream(object)) {
        let _ = write!(heads, "{number} {} ", bodies.len());
        bodies.extend(object);
        bodies.push(b'\n');
        packed.push(number);
    }
    let (container, table_number) = (file.objects.len() + 1, file.objects.len() + 2);
    let mut bytes = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let mut rows: Vec<(u8, usize, usize)> = vec![(0, 0, 65_535)];
    for (object, number) in file.objects.iter().zip(1..) {
        rows.push(match packed.iter().position(|other| *other == number) {
            Some(at) => (2, container, at),
            None => {
                let at = bytes.len();
                bytes.extend(format!("{number} 0 obj\n").as_bytes());
                bytes.extend(object);
                bytes.extend(b"\nendobj\n");
                (1, at, 0)
            }
        });
    }
    let head = format!("/Type /ObjStm /N {} /First {} /Filter /FlateDecode", packed.len(), heads.len());
    rows.push((1, bytes.len(), 0));
    bytes.extend(format!("{container} 0 obj\n").as_bytes());
    bytes.extend(stream(&head, &deflate(&[heads.as_bytes(), &bodies].concat())));
    bytes.extend(b"\nendobj\n");
    let start = bytes.len();
    rows.push((1, start, 0));
    let mut data = Vec::new();
    for (kind, at, index) in &rows {
        data.push(*kind);
        data.extend((*at as u32).to_be_bytes());
        data.extend((*index as u16).to_be_bytes());
    }
    let head = format!("/Type /XRef /W [1 4 2] /Size {} /Root 1 0 R /Filter /FlateDecode", rows.len());
    bytes.extend(format!("{table_number} 0 obj\n").as_bytes());
    bytes.extend(stream(&head, &deflate(&data)));
    bytes.extend(format!("\nendobj\nstartxref\n{start}\n%%EOF\n").as_bytes());
    bytes
}
