//! `everypage config check` with a stack: where its parts are, and whether they answer.

use everypage_aws::Stack;
use everypage_core::{
    domain::secret::Secret,
    ports::{Fault, blobs::Blobs, records::Key},
    store::breakers,
};
use serde_json::json;

use crate::{
    args::Listing,
    exit::Exit,
    problem::Problem,
    settings::{Context, StackAddress, connect},
    table::Table,
};

/// Never there; that it is not is an answer.
const NOTHING: &str = "jobs/none/config-check";

struct Part<'a> {
    what: &'static str,
    name: &'a str,
    /// `None` where nothing can be asked without changing something.
    answer: Option<Result<(), Fault>>,
}

impl Part<'_> {
    fn answers(&self) -> &'static str {
        match self.answer {
            Some(Ok(())) => "yes",
            Some(Err(_)) => "no",
            None => "not asked",
        }
    }
}

/// What can be seen from here. A stack's settings are its template's parameters.
pub async fn check(context: &Context, address: &StackAddress, listing: Listing) -> Result<Exit, Problem> {
    let (stack, screen) =
        (connect(context.settings()?, address, context.traces.clone()).await?, &context.screen);
    let parts = parts(&stack).await;
    let faults: Vec<String> = parts
        .iter()
        .filter_map(|part| match &part.answer {
            Some(Err(fault)) => Some(format!("the {} does not answer as it should: {fault}", part.what)),
            _ => None,
        })
        .collect();
    if listing.json {
        let parts: Vec<_> = parts
            .iter()
            .map(|part| json!({ "part": part.what, "name": part.name, "answers": part.answers() }))
            .collect();
        screen.print_json(&json!({
            "stack": address.stack, "endpoint": address.endpoint, "parts": parts, "faults": faults,
        }))?;
    } else {
        let mut table = Table::new(["PART", "ANSWERS", "NAME"]);
        for part in &parts {
            table.row([part.what.to_owned(), part.answers().to_owned(), part.name.to_owned()]);
        }
        screen.print(table.text().as_bytes())?;
    }
    for fault in &faults {
        screen.error(fault);
    }
    Ok(if faults.is_empty() { Exit::Complete } else { Exit::Failed })
}

async fn parts(stack: &Stack) -> Vec<Part<'_>> {
    let (app, resources) = (&stack.app, &stack.resources);
    let table = async {
        app.records_once.get(&Key::new("config-check", "config-check")).await?;
        breakers::all(app).await.map(drop)
    };
    let bucket = async { stack.blobs.get(NOTHING).await.map(drop) };
    let key = async { app.vault.seal(&Secret::new("config check")).await.map(drop) };
    let (table, bucket, key) = tokio::join!(table, bucket, key);
    let part = |what, name, answer| Part { what, name, answer };
    let mut parts = vec![
        part("table", &*resources.table, Some(table)),
        part("bucket", &resources.bucket, Some(bucket)),
        part("key", &resources.key, Some(key)),
        part("state machine", &resources.state_machine, None),
        part("event bus", &resources.bus, None),
        part("topic", &resources.topic, None),
    ];
    // The queues have answered already: that is how the stack was found.
    let queues = resources.queues.values().chain(resources.dead_letter_queues.values());
    parts.extend(queues.map(|url| part("queue", url, Some(Ok(())))));
    parts
}
