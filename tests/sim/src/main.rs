//! `./everypage dev sim`: the simulation for people.

use std::process::ExitCode;

use clap::Parser;
use everypage_sim::{
    campaign::{campaign, explain},
    mutants::Mutant,
    plan::Plan,
    story::run,
};
use indicatif::{ProgressBar, ProgressStyle};

/// Run Everypage in virtual time under whatever can go wrong, and check every promise.
#[derive(Parser)]
#[command(name = "everypage dev sim", bin_name = "everypage dev sim")]
struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 2000, value_name = "N")]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    from: u64,
    /// Run this one alone and tell its story.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Go on until so many seeds have failed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    failures: usize,
    /// Run a broken variant of Everypage.
    #[arg(long, value_name = "NAME")]
    mutant: Option<Mutant>,
    /// Run every broken variant until it is caught, and tell how many seeds that took.
    #[arg(long, conflicts_with_all = ["seed", "mutant"])]
    mutants: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let well = if let Some(seed) = args.seed {
        one(seed, args.mutant)
    } else if args.mutants {
        every_mutant(args.from, args.seeds)
    } else {
        many(&args)
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64, mutant: Option<Mutant>) -> bool {
    let plan = Plan::of(seed);
    let verdict = run(&plan, mutant, true);
    println!("seed {seed}\n{plan}\n{}", verdict.story.join("\n"));
    if verdict.broken.is_empty() {
        println!("\nall promises held");
        return true;
    }
    println!("\n{}\n\n{}", verdict.broken.join("\n"), explain(seed, mutant));
    false
}

fn many(args: &Args) -> bool {
    let progress = bar(args.seeds);
    let outcome = campaign(args.from, args.seeds, args.mutant, args.failures, &|_| progress.inc(1));
    progress.finish_and_clear();
    println!("{} seeds, {} jobs, {} calls to models", outcome.runs, outcome.jobs, outcome.calls);
    println!("{:>10}  what went wrong", "times");
    for (what, times) in &outcome.struck {
        println!("{times:>10}  {what}");
    }
    for (seed, broken) in &outcome.failures {
        println!("seed {seed}: {broken}");
    }
    match outcome.failures.first() {
        None => println!("all promises held"),
        Some((seed, _)) => println!("{}", explain(*seed, args.mutant)),
    }
    outcome.failures.is_empty()
}

fn every_mutant(from: u64, seeds: u64) -> bool {
    let mut all_caught = true;
    println!("{:<24} {:>6}  caught by", "mutant", "seeds");
    for mutant in Mutant::ALL {
        let outcome = campaign(from, seeds, Some(mutant), 1, &|_| {});
        let (count, how) = match outcome.failures.first() {
            Some((seed, broken)) => (seed - from + 1, broken.as_str()),
            None => (outcome.runs, "NOT CAUGHT"),
        };
        all_caught &= !outcome.failures.is_empty();
        println!("{:<24} {count:>6}  {how}", format!("{mutant:?}"));
    }
    all_caught
}

fn bar(seeds: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    ProgressBar::new(seeds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
