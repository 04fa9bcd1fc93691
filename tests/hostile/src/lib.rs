//! PDFs and images that attack their reader; the same seed makes the same files.
//!
//! ```text
//! builder   writes PDFs, valid or invalid
//! picture   writes images, valid or invalid
//! pages     hostile pages, for use among good ones
//! families  whole files, by the kind of attack
//! mutate    damages any file at random
//! ```

pub mod builder;
mod crypt;
mod dice;
mod families;
mod mutate;
pub mod pages;
pub mod picture;

pub use crypt::PASSWORD;

use dice::Dice;
use families::Maker;

/// A file whose name describes the attack.
pub struct Hostile {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Good files from which damaged ones are made.
const GOOD: [(&str, &[u8]); 2] = [
    ("report", include_bytes!("../../../samples/harbour-report-2026.pdf")),
    ("encrypted", include_bytes!("../../../samples/encrypted.pdf")),
];

/// Makes `count` files. Each depends on `seed` and its number alone, so a longer list starts with
/// the shorter one.
pub fn files(count: usize, seed: u64) -> impl Iterator<Item = Hostile> {
    (0..count).map(move |index| at(index, seed))
}

fn at(index: usize, seed: u64) -> Hostile {
    let (what, bytes) = file(index, &mut Dice::new(seed, index as u64));
    Hostile { name: format!("{index:05}-{what}.pdf"), bytes }
}

/// The number of kinds: this many files contain one of each.
pub fn kinds() -> usize {
    families::all().len()
}

/// First one of each kind, then damaged variants of good files and of these, in turns.
fn file(index: usize, dice: &mut Dice) -> (String, Vec<u8>) {
    let makers = families::all();
    if let Some(Maker { name, make, .. }) = makers.get(index) {
        return ((*name).to_owned(), make(dice));
    }
    let varied: Vec<&Maker> = makers.into_iter().filter(|maker| !maker.once).collect();
    let Maker { name, make, .. } = varied[dice.below(varied.len())];
    match index % 3 {
        0 => ((*name).to_owned(), make(dice)),
        1 => {
            let (bytes, how) = mutate::mutated(make(dice), dice);
            (format!("{how}-{name}"), bytes)
        }
        _ => {
            let (good, bytes) = match dice.below(GOOD.len() + 2) {
                0 => ("paper", families::good_paper()),
                1 => ("compressed", families::good_with_object_streams()),
                other => (GOOD[other - 2].0, GOOD[other - 2].1.to_vec()),
            };
            let (bytes, how) = mutate::mutated(bytes, dice);
            (format!("{how}-{good}"), bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_seed_makes_the_same_files_and_another_seed_makes_others() {
        let made = |seed| -> Vec<(String, Vec<u8>)> {
            let files = (kinds()..kinds() + 30).map(|index| at(index, seed));
            files.map(|file| (file.name, file.bytes)).collect()
        };
        let (all, others) = (made(7), made(8));
        assert!(all == made(7));
        assert!(all.iter().zip(&others).filter(|(one, other)| one.1 == other.1).count() < 6);
    }

    #[test]
    fn names_of_kinds_are_unique() {
        let names: HashSet<&str> = families::all().iter().map(|maker| maker.name).collect();
        assert_eq!(names.len(), kinds());
    }
}
