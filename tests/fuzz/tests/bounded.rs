//! Each target on its corpus, on damaged relatives of it and on noise. What a fuzzer once found is
//! in the corpus and so is tried here for ever.

#![expect(clippy::unwrap_used, reason = "a test that can't be set up should stop right there")]

use std::{fs, path::PathBuf};

use everypage_fuzz::TARGETS;
use proptest::{prelude::*, test_runner::TestRunner};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

#[derive(Clone, Debug)]
enum Damage {
    Flip(u8),
    Put(Vec<u8>),
    Cut(usize),
    Double(usize),
}

fn damage() -> impl Strategy<Value = Vec<(usize, Damage)>> {
    let words = [
        "0",
        "-1",
        "null",
        "18446744073709551616",
        "1e400",
        "\"",
        "{}",
        "[]",
        "\u{0}",
        "\n",
        ",",
        "é",
        "\\ud800",
    ];
    let put = prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..8),
    ];
    let one = prop_oneof![
        any::<u8>().prop_map(Damage::Flip),
        put.prop_map(Damage::Put),
        (1_usize..40).prop_map(Damage::Cut),
        (1_usize..60).prop_map(Damage::Double),
    ];
    prop::collection::vec((any::<usize>(), one), 0..5)
}

fn damaged(mut bytes: Vec<u8>, damages: Vec<(usize, Damage)>) -> Vec<u8> {
    for (place, damage) in damages {
        let at = place % (bytes.len() + 1);
        let end = |count: usize| (at + count).min(bytes.len());
        match damage {
            Damage::Flip(with) if at < bytes.len() => bytes[at] ^= with,
            Damage::Flip(byte) => bytes.push(byte),
            Damage::Put(more) => drop(bytes.splice(at..at, more)),
            Damage::Cut(count) => drop(bytes.drain(at..end(count))),
            Damage::Double(count) => {
                let copy = bytes[at..end(count)].to_vec();
                drop(bytes.splice(at..at, copy));
            }
        }
    }
    bytes
}

#[test]
fn no_parser_trips_over_its_corpus_or_relatives_of_it() {
    for (name, target) in TARGETS {
        let seeds = corpus(name);
        seeds.iter().for_each(|seed| target(seed));
        let strategy = (prop::sample::select(seeds), damage());
        let mut runner = TestRunner::new(ProptestConfig {
            cases: 1_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let tried = runner.run(&strategy, |(seed, damages)| {
            target(&damaged(seed, damages));
            Ok(())
        });
        tried.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn no_parser_trips_over_noise() {
    for (name, target) in TARGETS {
        let mut runner = TestRunner::new(ProptestConfig {
            cases: 300,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let tried = runner.run(&prop::collection::vec(any::<u8>(), 0..200), |noise| {
            target(&noise);
            Ok(())
        });
        tried.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn the_fuzzer_knows_every_target() {
    let manifest = include_str!("../../../fuzz/Cargo.toml");
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
