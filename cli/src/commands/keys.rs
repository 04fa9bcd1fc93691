//! `everypage keys`: API keys.

use everypage_core::tenants::{
    api_keys::{self, ApiKey},
    caller::Caller,
};
use serde_json::json;

use super::account;
use crate::{
    args::Keys, backend::Backend, exit::Exit, find, human, problem::Problem, settings::Context, table::Table,
};

pub async fn run(context: &Context, command: Keys) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let (app, screen) = (backend.app(), &context.screen);
    backend.register().await?;
    let named = |tenant| find::tenant_or_default(&app.settings, tenant);
    match command {
        Keys::Create { tenant, role, name, listing } => {
            let name = name.unwrap_or_else(|| role.to_string());
            let caller = Caller { tenant: named(tenant), user: name.clone(), role };
            let (key, secret) = api_keys::create(&app.store, caller, &name, "cli").await?;
            account::welcome(&backend, &key.caller.tenant).await?;
            if listing.json {
                let mut created = json!(key);
                created["key"] = json!(secret.expose());
                screen.print_json(&created)?;
            } else {
                screen.print_line(secret.expose())?;
                screen.note(&format!(
                    "key {} ({name}) of tenant {}, role {role}; it can't be shown again",
                    key.id, key.caller.tenant
                ));
            }
        }
        Keys::List { tenant, listing } => {
            let tenant = named(tenant);
            let keys = api_keys::list(&app.store, &tenant).await?;
            if listing.json {
                screen.print_json(&keys)?;
            } else if keys.is_empty() {
                screen.note(&format!("tenant {tenant} has no keys; `everypage keys create` creates one"));
            } else {
                screen.print(table(&keys, app.store.clock.now()).text().as_bytes())?;
            }
        }
        Keys::Revoke { id, tenant } => {
            let tenant = named(tenant);
            let all = api_keys::list(&app.store, &tenant).await?;
            let key = find::only(all, |key| key.id.as_str(), &id, "key", "everypage keys list")?;
            api_keys::revoke(&app.store, &tenant, &key.id, "cli").await?;
            screen.print_line(&match key.revoked_at {
                Some(then) => {
                    format!("key {} was revoked already, {}", key.id, human::ago(then, app.store.clock.now()))
                }
                None => format!("key {} ({}) is revoked", key.id, key.label),
            })?;
        }
    }
    backend.flush().await?;
    Ok(Exit::Complete)
}

fn table(keys: &[ApiKey], now: jiff::Timestamp) -> Table {
    let mut table = Table::new(["ID", "ROLE", "CREATED", "REVOKED", "NAME"]);
    for key in keys {
        table.row([
            key.id.clone(),
            key.caller.role.to_string(),
            human::ago(key.created_at, now),
            key.revoked_at.map_or_else(|| "-".to_owned(), |then| human::ago(then, now)),
            key.label.clone(),
        ]);
    }
    table
}
