//! `everypage events`: reads and verifies the audit trail.

use everypage_core::{
    app::App,
    event::{Aggregate, Event},
    events::trail,
    finish::{
        verify::verify_job,
        verify_aggregate::{Verified, aggregates, replay, verify_aggregate},
    },
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
        Events::Verify { aggregate: None, listing, .. } => verify_all(&backend, screen, listing).await,
        Events::Verify { aggregate: Some(name), listing, .. } => {
            let aggregate = named(app, &name).await?;
            let Aggregate::Job(job) = &aggregate else {
                let verified =
                    verify_aggregate(&app.store, &app.tenants, app.blobs.as_ref(), &aggregate).await?;
                if verified.events == 0 && verified.findings.is_empty() {
                    return Err(Problem::Failed(format!("{aggregate} has no events")));
                }
                return report(screen, listing, vec![verified]);
            };
            let job = find::job(app, job.as_str()).await?;
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
        Events::Replay { aggregate } => {
            let aggregate = named(app, &aggregate).await?;
            let state = replay(&app.store, &aggregate).await?.map_err(Problem::Failed)?;
            if state.is_null() {
                return Err(Problem::Failed(format!("{aggregate} has no events")));
            }
            screen.print_json(&state)?;
            Ok(Exit::Complete)
        }
        Events::List { kind, aggregate, since, limit, listing } => {
            let now = app.store.clock.now();
            let since =
                since.map(|text| human::parse_time(&text, now)).transpose().map_err(Problem::Usage)?;
            let mut events = match aggregate {
                None => {
                    trail::since(&app.store, &find::tenant(&app.settings), since, kind.as_deref(), usize::MAX)
                        .await?
                }
                Some(aggregate) => {
                    let mut events = trail::read(&app.store, &aggregate).await?;
                    events.retain(|event| {
                        kind.as_ref().is_none_or(|kind| *kind == event.kind)
                            && since.is_none_or(|since| event.timestamp >= since)
                    });
                    events
                }
            };
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

/// The aggregate of this name; a name without a kind is a job's id, or a unique prefix of it.
async fn named(app: &App, name: &str) -> Result<Aggregate, Problem> {
    match name.contains('/') {
        true => name.parse().map_err(|error: String| {
            Problem::Usage(format!(
                "{error}: job/ID, job/ID/page/N, account/TENANT, purchase/ID, dead_letter/ID, breaker/TARGET, tenant/TENANT or erasure/ID"
            ))
        }),
        false => Ok(Aggregate::Job(find::job(app, name).await?.id)),
    }
}

async fn verify_all(backend: &Backend, screen: &Screen, listing: Listing) -> Result<Exit, Problem> {
    let app = backend.app();
    let mut all = Vec::new();
    for aggregate in aggregates(&app.store, &find::tenant(&app.settings)).await? {
        all.push(verify_aggregate(&app.store, &app.tenants, app.blobs.as_ref(), &aggregate).await?);
    }
    report(screen, listing, all)
}

fn report(screen: &Screen, listing: Listing, all: Vec<Verified>) -> Result<Exit, Problem> {
    let is_intact = all.iter().all(|verified| verified.findings.is_empty());
    if listing.json {
        screen.print_json(&all)?;
    } else if is_intact {
        let events = all.iter().map(|verified| verified.events).sum();
        screen.print_line(&match &all[..] {
            [one] => format!(
                "the audit trail of {} is intact: {} checked",
                one.aggregate,
                human::count(events, "event", "events")
            ),
            all => format!(
                "{} are intact: {} checked",
                human::count(all.len(), "audit trail", "audit trails"),
                human::count(events, "event", "events")
            ),
        })?;
    }
    for verified in &all {
        for finding in &verified.findings {
            screen.error(&format!("{}: {finding}", verified.aggregate));
        }
    }
    Ok(if is_intact { Exit::Complete } else { Exit::Failed })
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
            Aggregate::Erasure(id) => format!("erasure {id}"),
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
        "job.acked" => {
            vec![text("/place").map_or_else(|| deadline(event), |place| Some(format!("place {place}")))]
        }
        "job.admitted" => vec![deadline(event)],
        "job.understood" => vec![named("pages", "/document_pages"), named("with graphics", "/has_graphics")],
        "job.proposed" | "job.modified" => vec![
            named("for AI", "/ai_pages").or_else(|| named("for AI", "/plan/ai_pages")),
            text("/approval"),
            text("/no_ai_reason"),
        ],
        "job.executed" => vec![named("version", "/version")],
        "job.healed" | "job.cancelled" => vec![named("version", "/result/version")],
        "job.audited" => vec![named("credits", "/credits")],
        "account.repaired" => vec![named("by", "/by"), text("/findings/0")],
        kind if kind.starts_with("credit.") => vec![text("/credits"), text("/job"), text("/cause/kind")],
        "saga.started" => vec![named("credits", "/credits"), named("by", "/by")],
        "page.settled" => vec![text("/source"), text("/target/model"), text("/fallback_reason")],
        _ => vec![text("/step"), text("/reason"), text("/cause"), named("by", "/by")],
    };
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
