//! `everypage dev torture`: a folder of PDFs, and how each of them ends.

use std::{io::Read, num::NonZeroUsize, path::Path, time::Duration};

use console::style;
use everypage_pdf::{ChildCommand, IsolatedPdf};
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    args::Torture,
    exit::Exit,
    output,
    problem::Problem,
    settings::{Context, own_program},
    torture::{self, End, Ended, Order, Report, pdfs_in, put_through},
};

pub async fn run(context: &Context, args: Torture) -> Result<Exit, Problem> {
    let files = pdfs_in(&args.files)
        .map_err(|(path, error)| Problem::Usage(format!("{} can't be read: {error}", path.display())))?;
    if files.is_empty() {
        return Err(Problem::Usage(
            "there is no PDF there: name files, or folders with files that end in .pdf".into(),
        ));
    }
    let order = order(context, &args)?;
    let (screen, program) = (&context.screen, own_program()?);
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let bar = screen.bars.add(ProgressBar::new(files.len() as u64));
    if let Ok(style) = ProgressStyle::with_template("{bar:30.cyan/dim} {pos}/{len}  {elapsed}  {msg:.red}") {
        bar.set_style(style);
    }
    let mut ends =
        stream::iter(files.into_iter().map(|file| put_through(&program, file, &order))).buffered(jobs);
    let mut report = Report::default();
    loop {
        let ended = tokio::select! {
            ended = ends.next() => ended,
            _ = tokio::signal::ctrl_c() => {
                bar.finish_and_clear();
                screen.print_line(&report.summary())?;
                return Ok(Exit::Cancelled);
            }
        };
        let Some(ended) = ended else { break };
        if !screen.is_quiet() || matches!(ended.end, End::Defect { .. }) {
            screen.print_line(&line(&ended))?;
        }
        report.add(ended);
        bar.inc(1);
        if report.counts.defects > 0 {
            bar.set_message(crate::human::count(report.counts.defects as usize, "defect", "defects"));
        }
    }
    bar.finish_and_clear();
    screen.print_line(&format!("\n{}", report.summary()))?;
    for defect in report.defects() {
        screen.print_line(&format!(
            "\n{}\n  again: {}",
            line(defect),
            replay(context, &defect.file, &args)
        ))?;
    }
    if let Some(path) = &args.json {
        output::write(path, &serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(match report.counts.defects {
        0 => Exit::Complete,
        _ => Exit::Failed,
    })
}

/// `everypage dev torture-file`: reads one file for the command above, which says how on stdin.
pub async fn one(context: &Context, file: &Path) -> Result<Exit, Problem> {
    let mut request = Vec::new();
    std::io::stdin()
        .read_to_end(&mut request)
        .map_err(|error| Problem::Usage(format!("`dev torture` starts this: {error}")))?;
    let order: Order = serde_json::from_slice(&request)?;
    let pdf = IsolatedPdf::new(ChildCommand::new(own_program()?).arg("pdf-child"), order.limits)
        .with_children(NonZeroUsize::MIN)
        .with_open_timeout(order.step_timeout);
    let end = torture::read(&pdf, file, &order).await;
    let told = torture::Told { end, losses: pdf.losses() };
    context.screen.print(&serde_json::to_vec(&told)?)?;
    Ok(Exit::Complete)
}

fn order(context: &Context, args: &Torture) -> Result<Order, Problem> {
    let settings = context.settings()?;
    let mut limits = settings.pdf;
    if let Some(bytes) = args.memory_limit {
        limits.max_memory_bytes = bytes;
    }
    Ok(Order {
        limits,
        password: args.password.clone(),
        step_timeout: settings.step_timeout.min(args.time_limit),
        time_limit: args.time_limit,
        range_pages: settings.range_pages,
        image: settings.image,
    })
}

fn line(ended: &Ended) -> String {
    let word = match &ended.end {
        End::Text(_) => style(ended.end.word()).green(),
        End::Error { .. } => style(ended.end.word()).yellow(),
        End::Defect { .. } => style(ended.end.word()).red().bold(),
    };
    format!("{word:6}  {}  {}", ended.file.display(), ended.end.line())
}

/// What to type to see a defect again.
fn replay(context: &Context, file: &Path, args: &Torture) -> String {
    let shown = |time: Duration| format!("{}ms", time.as_millis());
    let quoted = file.display().to_string().replace('\'', r"'\''");
    let mut command =
        format!("{} dev torture '{quoted}' --time-limit {}", context.program, shown(args.time_limit));
    if let Some(bytes) = args.memory_limit {
        command += &format!(" --memory-limit {bytes}");
    }
    if args.password.is_some() {
        command += " --password …";
    }
    command
}
