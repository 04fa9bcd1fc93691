//! `everypage webhook`: notifies URLs of events.

use everypage_core::{
    ids::TenantId,
    notify::{
        webhook as message,
        webhooks::{self, DEFAULT, Delivery, MAX_PER_TENANT, Progress, Subscription},
    },
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    args::{Listing, Webhook},
    backend::Backend,
    exit::Exit,
    find, human,
    problem::Problem,
    screen::Screen,
    settings::Context,
    table::Table,
};

pub async fn run(context: &Context, command: Webhook) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let (app, screen) = (backend.app(), &context.screen);
    backend.register().await?;
    let named = |tenant| find::tenant_or_default(&app.settings, tenant);
    match command {
        Webhook::Add { url, events, tenant } => {
            let tenant = named(tenant);
            check_url(&backend, &url)?;
            message::check_types(&events).map_err(|reason| Problem::Usage(format!("--events {reason}")))?;
            let (vault, about) = (app.vault.as_ref(), describe(&events));
            let wanted = Subscription { url: url.clone(), events };
            let added = webhooks::add(&app.store, vault, &tenant, &wanted, "cli").await?;
            let Some((hook, secret)) = added else {
                return Err(Problem::Usage(format!("tenant {tenant} has {MAX_PER_TENANT} webhooks already")));
            };
            screen.print_line(secret.expose())?;
            screen.note(&format!(
                "{about} of tenant {tenant} are posted to {url} (webhook {}); this secret signs the messages and can't be shown again",
                hook.id
            ));
        }
        Webhook::List { tenant, listing } => {
            show(screen, &webhooks::list(&app.store, &named(tenant)).await?, listing, app.store.clock.now())?;
        }
        Webhook::Remove { id, tenant } => {
            let tenant = named(tenant);
            let id = webhook_id(&backend, &tenant, &id).await?;
            webhooks::remove(&app.store, &tenant, &id, "cli").await?;
            screen.print_line(&format!("webhook {id} of tenant {tenant} is removed"))?;
        }
        Webhook::Deliveries { id, tenant, limit, listing } => {
            let tenant = named(tenant);
            let id = webhook_id(&backend, &tenant, &id).await?;
            let found = webhooks::deliveries(&app.store, &tenant, &id, None, limit).await?.items;
            show_deliveries(screen, &found, listing, app.store.clock.now())?;
        }
        Webhook::Set { url, tenant } => {
            let tenant = named(tenant);
            check_url(&backend, &url)?;
            let secret = webhooks::set(&app.store, app.vault.as_ref(), &tenant, &url, "cli").await?;
            screen.print_line(secret.expose())?;
            screen.note(&format!(
                "ended jobs of tenant {tenant} are posted to {url}; this secret signs the messages and can't be shown again"
            ));
        }
        Webhook::Show { tenant, listing } => {
            let tenant = named(tenant);
            match webhooks::of_tenant(&app.store, &tenant, DEFAULT).await? {
                found if listing.json => screen.print_json(&found.as_ref().map(to_json))?,
                Some(hook) => {
                    let since = human::ago(hook.created_at, app.store.clock.now());
                    screen.print_line(&format!("{} (set {since})", hook.url))?;
                }
                None => screen
                    .note(&format!("tenant {tenant} has no webhook; `everypage webhook set URL` sets one")),
            }
        }
        Webhook::Unset { tenant } => {
            let tenant = named(tenant);
            screen.print_line(&match webhooks::remove(&app.store, &tenant, DEFAULT, "cli").await? {
                true => format!("the webhook of tenant {tenant} is removed"),
                false => format!("tenant {tenant} had no webhook"),
            })?;
        }
    }
    backend.flush().await?;
    Ok(Exit::Complete)
}

fn check_url(backend: &Backend, url: &str) -> Result<(), Problem> {
    let checked = backend.app().publisher.hooks.check(url);
    checked.map_err(|reason| Problem::Usage(format!("{url} can't be used: {reason}")))
}

/// The id of the tenant's webhook that `id` is, or is a unique prefix of.
async fn webhook_id(backend: &Backend, tenant: &TenantId, id: &str) -> Result<String, Problem> {
    let ids = webhooks::list(&backend.app().store, tenant).await?.into_iter().map(|hook| hook.id);
    let matching: Vec<String> = ids.filter(|known| known.starts_with(id)).collect();
    match matching.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Problem::Usage(format!("tenant {tenant} has no webhook {id}; `webhook list` lists them"))),
        many if many.iter().any(|known| known == id) => Ok(id.to_owned()),
        _ => Err(Problem::Usage(format!("several webhooks start with {id}"))),
    }
}

fn describe(events: &[String]) -> String {
    match events {
        [] => "ended jobs".to_owned(),
        types => format!("events {}", types.join(", ")),
    }
}

fn to_json(hook: &webhooks::Webhook) -> Value {
    json!({ "id": hook.id, "url": hook.url, "events": hook.events, "created_at": hook.created_at })
}

fn show(
    screen: &Screen,
    found: &[webhooks::Webhook],
    listing: Listing,
    now: Timestamp,
) -> Result<(), Problem> {
    if listing.json {
        return screen.print_json(&found.iter().map(to_json).collect::<Vec<_>>());
    }
    if found.is_empty() {
        screen.note("no webhooks; `everypage webhook add URL` adds one");
        return Ok(());
    }
    let mut table = Table::new(["ID", "EVENTS", "SINCE", "URL"]);
    for hook in found {
        let since = human::ago(hook.created_at, now);
        table.row([hook.id.clone(), describe(&hook.events), since, hook.url.clone()]);
    }
    screen.print(table.text().as_bytes())
}

fn show_deliveries(
    screen: &Screen,
    found: &[Delivery],
    listing: Listing,
    now: Timestamp,
) -> Result<(), Problem> {
    let next = |delivery: &Delivery| (delivery.progress == Progress::Waiting).then_some(delivery.due);
    if listing.json {
        let found = found.iter().map(|delivery| {
            json!({
                "id": delivery.id,
                "type": delivery.kind,
                "job": delivery.job,
                "state": delivery.progress,
                "attempts": delivery.attempts,
                "created_at": delivery.created_at,
                "next_attempt_at": next(delivery),
                "last_error": delivery.last_error,
            })
        });
        return screen.print_json(&found.collect::<Vec<_>>());
    }
    if found.is_empty() {
        screen.note("no messages");
        return Ok(());
    }
    let mut table = Table::new(["ID", "TYPE", "SINCE", "STATE", "ATTEMPTS", "NEXT", "LAST ERROR"]);
    for delivery in found {
        table.row([
            delivery.id.clone(),
            delivery.kind.clone(),
            delivery.created_at.map(|at| human::ago(at, now)).unwrap_or_default(),
            delivery.progress.to_string(),
            delivery.attempts.to_string(),
            next(delivery).map(human::time).unwrap_or_default(),
            delivery.last_error.clone().unwrap_or_default(),
        ]);
    }
    screen.print(table.text().as_bytes())
}
