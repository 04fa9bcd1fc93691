//! `everypage events`: reads and verifies the audit trail.

use everypage_core::{
    event::{Aggregate, Event},
    events::trail,
    finish::verify::verify_job,
};
use serde_json::{Value, json};

use crate::{
    args::{Events, Listing},
    backend::Backend,
    exit::Exit,
    find, human,
    problem::Problem,
    screen::Screen,
    settings::Context,
    table::Table,
};

pub async fn run(context: &Context, command: Events) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let (app, screen) = (backend.app(), &context.screen);
    match command {
        Events::Verify { job, listing } => {
            let job = find::job(app, &job.job).await?;
            let report = verify_job(&app.store, app.blobs.as_ref(), &job.id).await?;
            if listing.json {
                screen.print_json(&json!({
                    "job": job.id,
                    "job_events": report.job_events,
                    "page_events": report.page_events,
                    "findings": report.findings,
                }))?;
            } else if report.findings.is_empty() {
                screen.print_line(&format!(
                    "the audit trail of job {} is intact: {} and {} checked",
                    job.id,
                    human::count(report.job_events, "event of the job", "events of the job"),
                    human::count(report.page_events, "of its pages", "of its pages"),
                ))?;
            }
            for finding in &report.findings {
                screen.error(finding);
            }
            Ok(match report.findings.is_empty() {
                true => Exit::Complete,
                false => Exit::Failed,
            })
        }
        Events::List { kind, since, limit, listing } => {
            let now = app.store.clock.now();
            let since =
                since.map(|text| human::parse_time(&text, now)).transpose().map_err(Problem::Usage)?;
            let mut events =
                trail::since(&app.store, &find::tenant(app), since, kind.as_deref(), usize::MAX).await?;
            let older = events.len().saturating_sub(limit);
            events.drain(..older);
            show(screen, &events, listing, true)?;
            if older > 0 {
                screen.note(&format!("{older} older events are not shown; see --limit"));
            }
            Ok(Exit::Complete)
        }
    }
}

/// Prints a table or JSON; `about` adds the job to each event.
pub fn show(screen: &Screen, events: &[Event], listing: Listing, about: bool) -> Result<(), Problem> {
    if listing.json {
        return screen.print_json(&events);
    }
    if events.is_empty() {
        screen.note("no events");
        return Ok(());
    }
    let mut table = Table::new(["TIME", "TYPE", "SUBJECT", "DETAILS"]);
    for event in events {
        let subject = match &event.aggregate {
            Aggregate::Job(job) if about => job.to_string(),
            Aggregate::Page(job, page) if about => format!("{job} p{page}"),
            Aggregate::Job(_) => "job".into(),
            Aggregate::Page(_, page) => format!("page {page}"),
            Aggregate::Breaker(target) => target.clone(),
            Aggregate::DeadLetter(id) => id.to_string(),
            Aggregate::Account(tenant) => format!("account of {tenant}"),
            Aggregate::Purchase(id) => format!("purchase {id}"),
            Aggregate::Tenant(tenant) => format!("tenant {tenant}"),
        };
        table.row([human::time(event.timestamp), event.kind.clone(), subject, details(event)]);
    }
    screen.print(table.text().as_bytes())
}

fn deadline(event: &Event) -> Option<String> {
    let deadline: jiff::Timestamp = event.data.get("deadline")?.as_str()?.parse().ok()?;
    Some(format!("deadline {}", human::time(deadline)))
}

/// The main fields of an event's data, on one line.
fn details(event: &Event) -> String {
    let text = |path: &str| match event.data.pointer(path) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let named = |name: &str, path: &str| text(path).map(|value| format!("{name} {value}"));
    let facts: Vec<Option<String>> = match event.kind.as_str() {
        "job.received" => vec![text("/document/name"), named("by", "/source")],
        "job.acked" => vec![deadline(event)],
        "job.understood" => vec![named("pages", "/document_pages"), named("with graphics", "/has_graphics")],
        "job.proposed" | "job.modified" => vec![
            named("for AI", "/ai_pages").or_else(|| named("for AI", "/plan/ai_pages")),
            text("/approval"),
            text("/no_ai_reason"),
        ],
        "job.executed" => vec![named("version", "/version")],
        "job.healed" | "job.cancelled" => vec![named("version", "/result/version")],
        "job.audited" => vec![named("credits", "/credits")],
        kind if kind.starts_with("credit.") => vec![text("/credits"), text("/job"), text("/cause/kind")],
        "saga.started" => vec![named("credits", "/credits"), named("by", "/by")],
        "page.settled" => vec![text("/source"), text("/target/model"), text("/fallback_reason")],
        _ => vec![text("/step"), text("/reason"), text("/cause"), named("by", "/by")],
    };
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
