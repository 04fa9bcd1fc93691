//! `everypage jobs`: lists, shows, cancels, approves and deletes jobs.

use everypage_core::{
    app::App,
    event::Aggregate,
    events::trail,
    finish::{
        delete::delete,
        format::Format,
        page_status::PageStatus,
        produce, provisional,
        result::{PageResult, ResultDocument},
        results,
    },
    ids::JobId,
    job::{Job, State, cancel::cancel, jobs},
    plan::decide::{Decision, decide, modify},
    time::after,
};
use serde_json::{Value, json};

use super::events;
use crate::{
    args::{Ended, Jobs, Listing},
    backend::Backend,
    confirm,
    exit::Exit,
    find, human, output, page_groups,
    problem::Problem,
    settings::{Address, Context},
    summary,
    table::Table,
};

pub async fn run(context: &Context, command: Jobs) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let (app, screen) = (backend.app(), &context.screen);
    match command {
        Jobs::List { limit, listing } => {
            let jobs = jobs::list(&app.store, &find::tenant(&app.settings), limit).await?;
            if listing.json {
                screen.print_json(&jobs.iter().map(to_json).collect::<Vec<_>>())?;
            } else if jobs.is_empty() {
                let command = if context.address == Address::Local { "process" } else { "submit" };
                screen.note(&format!("no jobs yet; `everypage {command} FILE` creates one"));
            } else {
                screen.print(table(&jobs, app.store.clock.now()).text().as_bytes())?;
            }
        }
        Jobs::Show { job, listing } => {
            let job = find::job(app, &job.job).await?;
            show(context, app, &job, listing).await?;
        }
        Jobs::Cancel { job, listing } => {
            let job = find::job(app, &job.job).await?;
            let was_over = job.is_over();
            backend.register().await?;
            let job = cancel(&app.store, app.flow.as_ref(), &app.interrupts, &job.id, "cli").await?;
            let job = backend.end_cancelled(job).await?;
            backend.flush().await?;
            print(
                context,
                &job,
                listing,
                &match (was_over, job.state.is_terminal()) {
                    (true, _) => format!("job {} had ended already ({})", job.id, job.status()),
                    (false, true) => format!("job {} is cancelled", job.id),
                    (false, false) => {
                        format!("job {} will be cancelled by the process that drives it", job.id)
                    }
                },
            )?;
        }
        Jobs::Delete { which, yes } => {
            let ended = ended(app, &which).await?;
            if ended.is_empty() {
                screen.note("no job to delete");
                return Ok(Exit::Complete);
            }
            let what = human::count(ended.len(), "job", "jobs");
            if !yes
                && !confirm::ask(
                    &format!("Delete {what}?"),
                    "Documents, results and audit trails are deleted permanently.",
                )?
            {
                screen.note("nothing was deleted");
                return Ok(Exit::Cancelled);
            }
            backend.register().await?;
            for id in &ended {
                delete(&app.store, app.blobs.as_ref(), id, "cli").await?;
            }
            backend.flush().await?;
            screen.note(&format!("deleted {what}"));
        }
        Jobs::Result { job, format, tables, version, provisional, output, json } => {
            let form = if json { Format::Json } else { format };
            output::check_tables(form, tables)?;
            let job = find::job(app, &job.job).await?;
            if output.is_none() {
                output::check_terminal(form)?;
            }
            let bytes = match produce::read(&app.preparer, &job, form, tables, version).await? {
                Some(bytes) => bytes,
                None if provisional && job.result.is_none() => {
                    let document = document_so_far(app, &job).await?.ok_or_else(|| not_read(&job))?;
                    screen.note(&so_far(&document));
                    produce::produce(&app.preparer, &job, form, tables, &document).await?
                }
                None => return Err(no_result(&job, version)),
            };
            match output {
                Some(path) => output::write(&path, &bytes)?,
                None => screen.print(&bytes)?,
            }
        }
        Jobs::Events { job, listing } => {
            let job = find::job(app, &job.job).await?;
            let mut all = trail::read(&app.store, &Aggregate::Job(job.id.clone())).await?;
            all.extend(trail::read_pages(&app.store, &job.id).await?);
            all.sort_by_key(|event| event.timestamp);
            events::show(screen, &all, listing, false)?;
        }
        Jobs::Approve { job, listing } => {
            let job = find::job(app, &job.job).await?;
            needs_approval(&job)?;
            backend.register().await?;
            let job = decide(&app.planner, &job.id, "cli", Decision::Approve).await?;
            return approved(context, &backend, &job, listing, "approved").await;
        }
        Jobs::Modify { job, changes, listing } => {
            let job = find::job(app, &job.job).await?;
            needs_approval(&job)?;
            backend.register().await?;
            let (overrides, now) = (changes.overrides(), app.store.clock.now());
            let job = modify(&app.planner, &job.id, "cli", |job| {
                job.received.options = overrides.apply_to(job.received.options.clone());
                if let Some(time) = overrides.deadline {
                    job.deadline = after(now, time);
                }
            });
            return approved(context, &backend, &job.await?, listing, "modified and approved").await;
        }
        Jobs::Reject { job, reason, listing } => {
            let job = find::job(app, &job.job).await?;
            needs_approval(&job)?;
            backend.register().await?;
            let job = decide(&app.planner, &job.id, "cli", Decision::Reject { reason }).await?;
            backend.flush().await?;
            print(context, &job, listing, &format!("job {} is rejected", job.id))?;
        }
    }
    Ok(Exit::Complete)
}

