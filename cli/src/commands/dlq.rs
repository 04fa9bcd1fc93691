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
            let letters = dead_letters::waiting(&app.store, usize::MAX).await?;
            if listing.json {
                let letters: Vec<Value> = letters.iter().map(|letter| to_json(&letter.value)).collect();
                screen.print_json(&letters)?;
            } else if letters.is_empty() {
                screen.note("no dead letters");
            } else {
                let mut table = Table::new(["ID", "SUBJECT", "RECEIVED", "SINCE", "REASON"]).right(&[2]);
                for letter in letters.into_iter().map(|letter| letter.value) {
                    table.row([
                        letter.id.to_string(),
                        kind(&letter.subject),
                        letter.receive_count.to_string(),
                        human::ago(letter.last_at, app.store.clock.now()),
                        letter.reason.clone(),
                    ]);
                }
                screen.print(table.text().as_bytes())?;
            }
        }
        Dlq::Show { id, listing } => {
            let letter = find::dead_letter(app, &id).await?;
            if listing.json {
                screen.print_json(&to_json(&letter))?;
            } else {
                let mut table = Table::new(["", ""]);
                for (name, value) in [
                    ("id", letter.id.to_string()),
                    ("subject", subject(&letter.subject)),
                    ("reason", letter.reason.clone()),
                    ("receive count", letter.receive_count.to_string()),
                    ("first", human::time(letter.first_at)),
                    ("last", human::time(letter.last_at)),
                    ("tenant", letter.tenant.to_string()),
                    ("correlation", letter.correlation_id.to_string()),
                    (
                        "message",
                        letter.message.as_ref().map_or("none".into(), |message| {
                            format!(
                                "{} (stored, not shown: it contains document text)",
                                human::bytes(message.len() as u64)
                            )
                        }),
                    ),
                    ("next", format!("{} dlq redrive {}", context.program, letter.id)),
                ] {
                    table.row([name.to_owned(), value]);
                }
                screen.print_line(&table.lines(None).join("\n"))?;
            }
        }
        Dlq::Purge { which, yes } => {
            let letters = chosen(app, &which).await?;
            if letters.is_empty() {
                screen.note("no dead letter to purge");
                return Ok(Exit::Complete);
            }
            let what = human::count(letters.len(), "dead letter", "dead letters");
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
            for letter in &letters {
                purge(&app.store, &letter.id, "cli").await?;
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
        return Ok(all.into_iter().map(|letter| letter.value).collect());
    }
    let mut letters: Vec<DeadLetter> = Vec::new();
    for id in &which.ids {
        let letter = find::dead_letter(app, id).await?;
        if !letters.iter().any(|known| known.id == letter.id) {
            letters.push(letter);
        }
    }
    Ok(letters)
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
        Subject::Webhook { job, .. } => format!("webhook of job {job}"),
        Subject::Message => "message".into(),
    }
}

/// Everything but the message, which contains document text.
fn to_json(letter: &DeadLetter) -> Value {
    let mut value = json!(letter);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("message");
        fields.remove("head");
    }
    value
}
