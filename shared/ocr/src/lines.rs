//! Long straight lines of a picture: the rules of tables and forms.
//!
//! ```text
//! rows ──> dark runs longer than a letter ──> runs of neighbouring rows together ──> thin ones are lines
//! ```
//!
//! Vertical lines are the horizontal ones of the picture turned by 90 degrees. A line that is slightly skewed is
//! flattened: it is given at the middle of its height.

use crate::{
    picture::{Picture, turned_back},
    wire::Box,
};

/// Darker pixels are ink.
const INK: u8 = 140;
/// In inches: a dark run that is longer than the strokes of letters, and a line that is longer than a word.
const MIN_RUN: f32 = 0.3;
const MIN_LENGTH: f32 = 0.5;
/// In inches: thicker ones are bars or pictures.
const MAX_THICKNESS: f32 = 0.04;
/// Pixels without ink that do not end a run: noise, and rows of dots.
const MAX_GAP: usize = 3;
/// A picture has no end of lines.
const MAX_LINES: usize = 1_000;
const MAX_RUNS: usize = 200_000;

/// The horizontal and vertical lines of a picture.
pub fn find(picture: &Picture, dpi: u32) -> Vec<Box> {
    let (width, height) = (picture.width as u32, picture.height as u32);
    let mut lines = horizontal(picture, dpi);
    // What lies in the turned picture, back to where it was.
    lines.extend(
        horizontal(&picture.turned(1), dpi).into_iter().map(|line| turned_back(line, 1, width, height)),
    );
    lines
}

#[derive(Clone, Copy)]
struct Run {
    x0: usize,
    x1: usize,
}

/// Runs of neighbouring rows that touch each other.
struct Stroke {
    x0: usize,
    x1: usize,
    y0: usize,
    y1: usize,
    pixels: usize,
    /// Of the last row.
    last: Run,
}

fn horizontal(picture: &Picture, dpi: u32) -> Vec<Box> {
    let pixels = |inches: f32| (inches * dpi as f32) as usize;
    let (min_run, min_length) = (pixels(MIN_RUN).max(8), pixels(MIN_LENGTH).max(12));
    let max_thickness = MAX_THICKNESS * dpi as f32;
    let (mut open, mut lines): (Vec<Stroke>, Vec<Box>) = (Vec::new(), Vec::new());
    let mut count = 0;
    let mut close = |stroke: Stroke| {
        let length = stroke.x1 - stroke.x0;
        let thickness = stroke.pixels as f32 / length.max(1) as f32;
        if length >= min_length && thickness <= max_thickness && lines.len() < MAX_LINES {
            let half = (thickness / 2.0).max(0.5);
            let middle = (stroke.y0 + stroke.y1) as f32 / 2.0;
            lines.push(Box {
                x0: stroke.x0 as u32,
                y0: (middle - half).max(0.0).round() as u32,
                x1: stroke.x1 as u32,
                y1: (middle + half).round() as u32,
            });
        }
    };
    for (y, row) in picture.pixels.chunks_exact(picture.width.max(1)).enumerate() {
        let found = runs(row, min_run);
        count += found.len();
        if count > MAX_RUNS {
            break;
        }
        let mut next: Vec<Stroke> = Vec::new();
        for run in found {
            let touches =
                |stroke: &Stroke| stroke.last.x0 <= run.x1 + MAX_GAP && run.x0 <= stroke.last.x1 + MAX_GAP;
            let mut stroke = Stroke { x0: run.x0, x1: run.x1, y0: y, y1: y + 1, pixels: 0, last: run };
            while let Some(at) = open.iter().position(touches) {
                let above = open.swap_remove(at);
                stroke.x0 = stroke.x0.min(above.x0);
                stroke.x1 = stroke.x1.max(above.x1);
                stroke.y0 = stroke.y0.min(above.y0);
                stroke.pixels += above.pixels;
            }
            stroke.pixels += run.x1 - run.x0;
            next.push(stroke);
        }
        open.drain(..).for_each(&mut close);
        open = next;
    }
    open.into_iter().for_each(&mut close);
    lines
}

/// The dark runs of a row that have at least `min` pixels.
fn runs(row: &[u8], min: usize) -> Vec<Run> {
    let mut runs = Vec::new();
    let (mut start, mut end) = (None, 0);
    for (x, pixel) in row.iter().enumerate() {
        if *pixel < INK {
            start.get_or_insert(x);
            end = x + 1;
        } else if x >= end + MAX_GAP
            && let Some(x0) = start.take()
            && end - x0 >= min
        {
            runs.push(Run { x0, x1: end });
        }
    }
    if let Some(x0) = start
        && end - x0 >= min
    {
        runs.push(Run { x0, x1: end });
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const DPI: u32 = 200;

    fn blank() -> Picture {
        Picture { width: 1000, height: 800, pixels: vec![255; 800_000] }
    }

    fn fill(picture: &mut Picture, x: std::ops::Range<usize>, y: std::ops::Range<usize>) {
        for y in y {
            picture.pixels[y * picture.width..][x.clone()].fill(20);
        }
    }

    fn near(found: &Box, expected: [u32; 4]) -> bool {
        let sides = [found.x0, found.y0, found.x1, found.y1];
        sides.iter().zip(expected).all(|(one, other)| one.abs_diff(other) <= 3)
    }

    #[test]
    fn the_lines_of_a_grid_are_found_and_letters_and_bars_are_not() {
        let mut picture = blank();
        for y in [100, 200, 300] {
            fill(&mut picture, 100..900, y..y + 3);
        }
        for x in [100, 500, 897] {
            fill(&mut picture, x..x + 3, 100..303);
        }
        // A stroke of a letter, a word set in bold capitals, a bar of a chart.
        fill(&mut picture, 300..306, 400..440);
        for x in (300..500).step_by(20) {
            fill(&mut picture, x..x + 14, 500..530);
        }
        fill(&mut picture, 200..800, 600..700);
        let lines = find(&picture, DPI);
        for expected in [
            [100, 100, 900, 103],
            [100, 200, 900, 203],
            [100, 300, 900, 303],
            [100, 100, 103, 303],
            [500, 100, 503, 303],
            [897, 100, 900, 303],
        ] {
            assert!(lines.iter().any(|line| near(line, expected)), "{expected:?} in {lines:?}");
        }
        assert_eq!(lines.len(), 6, "{lines:?}");
    }

    #[test]
    fn a_skewed_or_dotted_line_is_one_line() {
        let mut picture = blank();
        for x in 100..900 {
            let y = 300 + x / 80;
            fill(&mut picture, x..x + 1, y..y + 3);
        }
        for x in (100..900).step_by(4) {
            fill(&mut picture, x..x + 2, 500..502);
        }
        let lines = find(&picture, DPI);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(near(&lines[0], [100, 306, 900, 309]), "{lines:?}");
        assert!(near(&lines[1], [100, 500, 898, 502]), "{lines:?}");
    }

    #[test]
    fn noise_and_empty_pictures_have_no_lines_and_end() {
        let mut state = 1_u32;
        let mut noise = blank();
        for pixel in &mut noise.pixels {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *pixel = if state >> 30 == 0 { 0 } else { 255 };
        }
        // Dots so close that every row is one run: a gray area, not a line.
        assert!(find(&noise, DPI).is_empty());
        assert!(find(&Picture { width: 0, height: 0, pixels: vec![] }, DPI).is_empty());
        assert!(find(&Picture { width: 1, height: 1, pixels: vec![0] }, DPI).is_empty());
    }
}
