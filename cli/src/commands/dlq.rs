//! `everypage dlq list|show|purge`: dead letters and their reasons.

use everypage_core::{
    app::App,
    dead_letters::{self, DeadLetter, Subject, purge},
};
use serde_json::{Value, json};

use crate::{
    args::{Dlq, Which},
    backend::Backend,
    confirm,
    exit::Exit,
    find, human,
    problem::Problem,
    settings::Context,
    table::Table,
};

pub async fn run(context: &Context, command: Dlq) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let (app, screen) = (backend.app(), &context.screen);
    match command {
        Dlq::List(listing) => {
            let dead_letters = dead_letters::waiting(&app.store, usize::MAX).await?;
            if listing.json {
                let dead_letters: Vec<Value> =
                    dead_letters.iter().map(|dead_letter| to_json(&dead_letter.value)).collect();
                screen.print_json(&dead_letters)?;
            } else if dead_letters.is_empty() {
                screen.note("no dead letters");
            } else {
                let mut table = Table::new(["ID", "SUBJECT", "RECEIVED", "SINCE", "REASON"]).right(&[2]);
                for dead_letter in dead_letters.into_iter().map(|dead_letter| dead_letter.value) {
                    table.row([
                        dead_letter.id.to_string(),
                        kind(&dead_letter.subject),
                        dead_letter.receive_count.to_string(),
                        human::ago(dead_letter.last_at, app.store.clock.now()),
                        dead_letter.reason.clone(),
                    ]);
                }
                screen.print(table.text().as_bytes())?;
            }
        }
        Dlq::Show { id, listing } => {
            let dead_letter = find::dead_letter(&app.store, &id).await?;
            if listing.json {
                screen.print_json(&to_json(&dead_letter))?;
            } else {
                let mut table = Table::new(["", ""]);
                for (name, value) in [
                    ("id", dead_letter.id.to_string()),
                    ("subject", subject(&dead_letter.subject)),
                    ("reason", dead_letter.reason.clone()),
                    ("receive count", dead_letter.receive_count.to_string()),
                    ("first", human::time(dead_letter.first_at)),
                    ("last", human::time(dead_letter.last_at)),
                    ("tenant", dead_letter.tenant.to_string()),
                    ("correlation", dead_letter.correlation_id.to_string()),
                    (
                        "message",
                        dead_letter.message.as_ref().map_or("none".into(), |message| {
                            format!(
                                "{} (stored, not shown: it contains document text)",
                                human::bytes(message.len() as u64)
                            )
                        }),
                    ),
                    ("next", format!("{} dlq redrive {}", context.program, dead_letter.id)),
                ] {
                    table.row([name.to_owned(), value]);
                }
                screen.print_line(&table.lines(None).join("\n"))?;
            }
        }
        Dlq::Purge { which, yes } => {
            let dead_letters = chosen(app, &which).await?;
            if dead_letters.is_empty() {
                screen.note("no dead letter to purge");
                return Ok(Exit::Complete);
            }
            let what = human::count(dead_letters.len(), "dead letter", "dead letters");
            if !yes
                && !confirm::ask(
                    &format!("Purge {what}?"),
                    "They and their messages are deleted permanently.",
                )?
            {
                screen.note("nothing was purged");
                return Ok(Exit::Cancelled);
            }
            backend.register().await?;
            for dead_letter in &dead_letters {
                purge(&app.store, &dead_letter.id, "cli").await?;
            }
            backend.flush().await?;
            screen.note(&format!("purged {what}"));
        }
        Dlq::Redrive(_) => unreachable!("dispatched to redrive.rs"),
    }
    Ok(Exit::Complete)
}

/// The dead letters that the arguments name; fails if one is unknown.
pub async fn chosen(app: &App, which: &Which) -> Result<Vec<DeadLetter>, Problem> {
    if which.all {
        let all = dead_letters::waiting(&app.store, usize::MAX).await?;
        return Ok(all.into_iter().map(|dead_letter| dead_letter.value).collect());
    }
    let mut dead_letters: Vec<DeadLetter> = Vec::new();
    for id in &which.ids {
        let dead_letter = find::dead_letter(&app.store, id).await?;
        if !dead_letters.iter().any(|known| known.id == dead_letter.id) {
            dead_letters.push(dead_letter);
        }
    }
    Ok(dead_letters)
}

/// The subject without its job, whose id is in the dead letter's id.
fn kind(subject: &Subject) -> String {
    match subject {
        Subject::Job { .. } => "document".into(),
        Subject::Page { page, .. } => format!("page {page}"),
        Subject::Webhook { .. } => "webhook".into(),
        Subject::Message => "message".into(),
    }
}

fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Job { job } => format!("job {job}"),
        Subject::Page { job, page } => format!("page {page} of job {job}"),
        Subject::Webhook { job: Some(job), .. } => format!("webhook of job {job}"),
        Subject::Webhook { job: None, delivery } => format!("webhook message {delivery}"),
        Subject::Message => "message".into(),
    }
}

/// Everything but the message, which contains document text.
fn to_json(dead_letter: &DeadLetter) -> Value {
    let mut value = json!(dead_letter);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("message");
        fields.remove("head");
    }
    value
}