/// Reports a plan that a person approved, or that was rejected all the same, for lack of credits.
async fn approved(
    context: &Context,
    backend: &Backend,
    job: &Job,
    listing: Listing,
    how: &str,
) -> Result<Exit, Problem> {
    backend.flush().await?;
    if let Some(failure) = job.failure.as_ref().filter(|_| job.state == State::Rejected) {
        print(context, job, listing, &format!("job {} is rejected: {}", job.id, failure.reason))?;
        return Ok(Exit::Failed);
    }
    let next = match backend.is_driven(&job.id).await? {
        true => "",
        false => "; `everypage resume` continues it",
    };
    print(context, job, listing, &format!("job {} is {how}{next}", job.id))?;
    Ok(Exit::Complete)
}

fn needs_approval(job: &Job) -> Result<(), Problem> {
    match job.awaits_approval() {
        true => Ok(()),
        false => {
            Err(Problem::Failed(format!("job {} does not wait for approval: it is {}", job.id, job.status())))
        }
    }
}

fn no_result(job: &Job, version: Option<u32>) -> Problem {
    if let Some(at) = job.content_removed_at {
        return Problem::Failed(format!(
            "the document and results of job {} were removed on {}; its events are still there",
            job.id,
            human::time(at)
        ));
    }
    Problem::Failed(match (version, &job.result, &job.failure) {
        (Some(version), Some(result), _) => {
            format!("job {} has no version {version} of its result; the latest is {}", job.id, result.version)
        }
        (_, None, Some(failure)) => format!("job {} has no result: {}", job.id, failure.reason),
        _ if !job.is_over() && job.survey.is_some() => format!(
            "job {} has no result yet: it is {}; --provisional prints the document as it stands",
            job.id,
            job.status()
        ),
        _ if !job.is_over() => format!("job {} has no result yet: it is {}", job.id, job.status()),
        _ => format!("job {} has no result: it is {}", job.id, job.status()),
    })
}

/// The document of a job without a result, as it stands.
async fn document_so_far(app: &App, job: &Job) -> Result<Option<ResultDocument>, Problem> {
    Ok(provisional::provisional(&app.store, app.blobs.as_ref(), job).await?)
}

/// Why there is no provisional result.
fn not_read(job: &Job) -> Problem {
    match job.is_over() {
        true => no_result(job, None),
        false => Problem::Failed(format!(
            "the text of job {} is not read yet: it is {}; retry in a few seconds",
            job.id,
            job.status()
        )),
    }
}

/// `provisional: 24 of 40 pages are settled`.
fn so_far(document: &ResultDocument) -> String {
    let is_settled = |page: &&PageResult| page.status == Some(PageStatus::Settled);
    let settled = document.pages.iter().filter(is_settled).count();
    let pages = human::count(document.pages.len(), "page", "pages");
    format!("provisional: {settled} of {pages} settled; the others have their own text for now")
}

fn print(context: &Context, job: &Job, listing: Listing, line: &str) -> Result<(), Problem> {
    match listing.json {
        true => context.screen.print_json(&to_json(job)),
        false => context.screen.print_line(line),
    }
}

fn table(jobs: &[Job], now: jiff::Timestamp) -> Table {
    let mut table =
        Table::new(["JOB", "STATUS", "PAGES", "AI", "TOOK", "WHEN", "DOCUMENT"]).right(&[2, 3, 4]);
    for job in jobs {
        let pages = job.survey.as_ref().map(|survey| survey.page_count().to_string());
        let ai = match (&job.result, &job.plan) {
            (Some(result), _) => {
                format!("{}/{}", result.metadata.ai_pages_succeeded, result.metadata.ai_pages)
            }
            (None, Some(plan)) => format!("-/{}", plan.ai_pages),
            (None, None) => "-".into(),
        };
        let took = job.finished_at.map(|finished| human::between(job.received_at, finished));
        table.row([
            job.id.to_string(),
            job.status().to_string(),
            pages.unwrap_or_else(|| "-".into()),
            ai,
            took.unwrap_or_else(|| "-".into()),
            human::ago(job.received_at, now),
            job.received.document.name.clone(),
        ]);
    }
    table
}

