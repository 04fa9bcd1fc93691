//! Runs every measurement and prints them side by side.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};

use crate::measure::Measured;

/// The best of this many rounds counts: other load on the machine can only make a round slower.
const ROUNDS: u32 = 3;

/// Label, method and kind of work; methods that start with `py-` run in Python.
const ROWS: [(&str, &str, &str); 10] = [
    ("text", "here", "text"),
    ("text", "py-here", "text"),
    ("text + class", "here", "classify"),
    ("text + class", "py-here", "classify"),
    ("text + class", "isolated", "classify"),
    ("text + class", "py-pool", "classify"),
    ("text + class + JPEG", "here", "render"),
    ("text + class + JPEG", "py-here", "render"),
    ("text + class + JPEG", "isolated", "render"),
    ("text + class + JPEG", "py-pool", "render"),
];

pub fn print(file: &Path, python: &Path, script: &Path) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    println!("{} on {cores} cores; JPEG is quality 70 at 100 dpi, every page", file.display());
    println!(
        "best of {ROUNDS} rounds; `isolated` and `pool` use {cores} processes; ratios compare with the PyMuPDF row of the same work\n"
    );
    println!(
        "{:<20} {:<18} {:>6} {:>9} {:>12} {:>9} {:>8} {:>10} {:>10}",
        "work", "method", "pages", "pages/s", "pages/CPU s", "peak MB", "ratio", "text chars", "image MB"
    );
    let mut results: Vec<(&str, &str, Measured)> = Vec::new();
    for (name, method, work) in ROWS {
        let mut best: Option<Measured> = None;
        for _ in 0..ROUNDS {
            let measured =
                measure(method, work, file, python, script).with_context(|| format!("{method} {work}"))?;
            if best.as_ref().is_none_or(|best| measured.wall_seconds < best.wall_seconds) {
                best = Some(measured);
            }
        }
        results.push((name, method, best.context("nothing was measured")?));
    }
    for (name, method, measured) in &results {
        let compared_with = match *method {
            "here" => "py-here",
            "isolated" => "py-pool",
            _ => "",
        };
        let ratio = results
            .iter()
            .find(|(other, by, _)| other == name && *by == compared_with)
            .map(|(_, _, other)| format!("{:.2}x", other.wall_seconds / measured.wall_seconds));
        println!(
            "{:<20} {:<18} {:>6} {:>9.0} {:>12.0} {:>9.0} {:>8} {:>10} {:>10.1}",
            name,
            label(method),
            measured.pages,
            f64::from(measured.pages) / measured.wall_seconds,
            f64::from(measured.pages) / measured.cpu_seconds,
            measured.peak_mb,
            ratio.unwrap_or_default(),
            measured.text_chars,
            measured.image_bytes as f64 / 1e6,
        );
    }
    Ok(())
}

fn label(method: &str) -> &str {
    match method {
        "here" => "Everypage 1 thread",
        "isolated" => "Everypage isolated",
        "py-here" => "PyMuPDF 1 process",
        _ => "PyMuPDF pool",
    }
}

fn measure(method: &str, work: &str, file: &Path, python: &Path, script: &Path) -> anyhow::Result<Measured> {
    let mut command = match method.strip_prefix("py-") {
        Some(method) => {
            let mut command = Command::new(python);
            command.arg(script).arg(method).arg(work);
            command
        }
        None => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["measure", method, work]);
            command
        }
    };
    let output = command.arg(file).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("no measurement came back")
}
