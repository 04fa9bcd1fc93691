//! `everypage demo`: a report is read while models fail, and nothing leaves this machine.

use std::{path::Path, sync::Arc};

use console::style;
use everypage_core::{
    config::Settings,
    domain::{
        breaker::BreakerEvent,
        event::{Aggregate, Event, decode},
        job::{Job, JobEvent},
        outcome::{Outcome, PageEvent},
        result::ResultDocument,
        target::{Target, Tier},
    },
    ports::traces::NoTraces,
    store::breakers,
    usecases::{
        intake::{Submission, submit},
        result,
    },
};
use everypage_local::LocalBackend;
use everypage_testkit::provider::{Script, ScriptedProvider};
use jiff::Timestamp;
use tokio::sync::broadcast;

use super::breakers::table;
use crate::{
    exit::Exit,
    find, human,
    problem::Problem,
    progress::attempt_word,
    screen::Screen,
    settings::{Context, open_engine},
    summary,
    table::Table,
};

const NAME: &str = "harbour-report-2026.pdf";
const SAMPLE: &[u8] = include_bytes!("../../../samples/harbour-report-2026.pdf");
/// A letter that only exists as a scan.
const SCANNED_PAGE: u32 = 9;
/// A map that every model declines to read, for the show.
const DECLINED_PAGE: u32 = 10;
/// What a vision model would read from the scan. The scripted one can't see.
const LETTER: &str = r"LINDHOLM HARBOUR OFFICE\n14th May 1926\n\nTo the Council of the Town.\n\nGentlemen,\n\nI have the honour to report that the new crane was tried on Tuesday last, and lifted eleven tons from the deck of the Aurora without complaint.\n\nThe men ask that the bell at the quay be rung not before six. I believe this to be reasonable, and have so ordered.\n\nThree hundred and four vessels have entered since the first of January; none was turned away.\n\nYour obedient servant,\n\nH. Lindqvist\nHarbour Master\n\n[Stamp: RECEIVED 17 MAY 1926]";
const WIDTH: usize = 78;

pub async fn run(context: &Context) -> Result<Exit, Problem> {
    super::only_local(
        context,
        "`demo` shows everything on this machine and uses no stack; leave --engine aws out",
    )?;
    let screen = &context.screen;
    let folder = tempfile::tempdir()
        .map_err(|error| Problem::Failed(format!("no temporary folder could be made: {error}")))?;
    let file = folder.path().join(NAME);
    std::fs::write(&file, SAMPLE).map_err(|error| Problem::unwritable(&file, &error))?;
    // The settings' defaults name the models; nothing comes from the environment here.
    let steps = settings(None)?.roster().steps(Tier::Primary);
    let provider = ScriptedProvider::start(script(&steps)?)
        .await
        .map_err(|error| Problem::Failed(format!("no port of 127.0.0.1 could be used: {error}")))?;
    let settings = settings(Some(&provider))?;
    let engine = Arc::new(open_engine(&settings, &folder.path().join("data"), Arc::new(NoTraces)).await?);

    opening(screen, &steps)?;
    let started = engine.app.clock.now();
    let (job, document) = tokio::select! {
        done = process(&engine, &file, screen, started) => done?,
        ended = engine.run() => {
            ended?;
            return Err(Problem::Failed("the engine stopped before the work was done".into()));
        }
        _ = tokio::signal::ctrl_c() => return Ok(Exit::Cancelled),
    };

    heading(screen, "Who was asked")?;
    let mut asked = Table::new(["MODEL", "CALLS", "WHAT CAME OF THEM"]).right(&[1]);
    for step in &steps {
        let calls = provider.calls().iter().filter(|call| call.model == step.model).count();
        asked.row([step.to_string(), calls.to_string(), what_came(step, &document)]);
    }
    indented(screen, &asked)?;

    heading(screen, "Breakers")?;
    let all = breakers::all(&engine.app).await?;
    indented(screen, &table(&all, engine.app.clock.now()))?;

    heading(screen, "Where each page's text came from")?;
    for line in wrapped_origins(&document) {
        screen.print_line(&line)?;
    }

    heading(screen, "What was read from page 9, a scan without any text of its own")?;
    let read = document.pages.iter().find(|page| page.page.get() == SCANNED_PAGE);
    for line in read.iter().flat_map(|page| page.text.lines()).filter(|line| !line.is_empty()).take(6) {
        for line in wrap(line, WIDTH - 4) {
            screen.print_line(&format!("  {} {line}", style("│").dim()))?;
        }
    }
    closing(screen, &job, started)
}

