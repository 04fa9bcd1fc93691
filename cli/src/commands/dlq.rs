//! `everypage dlq list|show|purge`: what was given up, and why.

use everypage_core::{
    app::App,
    store::dead::{self, DeadLetter, Subject},
    usecases::redrive::purge,
};
use serde_json::{Value, json};

use crate::{
    args::{Dlq, Which},
    confirm,
    engine::Engine,
    exit::Exit,
    find, human,
    problem::Problem,
    settings::Context,
    table::Table,
};

pub async fn run(context: &Context, command: Dlq) -> Result<Exit, Problem> {
    let engine = Engine::open(context).await?;
    let (app, screen) = (engine.app(), &context.screen);
    match command {
        Dlq::List(listing) => {
            let letters = dead::waiting(app, usize::MAX).await?;
            if listing.json {
                let letters: Vec<Value> = letters.iter().map(|kept| told(&kept.value)).collect();
                screen.print_json(&letters)?;
            } else if letters.is_empty() {
                screen.note("no dead letters");
            } else {
                let mut table = Table::new(["ID", "WHAT", "TRIES", "SINCE", "REASON"]).right(&[2]);
                for letter in letters.into_iter().map(|kept| kept.value) {
                    table.row([
                        letter.id.to_string(),
                        kind(&letter.subject),
                        letter.attempts.to_string(),
                        human::ago(letter.last_at, app.clock.now()),
                        letter.reason.clone(),
                    ]);
                }
                screen.print(table.text().as_bytes())?;
            }
        }
        Dlq::Show { id, listing } => {
            let letter = find::letter(app, &id).await?;
            if listing.json {
                screen.print_json(&told(&letter))?;
            } else {
                let mut table = Table::new(["", ""]);
                for (name, value) in [
                    ("id", letter.id.to_string()),
                    ("subject", subject(&letter.subject)),
                    ("reason", letter.reason.clone()),
                    ("tries", letter.attempts.to_string()),
                    ("first", human::time(letter.first_at)),
                    ("last", human::time(letter.last_at)),
                    ("tenant", letter.tenant.to_string()),
                    ("correlation", letter.correlation_id.to_string()),
                    (
                        "message",
                        letter.message.as_ref().map_or("none".into(), |message| {
                            format!(
                                "{} (kept, not shown: it holds document text)",
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
                screen.note("there is no dead letter to purge");
                return Ok(Exit::Complete);
            }
            let what = human::count(letters.len(), "dead letter", "dead letters");
            if !yes && !confirm::ask(&format!("Purge {what}?"), "They and their messages are gone for good.")?
            {
                screen.note("nothing was purged");
                return Ok(Exit::Cancelled);
            }
            engine.enlist().await?;
            for letter in &letters {
                purge(app, &letter.id, "cli").await?;
            }
            engine.flush().await?;
            screen.note(&format!("purged {what}"));
        }
        Dlq::Redrive(_) => unreachable!("has a file of its own"),
    }
    Ok(Exit::Complete)
}

/// The letters that were named; all of them or an error.
pub async fn chosen(app: &App, which: &Which) -> Result<Vec<DeadLetter>, Problem> {
    if which.all {
        let all = dead::waiting(app, usize::MAX).await?;
        return Ok(all.into_iter().map(|kept| kept.value).collect());
    }
    let mut letters: Vec<DeadLetter> = Vec::new();
    for id in &which.ids {
        let letter = find::letter(app, id).await?;
        if !letters.iter().any(|known| known.id == letter.id) {
            letters.push(letter);
        }
    }
    Ok(letters)
}

/// In a listing the id says which job.
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

/// Everything but the message, which holds document text.
fn told(letter: &DeadLetter) -> Value {
    let mut value = json!(letter);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("message");
        fields.remove("head");
    }
    value
}
