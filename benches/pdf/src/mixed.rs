//! A typical document: mostly text, some tables, photos, charts and scans.

use std::{io, path::Path};

use everypage_hostile::builder::{A4, Page, document, line_at, stream};
use jpeg_encoder::{ColorType, Encoder};

pub fn write(file: &Path, pages: u32) -> io::Result<()> {
    let photo = picture(1200, 900)?;
    let scan = picture(1240, 1754)?;
    let pages: Vec<Page> = (0..pages)
        .map(|number| match number % 20 {
            0..=11 => prose(number),
            12..=14 => table(number),
            15 | 16 => with_picture(prose_half(number), &photo, (1200, 900), (120.0, 60.0, 360.0, 270.0)),
            17 | 18 => chart(number),
            _ => with_picture(Page::blank(), &scan, (1240, 1754), (0.0, 0.0, A4.0, A4.1)),
        })
        .collect();
    std::fs::write(file, document(&pages))
}

const WORDS: [&str; 24] = [
    "the",
    "report",
    "of",
    "committee",
    "on",
    "annual",
    "growth",
    "and",
    "its",
    "findings",
    "which",
    "were",
    "made",
    "public",
    "after",
    "several",
    "months",
    "in",
    "a",
    "meeting",
    "that",
    "everyone",
    "attended",
    "again",
];

fn sentence(seed: u32, words: u32) -> String {
    let word = |i: u32| WORDS[(seed.wrapping_mul(31).wrapping_add(i.wrapping_mul(i + 7)) % 24) as usize];
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

fn lines(number: u32, count: u32) -> Page {
    let content: String =
        (0..count).map(|i| line_at(60.0, 790.0 - 15.0 * i as f32, &sentence(number * 100 + i, 14))).collect();
    Page::new(content)
}

fn prose(number: u32) -> Page {
    lines(number, 48)
}

fn prose_half(number: u32) -> Page {
    lines(number, 24)
}

fn table(number: u32) -> Page {
    let mut content = String::from("0.5 w\n");
    for row in 0..40 {
        let y = 780.0 - 18.0 * row as f32;
        content += &format!("60 {y} m 535 {y} l S\n");
        for column in 0..5 {
            content +=
                &line_at(64.0 + 95.0 * column as f32, y + 4.0, &sentence(number + row * 5 + column, 2));
        }
    }
    Page::new(content)
}

fn chart(number: u32) -> Page {
    let mut curve = String::from("1 w 0 0 1 RG 100 100 m ");
    for step in 1..200 {
        curve += &format!("{} {} l ", 100 + 2 * step, 100 + (step * (number + 53)) % 180);
    }
    prose_half(number).draw(&curve).draw("S\n")
}

fn with_picture(page: Page, jpeg: &[u8], pixels: (u16, u16), at: (f32, f32, f32, f32)) -> Page {
    let (width, height) = pixels;
    let head = format!(
        "/Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent 8 \
         /ColorSpace /DeviceRGB /Filter /DCTDecode"
    );
    let (x, y, w, h) = at;
    page.draw(&format!("q {w} 0 0 {h} {x} {y} cm /Im0 Do Q\n")).extra("/Im0", "XObject", stream(&head, jpeg))
}

/// Soft shapes with grain, which compress like a photo.
fn picture(width: u16, height: u16) -> io::Result<Vec<u8>> {
    let mut samples = Vec::new();
    let mut grain = 1_u32;
    for y in 0..u32::from(height) {
        for x in 0..u32::from(width) {
            grain = grain.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = (grain >> 28) as i32;
            let wave = ((x as f32 / 90.0).sin() * (y as f32 / 70.0).cos() * 90.0) as i32;
            for tint in [20, 0, -20] {
                samples.push((128 + wave + tint + noise).clamp(0, 255) as u8);
            }
        }
    }
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes, 80).encode(&samples, width, height, ColorType::Rgb).map_err(io::Error::other)?;
    Ok(bytes)
}
