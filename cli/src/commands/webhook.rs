//! `everypage webhook`: notifies a URL when a job ends.

use everypage_core::notify::webhooks;
use serde_json::json;

use crate::{args::Webhook, backend::Backend, exit::Exit, find, human, problem::Problem, settings::Context};

pub async fn run(context: &Context, command: Webhook) -> Result<Exit, Problem> {
    let backend = Backend::open(context).await?;
    let (app, screen) = (backend.app(), &context.screen);
    backend.register().await?;
    let named = |tenant| find::tenant_or_default(app, tenant);
    match command {
        Webhook::Set { url, tenant } => {
            let tenant = named(tenant);
            app.publisher
                .hooks
                .check(&url)
                .map_err(|reason| Problem::Usage(format!("{url} can't be used: {reason}")))?;
            let secret = webhooks::set(&app.store, app.vault.as_ref(), &tenant, &url, "cli").await?;
            screen.print_line(secret.expose())?;
            screen.note(&format!(
                "ended jobs of tenant {tenant} are posted to {url}; this secret signs the messages and can't be shown again"
            ));
        }
        Webhook::Show { tenant, listing } => {
            let tenant = named(tenant);
            match webhooks::of_tenant(&app.store, &tenant).await? {
                found if listing.json => {
                    let found = found.map(|hook| json!({ "url": hook.url, "created_at": hook.created_at }));
                    screen.print_json(&found)?;
                }
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
            screen.print_line(&match webhooks::unset(&app.store, &tenant, "cli").await? {
                true => format!("the webhook of tenant {tenant} is removed"),
                false => format!("tenant {tenant} had no webhook"),
            })?;
        }
    }
    backend.flush().await?;
    Ok(Exit::Complete)
}
