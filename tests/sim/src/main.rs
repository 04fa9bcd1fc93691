//! `./everypage dev sim`: the command line of the simulation.

use std::process::ExitCode;

use clap::Parser;
use everypage_sim::{
    broken_variants::BrokenVariant,
    campaign::{campaign, explain},
    run::run,
    run_plan::RunPlan,
};
use indicatif::{ProgressBar, ProgressStyle};

/// Run Everypage in virtual time with injected faults, and check every invariant.
#[derive(Parser)]
#[command(name = "everypage dev sim", bin_name = "everypage dev sim")]
struct Args {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 2000, value_name = "N")]
    seeds: u64,
    /// First seed.
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    from: u64,
    /// Run only this seed and print its log.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Stop after this many failing seeds.
    #[arg(long, default_value_t = 1, value_name = "N")]
    failures: usize,
    /// Run a broken variant of Everypage.
    #[arg(long, value_name = "NAME")]
    broken_variant: Option<BrokenVariant>,
    /// Run every broken variant until it is caught, and print how many seeds that took.
    #[arg(long, conflicts_with_all = ["seed", "broken_variant"])]
    broken_variants: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let passed = if let Some(seed) = args.seed {
        run_one(seed, args.broken_variant)
    } else if args.broken_variants {
        run_broken_variants(args.from, args.seeds)
    } else {
        run_many(&args)
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_one(seed: u64, variant: Option<BrokenVariant>) -> bool {
    let plan = RunPlan::from_seed(seed);
    let verdict = run(&plan, variant, true);
    println!("seed {seed}\n{plan}\n{}", verdict.log.join("\n"));
    if verdict.broken.is_empty() {
        println!("\nall invariants held");
        return true;
    }
    println!("\n{}\n\n{}", verdict.broken.join("\n"), explain(seed, variant));
    false
}

fn run_many(args: &Args) -> bool {
    let progress = bar(args.seeds);
    let outcome = campaign(args.from, args.seeds, args.broken_variant, args.failures, &|_| progress.inc(1));
    progress.finish_and_clear();
    println!("{} seeds, {} jobs, {} calls to models", outcome.runs, outcome.jobs, outcome.calls);
    println!("{:>10}  fault", "times");
    for (what, times) in &outcome.fault_counts {
        println!("{times:>10}  {what}");
    }
    for (seed, broken) in &outcome.failures {
        println!("seed {seed}: {broken}");
    }
    match outcome.failures.first() {
        None => println!("all invariants held"),
        Some((seed, _)) => println!("{}", explain(*seed, args.broken_variant)),
    }
    outcome.failures.is_empty()
}

fn run_broken_variants(from: u64, seeds: u64) -> bool {
    let mut all_caught = true;
    println!("{:<24} {:>6}  caught by", "variant", "seeds");
    for variant in BrokenVariant::ALL {
        let outcome = campaign(from, seeds, Some(variant), 1, &|_| {});
        let (count, how) = match outcome.failures.first() {
            Some((seed, broken)) => (seed - from + 1, broken.as_str()),
            None => (outcome.runs, "NOT CAUGHT"),
        };
        all_caught &= !outcome.failures.is_empty();
        println!("{:<24} {count:>6}  {how}", format!("{variant:?}"));
    }
    all_caught
}

fn bar(seeds: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    ProgressBar::new(seeds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