/// Short timeouts, and addresses on this machine.
fn settings(provider: Option<&ScriptedProvider>) -> Result<Settings, Problem> {
    let (openai, anthropic) =
        provider.map(|provider| (provider.openai_base_url(), provider.anthropic_base_url())).unzip();
    let reading = Settings::read(|name| match name {
        "OPENAI_BASE_URL" => openai.clone(),
        "ANTHROPIC_BASE_URL" => anthropic.clone(),
        "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" => Some("demo".into()),
        "REQUEST_TIMEOUT" => Some("2s".into()),
        "JOB_TIMEOUT" => Some("30s".into()),
        _ => None,
    });
    reading.map(|reading| reading.settings).map_err(|faults| Problem::Failed(faults.join("; ")))
}

fn script(steps: &[Target]) -> Result<Script, Problem> {
    let rules = [
        format!("{}=503", steps[0]),
        format!("{}=hang", steps[1]),
        format!("page={DECLINED_PAGE}=refusal;delay=200ms"),
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
        "{}\nTwelve pages: text, tables, a chart, a photo, a scanned letter, a map. Four\nmodels could read them, and the day is a bad one:\n",
        style("Everypage reads the harbour report").bold()
    ))?;
    let moods = [
        style("down: every call gets HTTP 503").red(),
        style("hangs: it takes calls and never answers").red(),
        style("well, but declines to read page 10").green(),
        style("well, but declines to read page 10").green(),
    ];
    for (step, mood) in steps.iter().zip(moods) {
        screen.print_line(&format!("  {:28} {mood}", step.to_string()))?;
    }
    screen.print_line("\nA call may take 2 s here, and the whole report 30 s. All of it runs on this\nmachine: a scripted provider plays the models, and nothing is sent anywhere.\n")
}

async fn process(
    engine: &LocalBackend,
    file: &Path,
    screen: &Screen,
    started: Timestamp,
) -> Result<(Job, ResultDocument), Problem> {
    let app = &engine.app;
    let mut events = engine.bus.subscribe();
    let submission = Submission {
        tenant: find::tenant(app),
        user: None,
        source: "cli".into(),
        name: NAME.into(),
        file: file.to_owned(),
        password: None,
        options: app.settings.default_options(),
        traceparent: None,
        idempotency_key: None,
    };
    let id = submit(app, submission).await?.job.id;
    let told = |event: &Event| match story(event) {
        None => Ok(()),
        Some(line) => {
            let at = human::between(started, event.timestamp);
            screen.print_line(&format!("  {} {line}", style(format!("{at:>7}")).dim()))
        }
    };
    let ended = engine.wait_for(&id);
    tokio::pin!(ended);
    let job = loop {
        tokio::select! {
            job = &mut ended => break job?,
            event = events.recv() => match event {
                Ok(event) => told(&event)?,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => break ended.await?,
            },
        }
    };
    engine.drain(&id).await?;
    engine.flush().await?;
    while let Ok(event) = events.try_recv() {
        told(&event)?;
    }
    let document = result::read_document(app, &job, None).await?.ok_or_else(|| {
        let why = job.failure.as_ref().map_or("it has no result", |failure| &failure.reason);
        Problem::Failed(format!("the sample was not read: {why}"))
    })?;
    Ok((job, document))
}

