//! `everypage config check` of a stack: its resources, and whether they can be used from here.

use everypage_aws::Stack;
use everypage_core::{
    ids::JobId,
    keys::blob,
    ports::{Fault, blobs::Blobs, records::Key},
    read::breakers,
    secret::Secret,
};
use serde_json::json;

use crate::{
    args::Listing,
    exit::Exit,
    problem::Problem,
    settings::{Context, StackAddress, connect},
    table::Table,
};

struct Resource<'a> {
    kind: &'static str,
    name: &'a str,
    /// `None` where no check is possible without a change.
    check: Option<Result<(), Fault>>,
}

impl Resource<'_> {
    fn reachable(&self) -> &'static str {
        match self.check {
            Some(Ok(())) => "yes",
            Some(Err(_)) => "no",
            None => "not checked",
        }
    }
}

/// Checks the resources. A stack's settings are its template's parameters.
pub async fn check(context: &Context, address: &StackAddress, listing: Listing) -> Result<Exit, Problem> {
    let (stack, screen) =
        (connect(context.settings()?, address, context.traces.clone()).await?, &context.screen);
    let resources = resources(&stack).await;
    let faults: Vec<String> = resources
        .iter()
        .filter_map(|resource| match &resource.check {
            Some(Err(fault)) => Some(format!("the {} can't be used: {fault}", resource.kind)),
            _ => None,
        })
        .collect();
    if listing.json {
        let resources: Vec<_> = resources
            .iter()
            .map(|resource| json!({ "resource": resource.kind, "name": resource.name, "reachable": resource.reachable() }))
            .collect();
        screen.print_json(&json!({
            "stack": address.stack, "endpoint": address.endpoint, "resources": resources, "faults": faults,
        }))?;
    } else {
        let mut table = Table::new(["RESOURCE", "REACHABLE", "NAME"]);
        for resource in &resources {
            table.row([resource.kind.to_owned(), resource.reachable().to_owned(), resource.name.to_owned()]);
        }
        screen.print(table.text().as_bytes())?;
    }
    for fault in &faults {
        screen.error(fault);
    }
    Ok(if faults.is_empty() { Exit::Complete } else { Exit::Failed })
}

async fn resources(stack: &Stack) -> Vec<Resource<'_>> {
    let (app, names) = (&stack.app, &stack.resources);
    let table = async {
        app.store.records_once.get(&Key::new("config-check", "config-check")).await?;
        breakers::all(&app.reader.breakers).await.map(drop)
    };
    // No job has this id: a correct answer is that there is no such blob.
    let no_blob = blob::source(&JobId::new("config-check"));
    let bucket = async { stack.blobs.get(&no_blob).await.map(drop) };
    let key = async { app.vault.seal(&Secret::new("config check")).await.map(drop) };
    let (table, bucket, key) = tokio::join!(table, bucket, key);
    let resource = |kind, name, check| Resource { kind, name, check };
    let mut all = vec![
        resource("table", &*names.table, Some(table)),
        resource("bucket", &names.bucket, Some(bucket)),
        resource("key", &names.key, Some(key)),
        resource("state machine", &names.state_machine, None),
        resource("event bus", &names.bus, None),
        resource("topic", &names.topic, None),
    ];
    // The queues were found by their URLs already.
    let queues = names.queues.values().chain(names.dead_letter_queues.values());
    all.extend(queues.map(|url| resource("queue", url, Some(Ok(())))));
    all
}
