//! Each target on its corpus, on mutations of it and on random bytes. Inputs that a fuzzer found are added to
//! the corpus.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

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
enum Mutation {
    Flip(u8),
    Insert(Vec<u8>),
    Cut(usize),
    Duplicate(usize),
}

fn mutations() -> impl Strategy<Value = Vec<(usize, Mutation)>> {
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
    let insert = prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..8),
    ];
    let one = prop_oneof![
        any::<u8>().prop_map(Mutation::Flip),
        insert.prop_map(Mutation::Insert),
        (1_usize..40).prop_map(Mutation::Cut),
        (1_usize..60).prop_map(Mutation::Duplicate),
    ];
    prop::collection::vec((any::<usize>(), one), 0..5)
}

fn mutated(mut bytes: Vec<u8>, mutations: Vec<(usize, Mutation)>) -> Vec<u8> {
    for (place, mutation) in mutations {
        let at = place % (bytes.len() + 1);
        let end = |count: usize| (at + count).min(bytes.len());
        match mutation {
            Mutation::Flip(with) if at < bytes.len() => bytes[at] ^= with,
            Mutation::Flip(byte) => bytes.push(byte),
            Mutation::Insert(more) => drop(bytes.splice(at..at, more)),
            Mutation::Cut(count) => drop(bytes.drain(at..end(count))),
            Mutation::Duplicate(count) => {
                let copy = bytes[at..end(count)].to_vec();
                drop(bytes.splice(at..at, copy));
            }
        }
    }
    bytes
}

#[test]
fn no_parser_panics_on_its_corpus_or_mutations_of_it() {
    for (name, target) in TARGETS {
        let seeds = corpus(name);
        seeds.iter().for_each(|seed| target(seed));
        let strategy = (prop::sample::select(seeds), mutations());
        let mut runner = TestRunner::new(ProptestConfig {
            cases: 1_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let result = runner.run(&strategy, |(seed, mutations)| {
            target(&mutated(seed, mutations));
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn no_parser_panics_on_random_bytes() {
    for (name, target) in TARGETS {
        let mut runner = TestRunner::new(ProptestConfig {
            cases: 300,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let result = runner.run(&prop::collection::vec(any::<u8>(), 0..200), |bytes| {
            target(&bytes);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn every_target_is_in_the_fuzz_manifest() {
    let manifest = include_str!("../../../fuzz/Cargo.toml");
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