/// An event as a line of the story; most have none.
fn story(event: &Event) -> Option<String> {
    match &event.aggregate {
        Aggregate::Job(_) => match decode(event).ok()? {
            JobEvent::Understood(survey) => Some(format!(
                "{} opened; {} keep the text that MuPDF reads, {} need eyes",
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
                Some(format!("{target} {}; its breaker opens, later pages pass it by", style("fails").red()))
            }
            _ => None,
        },
        Aggregate::Page(_, page) => {
            let PageEvent::Settled(outcome) = decode(event).ok()?;
            Some(format!("page {:<2} {}", page.get(), page_story(&outcome)))
        }
        Aggregate::DeadLetter(_) | Aggregate::Account(_) | Aggregate::Purchase(_) => None,
    }
}

fn page_story(outcome: &Outcome) -> String {
    let took = human::between(outcome.started_at, outcome.settled_at);
    match &outcome.target {
        Some(target) => format!("read by {target} in {took}"),
        None => {
            let last = outcome.attempts.last();
            let why = last.map_or("nobody was left to ask", |attempt| attempt_word(attempt.result));
            format!("{} (the last model {why})", style("keeps MuPDF's text").yellow())
        }
    }
}

/// How the calls to one model ended, counted.
fn what_came(target: &Target, document: &ResultDocument) -> String {
    let mut counted: Vec<(&'static str, usize)> = Vec::new();
    let attempts = document.pages.iter().flat_map(|page| &page.attempts);
    for attempt in attempts.filter(|attempt| attempt.target == *target) {
        let word = match attempt_word(attempt.result) {
            "resting" => "passed over",
            word => word,
        };
        match counted.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counted.push((word, 1)),
        }
    }
    let said: Vec<String> = counted.iter().map(|(word, count)| format!("{count} {word}")).collect();
    said.join(", ")
}

fn wrapped_origins(document: &ResultDocument) -> Vec<String> {
    summary::origin_lines(document)
        .iter()
        .map(|line| console::truncate_str(line, WIDTH, "…").into_owned())
        .collect()
}

fn closing(screen: &Screen, job: &Job, started: Timestamp) -> Result<Exit, Problem> {
    let took = human::between(started, job.finished_at.unwrap_or(started));
    heading(screen, "What just happened")?;
    let story = format!(
        "Every page was read with MuPDF before any model was asked, so that there was text for each whatever \
         came next. The four pages that need eyes went to the models. The first model failed and the second \
         never answered; at the first failure of each its breaker opened, and the pages that came later went \
         past it at once instead of waiting. The third read what it would; the page that everybody declined kept MuPDF's text, \
         marked as such. The report was complete after {took}."
    );
    for line in wrap(&story, WIDTH) {
        screen.print_line(&line)?;
    }
    heading(screen, "Now with your own")?;
    for (command, what) in [
        ("export OPENAI_API_KEY=…", "or ANTHROPIC_API_KEY, or both"),
        ("everypage process report.pdf > report.txt", "one document"),
        ("everypage process *.pdf -o out", "many"),
        ("everypage heal JOB", "ask again for pages that fell back"),
        ("everypage config check", "all there is to set"),
    ] {
        screen.print_line(&format!("  {command:42} {}", style(what).dim()))?;
    }
    // The demo is complete, whatever its page 10 has to do without.
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

    #[test]
    fn the_script_of_the_demo_can_be_read() {
        let steps = settings(None).unwrap().roster().steps(Tier::Primary);
        assert_eq!(steps.len(), 4);
        assert_eq!(script(&steps).unwrap().rules.len(), 5);
    }

    #[test]
    fn words_are_kept_whole_and_lines_short() {
        let text = "the quick brown fox jumps over the lazy dog";
        let lines = wrap(text, 16);
        assert!(lines.iter().all(|line| line.len() <= 16));
        assert_eq!(lines.join(" "), text);
    }
}
