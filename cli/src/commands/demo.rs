//! `everypage demo`: processes a report with failing models; nothing leaves this machine.

use std::{collections::HashMap, path::Path, sync::Arc};

use console::style;
use everypage_core::{
    event::{Aggregate, Event, decode},
    finish::{result::ResultDocument, results},
    intake::submit::{Submission, submit},
    job::{Job, JobEvent, JobOptions, RequestSource},
    ports::traces::NoTraces,
    providers::target::{Provider, Target, Tier},
    read::{
        breaker::BreakerEvent,
        breakers,
        outcome::{PageEvent, Settlement},
    },
    settings::Settings,
};
use everypage_local::LocalBackend;
use everypage_scripted_provider::{Script, ScriptedProvider};
use jiff::Timestamp;
use tokio::sync::broadcast;

use super::breakers::table;
use crate::{
    exit::Exit,
    find, human,
    problem::Problem,
    progress::call_result,
    screen::Screen,
    settings::{Context, open_local},
    summary,
    table::Table,
};

const NAME: &str = "harbour-report-2026.pdf";
const SAMPLE: &[u8] = include_bytes!("../../../samples/harbour-report-2026.pdf");
/// A letter that only exists as a scan.
const SCANNED_PAGE: u32 = 9;
/// A map that every model refuses to read, to show a fallback.
const REFUSED_PAGE: u32 = 10;
/// What a vision model would read from the scan; the scripted one can't see it.
const LETTER: &str = r"LINDHOLM HARBOUR OFFICE\n14th May 1926\n\nTo the Council of the Town.\n\nGentlemen,\n\nI have the honour to report that the new crane was tried on Tuesday last, and lifted eleven tons from the deck of the Aurora without complaint.\n\nThe men ask that the bell at the quay be rung not before six. I believe this to be reasonable, and have so ordered.\n\nThree hundred and four vessels have entered since the first of January; none was turned away.\n\nYour obedient servant,\n\nH. Lindqvist\nHarbour Master\n\n[Stamp: RECEIVED 17 MAY 1926]";
const WIDTH: usize = 78;

pub async fn run(context: &Context) -> Result<Exit, Problem> {
    super::only_local(context, "`demo` works on this machine and uses no stack; leave out --backend aws")?;
    let screen = &context.screen;
    let folder = tempfile::tempdir()
        .map_err(|error| Problem::Failed(format!("no temporary folder could be created: {error}")))?;
    let file = folder.path().join(NAME);
    std::fs::write(&file, SAMPLE).map_err(|error| Problem::unwritable(&file, &error))?;
    // Only the settings' defaults count here, not the environment.
    let steps = settings(None)?.failover_order().steps(Tier::Primary);
    let provider = ScriptedProvider::start(script(&steps)?)
        .await
        .map_err(|error| Problem::Failed(format!("no port of 127.0.0.1 could be opened: {error}")))?;
    let settings = settings(Some(&provider))?;
    let backend = Arc::new(open_local(&settings, &folder.path().join("data"), Arc::new(NoTraces)).await?);

    opening(screen, &steps)?;
    let started = backend.app.store.clock.now();
    let (job, document) = tokio::select! {
        done = process(&backend, &file, screen, started) => done?,
        ended = backend.run() => {
            ended?;
            return Err(Problem::Failed("the backend stopped before the work was done".into()));
        }
        _ = tokio::signal::ctrl_c() => return Ok(Exit::Cancelled),
    };

    heading(screen, "Model calls")?;
    let mut models = Table::new(["MODEL", "CALLS", "RESULTS"]).right(&[1]);
    for step in &steps {
        let calls = provider.calls().iter().filter(|call| call.model == step.model).count();
        models.row([step.to_string(), calls.to_string(), results(step, &document)]);
    }
    indented(screen, &models)?;

    heading(screen, "Circuit breakers")?;
    let all = breakers::all(&backend.app.reader.breakers).await?;
    indented(screen, &table(&all, backend.app.store.clock.now()))?;

    heading(screen, "Source of each page's text")?;
    for line in wrapped_origins(&document) {
        screen.print_line(&line)?;
    }

    heading(screen, "Text of page 9, a scan without text of its own")?;
    let read = document.pages.iter().find(|page| page.page.get() == SCANNED_PAGE);
    for line in read.iter().flat_map(|page| page.text.lines()).filter(|line| !line.is_empty()).take(6) {
        for line in wrap(line, WIDTH - 4) {
            screen.print_line(&format!("  {} {line}", style("│").dim()))?;
        }
    }
    closing(context, &job, started)
}

