//! `everypage webhook`: where a tenant is told of the ends of its jobs.

use everypage_core::{domain::ids::TenantId, store::webhooks};
use serde_json::json;

use crate::{args::Webhook, engine::Engine, exit::Exit, find, human, problem::Problem, settings::Context};

pub async fn run(context: &Context, command: Webhook) -> Result<Exit, Problem> {
    let engine = Engine::open(context).await?;
    let (app, screen) = (engine.app(), &context.screen);
    let named = |tenant: Option<String>| tenant.map_or_else(|| find::tenant(app), TenantId::new);
    match command {
        Webhook::Set { url, tenant } => {
            let tenant = named(tenant);
            app.hooks.check(&url).map_err(|why| Problem::Usage(format!("{url} can't be used: {why}")))?;
            let secret = webhooks::set(app, &tenant, &url).await?;
            screen.print_line(secret.expose())?;
            screen.note(&format!(
                "tenant {tenant} is told at {url}; messages are signed with this secret, which can't be shown again"
            ));
        }
        Webhook::Show { tenant, listing } => {
            let tenant = named(tenant);
            match webhooks::of_tenant(app, &tenant).await? {
                found if listing.json => {
                    let found = found.map(|hook| json!({ "url": hook.url, "created_at": hook.created_at }));
                    screen.print_json(&found)?;
                }
                Some(hook) => {
                    let since = human::ago(hook.created_at, app.clock.now());
                    screen.print_line(&format!("{} (set {since})", hook.url))?;
                }
                None => screen
                    .note(&format!("tenant {tenant} has no webhook; `everypage webhook set URL` sets one")),
            }
        }
        Webhook::Unset { tenant } => {
            let tenant = named(tenant);
            screen.print_line(&match webhooks::unset(app, &tenant).await? {
                true => format!("tenant {tenant} is told of nothing any more"),
                false => format!("tenant {tenant} had no webhook"),
            })?;
        }
    }
    Ok(Exit::Complete)
}
