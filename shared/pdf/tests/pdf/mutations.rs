//! Two hundred broken relatives of a good PDF: each ends in readings or in an error.

use std::time::Duration;

use everypage_core::{
    domain::document::ImageStyle,
    ports::pdf::{Pdf, PdfLimits, ReadOptions, RenderPages},
};
use tokio::time::timeout;

use crate::support::{
    OPENING,
    builder::{A4, Page, document},
    limits, pages, reader, save,
};

/// A small generator, so that a failing seed can be tried again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..1 + dice.below(12) {
        let mut at = dice.below(bytes.len());
        if dice.below(2) == 0 {
            // Names, dictionaries and arrays: where the structure is.
            at = (at..bytes.len()).find(|&i| b"/<[".contains(&bytes[i])).unwrap_or(at);
        }
        match dice.below(6) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.below(256) as u8,
            2 => drop(bytes.drain(at..(at + 1 + dice.below(40)).min(bytes.len()))),
            3 => {
                let copy = bytes[at..(at + 1 + dice.below(60)).min(bytes.len())].to_vec();
                let to = dice.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            // Numbers are lengths, offsets, counts and coordinates.
            4 => {
                if let Some(digit) = (at..bytes.len()).find(|&i| bytes[i].is_ascii_digit()) {
                    bytes[digit] = b'0' + dice.below(10) as u8;
                }
            }
            _ => {
                if let Some(digit) = (at..bytes.len()).find(|&i| bytes[i].is_ascii_digit()) {
                    bytes.splice(digit..digit, *b"99999");
                }
            }
        }
        if bytes.is_empty() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mutation_ends_in_readings_or_an_error() {
    let good = document(&[
        Page::prose(1),
        Page::prose(2).image((150.0, 60.0, 300.0, 200.0)),
        Page::blank().image((0.0, 0.0, A4.0, A4.1)),
        Page::prose(4).draw("100 120 m 200 250 l 300 90 l 400 200 l S\n"),
    ]);
    let quick = PdfLimits { page_timeout: Duration::from_secs(3), max_memory_bytes: 600 << 20, ..limits() };
    let reader = reader(quick, 2);
    let style = ImageStyle { dpi: 40, ..ImageStyle::default() };
    let options = ReadOptions { render: RenderPages::Graphics, style };
    let (mut read, mut refused) = (0, 0);
    for seed in 0..200 {
        let mut bytes = good.clone();
        mutate(&mut bytes, &mut Dice(seed));
        let saved = save(bytes);
        let ended = timeout(Duration::from_secs(40), async {
            let count = reader.inspect(&saved.path, None, OPENING).await?;
            reader.read(&saved.path, None, &pages(1..=count.min(8)), &options).await
        });
        match ended.await.unwrap_or_else(|_| panic!("seed {seed} hangs")) {
            Ok(readings) => {
                read += 1;
                assert!(
                    readings
                        .iter()
                        .enumerate()
                        .all(|(index, reading)| reading.number.get() as usize == index + 1)
                );
            }
            Err(_) => refused += 1,
        }
    }
    // The reader still works, and the mutations were neither harmless nor fatal as a whole.
    let saved = save(good);
    assert_eq!(reader.inspect(&saved.path, None, OPENING).await, Ok(4));
    assert!(read > 50 && read + refused == 200, "{read} read, {refused} refused");
}