/// Short timeouts, and base URLs on this machine.
fn settings(provider: Option<&ScriptedProvider>) -> Result<Settings, Problem> {
    let keys = || Provider::api_key_variables().into_iter().map(|name| (name, "demo".to_owned()));
    let mut variables: HashMap<&str, String> = match provider {
        Some(provider) => provider.environment().into_iter().flatten().collect(),
        None => keys().collect(),
    };
    variables.extend([
        ("REQUEST_TIMEOUT", "2s".to_owned()),
        ("JOB_TIMEOUT", "30s".to_owned()),
        // The first scan would start a build of the OCR program, and the models read the only one here.
        ("OCR", "off".to_owned()),
    ]);
    let reading = Settings::read(|name| variables.get(name).cloned());
    reading.map(|reading| reading.settings).map_err(|faults| Problem::Failed(faults.join("; ")))
}

fn script(steps: &[Target]) -> Result<Script, Problem> {
    let rules = [
        format!("page={REFUSED_PAGE}=refusal;delay=200ms"),
        format!("{}=503", steps[0]),
        format!("{}=hang", steps[1]),
        format!("page={SCANNED_PAGE}=text=\"{LETTER}\";delay=400ms"),
        "answer;delay=300ms".to_owned(),
    ];
    Script::parse(rules).map_err(|error| Problem::Failed(error.to_string()))
}

fn heading(screen: &Screen, text: &str) -> Result<(), Problem> {
    screen.print_line(&format!("\n{}", style(text).bold()))
}

fn indented(screen: &Screen, table: &Table) -> Result<(), Problem> {
    table.lines(Some(WIDTH - 2)).iter().try_for_each(|line| screen.print_line(&format!("  {line}")))
}

fn opening(screen: &Screen, steps: &[Target]) -> Result<(), Problem> {
    screen.print_line(&format!(
        "{}\nTwelve pages: text, tables, a chart, a photo, a scanned letter, and a map that\nno model wants to read. The models:\n",
        style("Everypage processes the harbour report").bold()
    ))?;
    let failures = [
        style("down: every call gets HTTP 503").red(),
        style("hangs: accepts calls and never answers").red(),
        style("works").green(),
        style("works").green(),
    ];
    for (step, failure) in steps.iter().zip(failures) {
        screen.print_line(&format!("  {:28} {failure}", step.to_string()))?;
    }
    screen.print_line("\nA model call times out after 2 s, the report after 30 s. Everything runs on this\nmachine: a scripted provider stands in for the models.\n")
}

async fn process(
    backend: &LocalBackend,
    file: &Path,
    screen: &Screen,
    started: Timestamp,
) -> Result<(Job, ResultDocument), Problem> {
    let app = &backend.app;
    let mut events = backend.bus.subscribe();
    let submission = Submission {
        tenant: find::tenant(&app.settings),
        user: None,
        source: RequestSource::Cli,
        name: NAME.into(),
        file: file.to_owned(),
        password: None,
        options: JobOptions::from_settings(&app.settings),
        traceparent: None,
        idempotency_key: None,
    };
    let id = submit(&app.intake, submission).await?.job.id;
    let show = |event: &Event| match line(event) {
        None => Ok(()),
        Some(line) => {
            let at = human::between(started, event.timestamp);
            screen.print_line(&format!("  {} {line}", style(format!("{at:>7}")).dim()))
        }
    };
    let ended = backend.wait_for(&id);
    tokio::pin!(ended);
    let job = loop {
        tokio::select! {
            job = &mut ended => break job?,
            event = events.recv() => match event {
                Ok(event) => show(&event)?,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => break ended.await?,
            },
        }
    };
    backend.drain(&id).await?;
    backend.flush().await?;
    while let Ok(event) = events.try_recv() {
        show(&event)?;
    }
    let document = results::read_document(app.blobs.as_ref(), &job, None).await?.ok_or_else(|| {
        let reason = job.failure.as_ref().map_or("it has no result", |failure| &failure.reason);
        Problem::Failed(format!("the sample was not processed: {reason}"))
    })?;
    Ok((job, document))
}

