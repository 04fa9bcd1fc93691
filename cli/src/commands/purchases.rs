//! `everypage purchases`: purchases of credits, and those that need manual action.

use std::time::Duration;

use everypage_core::{
    app::App,
    billing::{
        buy::{self, PurchaseError, PurchaseRequest},
        purchase::Purchase,
        purchases,
    },
    ids::{PurchaseId, TenantId},
    sagas::{decide::Decision, definition::SagaStep, progress::State},
};

use super::account;
use crate::{
    args::Purchases,
    backend::Backend,
    commands::{only_local, password},
    exit::Exit,
    find, human,
    problem::Problem,
    screen::Screen,
    settings::Context,
    table::Table,
};

/// How long the command waits; a longer purchase continues at the next start, or in `serve`.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

pub async fn run(context: &Context, command: Purchases) -> Result<Exit, Problem> {
    if let Purchases::Buy { .. } = command {
        only_local(
            context,
            "`purchases buy` works on this machine; a stack sells credits through its API: POST /v1/account/credits",
        )?;
    }
    let backend = Backend::open(context).await?;
    let (app, screen) = (backend.app(), &context.screen);
    let named = |tenant| find::tenant_or_default(&app.settings, tenant);
    let (id, decision) = match command {
        Purchases::List { tenant, limit, listing } => {
            let all = purchases::list_page(&app.store, &named(tenant), None, limit).await?.items;
            list(screen, &all, listing.json, "no purchases yet")?;
            return Ok(Exit::Complete);
        }
        Purchases::Waiting(listing) => {
            let all = waiting(app).await?;
            list(screen, &all, listing.json, "no purchase needs manual action")?;
            return Ok(Exit::Complete);
        }
        Purchases::Show { id, tenant, listing } => {
            let purchase = known(app, &named(tenant), &id).await?;
            show(screen, &purchase, listing.json)?;
            return Ok(Exit::Complete);
        }
        Purchases::Buy { credits, tenant, method_stdin, key } => {
            let method = method_stdin.then(password::from_stdin).transpose()?;
            let request = PurchaseRequest {
                tenant: named(tenant),
                by: "cli".into(),
                credits,
                method,
                idempotency_key: key,
            };
            account::welcome(&backend, &request.tenant).await?;
            let (started, _) = buy::start(&app.billing, request).await?;
            return drive(&backend, screen, started).await;
        }
        Purchases::Resume { id } => (id, Decision::Resume),
        Purchases::Rollback { id, reason } => (id, Decision::RollBack { reason }),
        Purchases::Resolve { id, note } => (id, Decision::Resolve { note }),
    };
    let purchase = known(app, &find::tenant(&app.settings), &id).await?;
    backend.register().await?;
    let decided = buy::decide(&app.store, &purchase.id, "cli", decision).await?;
    drive(&backend, screen, decided).await
}

/// Drives the purchase as far as it gets, and prints its state.
async fn drive(backend: &Backend, screen: &Screen, purchase: Purchase) -> Result<Exit, Problem> {
    // A stack drives its purchases itself.
    let purchase = match backend {
        Backend::Local(_) => buy::drive(&backend.app().billing, &purchase.id, WAIT_LIMIT).await?,
        #[cfg(feature = "aws")]
        Backend::Aws(_) => purchase,
    };
    backend.flush().await?;
    screen.print_line(&sentence(&purchase, backend.later()))?;
    Ok(match purchase.progress.state {
        State::Compensated | State::Manual => Exit::Failed,
        _ => Exit::Complete,
    })
}

fn sentence(purchase: &Purchase, later: &str) -> String {
    let (id, credits) = (&purchase.id, human::count(purchase.order.credits as usize, "credit", "credits"));
    let because = purchase.progress.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match purchase.progress.state {
        State::Completed => format!("purchase {id} of {credits} is completed"),
        State::Compensated => format!("purchase {id} of {credits} was rolled back{because}"),
        State::Manual => format!("purchase {id} of {credits} needs manual action{because}"),
        State::Resolved => format!("purchase {id} of {credits} is resolved{because}"),
        State::Running | State::Compensating => {
            format!("purchase {id} of {credits} is {} and continues {later}", purchase.progress.state.name())
        }
    }
}

async fn waiting(app: &App) -> Result<Vec<Purchase>, Problem> {
    let all = purchases::list_manual(&app.store, find::ALL).await?;
    Ok(all.into_iter().map(|purchase| purchase.value).collect())
}

/// A purchase of the tenant, or of any tenant if it needs manual action or its whole id is given.
async fn known(app: &App, tenant: &TenantId, id: &str) -> Result<Purchase, Problem> {
    if let Some(found) = purchases::find(&app.store, &PurchaseId::new(id)).await? {
        return Ok(found.value);
    }
    let mut all = purchases::list_page(&app.store, tenant, None, find::ALL).await?.items;
    all.extend(waiting(app).await?.into_iter().filter(|purchase| purchase.order.tenant != *tenant));
    find::only(all, |purchase| purchase.id.as_str(), id, "purchase", "everypage purchases list")
}

fn list(screen: &Screen, purchases: &[Purchase], json: bool, none: &str) -> Result<(), Problem> {
    if json {
        return screen.print_json(&purchases);
    }
    if purchases.is_empty() {
        screen.note(none);
        return Ok(());
    }
    let mut table =
        Table::new(["ID", "TENANT", "STARTED", "CREDITS", "PRICE", "STATE", "REASON"]).right(&[3, 4]);
    for purchase in purchases {
        table.row([
            purchase.id.to_string(),
            purchase.order.tenant.to_string(),
            human::time(purchase.progress.started_at),
            purchase.order.credits.to_string(),
            format!("${:.2}", purchase.order.price_micro_usd.usd()),
            purchase.progress.state.name().to_owned(),
            purchase.progress.reason.clone().unwrap_or_default(),
        ]);
    }
    screen.print(table.text().as_bytes())
}

fn show(screen: &Screen, purchase: &Purchase, json: bool) -> Result<(), Problem> {
    if json {
        return screen.print_json(purchase);
    }
    list(screen, std::slice::from_ref(purchase), false, "")?;
    let mut table = Table::new(["STEP", "STATE", "TRIES", "REASON"]).right(&[2]);
    for record in &purchase.progress.steps {
        table.row([
            record.step.name().to_owned(),
            record.state.name().to_owned(),
            record.tries.to_string(),
            record.reason.clone().unwrap_or_default(),
        ]);
    }
    screen.print_line("")?;
    screen.print(table.text().as_bytes())
}

impl From<PurchaseError> for Problem {
    fn from(error: PurchaseError) -> Self {
        match error {
            PurchaseError::NotSetUp | PurchaseError::BadAmount { .. } => Self::Usage(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}