async fn show(context: &Context, app: &App, job: &Job, listing: Listing) -> Result<(), Problem> {
    let screen = &context.screen;
    let document = results::read_document(app.blobs.as_ref(), job, None).await?;
    let unpublished = document_so_far(app, job).await?;
    if listing.json {
        let mut value = to_json(job);
        value["pages"] = match &unpublished {
            Some(document) => json!(page_groups::groups(document)),
            None => json!(document.iter().flat_map(summary::origins).collect::<Vec<_>>()),
        };
        return screen.print_json(&value);
    }
    let (received, options) = (&job.received, &job.received.options);
    let mut rows = vec![
        ("job", job.id.to_string()),
        ("document", format!("{} ({})", received.document.name, human::bytes(received.document.bytes))),
        ("status", format!("{} ({})", summary::status(job), job.state)),
        (
            "received",
            format!(
                "{} ({})",
                human::time(job.received_at),
                human::ago(job.received_at, app.store.clock.now())
            ),
        ),
    ];
    match job.finished_at {
        Some(finished) => rows.push((
            "finished",
            format!("{} (after {})", human::time(finished), human::between(job.received_at, finished)),
        )),
        None if job.is_waiting() => {
            let ahead =
                app.admission.ahead(job).await?.map_or_else(String::new, |ahead| format!("; {ahead}"));
            rows.push(("waiting", format!("for room, as more documents than MAX_OPEN_JOBS are open{ahead}")));
        }
        None => rows.push(("deadline", human::time(job.deadline))),
    }
    rows.push((
        "options",
        format!("pages {}, tier {}, {} first", options.pages, options.tier, options.provider),
    ));
    if let Some(survey) = &job.survey {
        rows.push((
            "pages",
            format!(
                "{} ({} plain text, {} with graphics)",
                survey.page_count(),
                survey.text_only,
                survey.has_graphics
            ),
        ));
    }
    if let Some(plan) = &job.plan {
        let pages = human::count(plan.ai_pages as usize, "page", "pages");
        let reasons = Some(plan.reasons_in_words(options.ai_pages)).filter(|words| !words.is_empty());
        let reasons = reasons.map(|words| format!(": {words}")).unwrap_or_default();
        rows.push(("plan", format!("{pages} for AI{reasons}")));
        rows.extend(plan.no_ai_reason.clone().map(|reason| ("no AI", reason)));
        if job.state == State::Proposed {
            rows.extend(plan.approval.clone().map(|reason| ("approval", reason)));
        }
    }
    rows.extend(
        job.failure.as_ref().map(|failure| ("failure", format!("{} ({})", failure.reason, failure.code))),
    );
    if let Some(result) = &job.result {
        rows.extend(human::money(result.metadata.cost_micro_usd).map(|cost| ("cost", cost)));
        rows.push((
            "result",
            format!("version {}: {} jobs result {}", result.version, context.program, job.id),
        ));
    }
    let mut table = Table::new(["", ""]);
    for (name, value) in rows {
        table.row([name.to_owned(), value]);
    }
    let mut lines = table.lines(None);
    lines.extend(document.iter().flat_map(summary::origin_lines));
    lines.extend(unpublished.iter().flat_map(page_groups::lines));
    screen.print_line(&lines.join("\n"))
}

/// A job as JSON, without the hash that chains its events.
fn to_json(job: &Job) -> Value {
    let mut value = json!(job);
    value["status"] = json!(job.status());
    if let Some(fields) = value.as_object_mut() {
        fields.remove("head");
    }
    value
}

/// The named jobs, or all that ended long enough ago.
async fn ended(app: &App, which: &Ended) -> Result<Vec<JobId>, Problem> {
    let Some(time) = which.older_than else {
        let mut ids = Vec::new();
        for name in &which.ids {
            let id = find::job(app, name).await?.id;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        return Ok(ids);
    };
    let now = app.store.clock.now();
    let all = jobs::list(&app.store, &find::tenant(&app.settings), find::ALL).await?;
    let is_old =
        |job: &Job| job.state.is_terminal() && job.finished_at.is_some_and(|at| now >= after(at, time));
    Ok(all.into_iter().filter(is_old).map(|job| job.id).collect())
}
