//! `everypage notices`: what people were notified of, or are about to be.

use everypage_core::notices::{self, NoticeRecord, Progress};

use crate::{
    args::Listing, backend::Backend, exit::Exit, human, problem::Problem, settings::Context, table::Table,
};

pub async fn run(context: &Context, limit: usize, listing: Listing) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let (app, screen) = (backend.app(), &context.screen);
    let found = notices::all(&app.store, limit).await?;
    if listing.json {
        screen.print_json(&found)?;
    } else if found.is_empty() {
        screen.note("no notices");
    } else {
        let now = app.store.clock.now();
        let mut table = Table::new(["KIND", "TENANT", "SINCE", "SENT", "NOTICE"]);
        for notice in found {
            table.row([
                notice.kind.to_string(),
                notice.tenant.to_string(),
                human::ago(notice.at, now),
                sent(&notice),
                notice.subject.clone(),
            ]);
            for line in notice.body.lines() {
                table.row([String::new(), String::new(), String::new(), String::new(), format!("  {line}")]);
            }
        }
        screen.print(table.text().as_bytes())?;
    }
    Ok(Exit::Complete)
}

fn sent(notice: &NoticeRecord) -> String {
    let channels: Vec<String> = notice.sent_by.iter().map(ToString::to_string).collect();
    match (&notice.progress, &notice.last_error) {
        (Progress::Sent, _) => channels.join(", "),
        (Progress::Waiting, None) => "not yet".to_owned(),
        (Progress::Waiting, Some(error)) => {
            format!("not yet, {} tried, again {}: {error}", notice.attempts, human::time(notice.due))
        }
        (Progress::GivenUp, error) => format!("no: {}", error.as_deref().unwrap_or("unknown")),
    }
}