/// An event as a line of output; most have none.
fn line(event: &Event) -> Option<String> {
    match &event.aggregate {
        Aggregate::Job(_) => match decode(event).ok()? {
            JobEvent::Understood(survey) => Some(format!(
                "{} read by MuPDF: {} plain text, {} with graphics",
                human::count(survey.page_count() as usize, "page", "pages"),
                survey.text_only,
                survey.has_graphics
            )),
            JobEvent::Executed(result) => Some(format!(
                "{}",
                style(format!("published: {} pages, every one with text", result.metadata.total_pages))
                    .green()
            )),
            _ => None,
        },
        Aggregate::Breaker(target) => match decode(event).ok()? {
            BreakerEvent::Opened { .. } => {
                Some(format!("{target} {}; its breaker opens, later pages skip it", style("fails").red()))
            }
            _ => None,
        },
        Aggregate::Page(_, page) => {
            let PageEvent::Settled(outcome) = decode(event).ok()?;
            Some(format!("page {:<2} {}", page.get(), page_line(&outcome)))
        }
        Aggregate::DeadLetter(_)
        | Aggregate::Account(_)
        | Aggregate::Purchase(_)
        | Aggregate::Tenant(_)
        | Aggregate::Erasure(_) => None,
    }
}

fn page_line(outcome: &Settlement) -> String {
    let took = human::between(outcome.started_at, outcome.settled_at);
    match &outcome.target {
        Some(target) => format!("read by {target} in {took}"),
        None => {
            let last = outcome.calls.last();
            let result = last.map_or("was not called", |call| call_result(call.result));
            format!("{} MuPDF's text (the last model {result})", style("falls back to").yellow())
        }
    }
}

/// The results of the calls to one model, counted.
fn results(target: &Target, document: &ResultDocument) -> String {
    let mut counted: Vec<(&'static str, usize)> = Vec::new();
    let calls = document.pages.iter().flat_map(|page| &page.calls);
    for call in calls.filter(|call| call.target == *target) {
        let result = call_result(call.result);
        match counted.iter_mut().find(|(known, _)| *known == result) {
            Some((_, count)) => *count += 1,
            None => counted.push((result, 1)),
        }
    }
    let counted: Vec<String> = counted.iter().map(|(result, count)| format!("{count} {result}")).collect();
    counted.join(", ")
}

fn wrapped_origins(document: &ResultDocument) -> Vec<String> {
    summary::origin_lines(document)
        .iter()
        .map(|line| console::truncate_str(line, WIDTH, "…").into_owned())
        .collect()
}

fn closing(context: &Context, job: &Job, started: Timestamp) -> Result<Exit, Problem> {
    let (screen, program) = (&context.screen, &context.program);
    let took = human::between(started, job.finished_at.unwrap_or(started));
    heading(screen, "What just happened")?;
    let summary = format!(
        "MuPDF read the text of every page before the first model call, so every page had text from the \
         start. The four pages with graphics went to the models. The first model failed and the second one \
         never answered; after three failures in a row its circuit breaker opens, and later pages skip it \
         without waiting. The third model read three pages; the one that every model refused fell back to \
         MuPDF's text and is marked so. The report was complete after {took}."
    );
    for line in wrap(&summary, WIDTH) {
        screen.print_line(&line)?;
    }
    heading(screen, "Your own documents")?;
    for (command, what) in [
        ("export OPENAI_API_KEY=…".to_owned(), "or ANTHROPIC_API_KEY, or both"),
        (format!("{program} process report.pdf > report.txt"), "one document"),
        (format!("{program} process *.pdf -o out"), "several documents"),
        (format!("{program} heal JOB"), "retry the pages that fell back"),
        (format!("{program} config check"), "list every setting"),
    ] {
        screen.print_line(&format!("  {command:44} {}", style(what).dim()))?;
    }
    // The demo is complete, although page 10 has no AI text.
    Ok(Exit::Complete)
}

/// Lines of at most `width`, broken between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use everypage_core::settings::OcrPages;

    #[test]
    fn the_script_of_the_demo_is_valid() {
        let steps = settings(None).unwrap().failover_order().steps(Tier::Primary);
        assert_eq!(steps.len(), 4);
        assert_eq!(script(&steps).unwrap().rules.len(), 5);
    }

    #[test]
    fn nothing_is_built_or_downloaded_in_the_background() {
        assert_eq!(settings(None).unwrap().ocr, OcrPages::Off);
    }

    #[test]
    fn words_are_kept_whole_and_lines_short() {
        let text = "the quick brown fox jumps over the lazy dog";
        let lines = wrap(text, 16);
        assert!(lines.iter().all(|line| line.len() <= 16));
        assert_eq!(lines.join(" "), text);
    }
}
